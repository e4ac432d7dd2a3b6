"""Many slices of volumes: how far the answer follows the truth from one end of the structure to the other."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from mixseg.inference.report_slices import Montage
from mixseg.report.figures.pictures import name_outlines, outline
from mixseg.report.figures.style import INK, plain

WIDTH = 11.0
"""Inches of the figure."""


def montages(named: Sequence[tuple[str, Montage]], classes: Sequence[str]) -> Figure | None:
    """A montage below the other, each with what is said above it: the answer coloured, the truth thin and white."""
    if not named:
        return None
    tall = [one.pixel[1] * one.image.shape[0] / (one.pixel[0] * one.image.shape[1]) for _, one in named]
    height = WIDTH * sum(tall) + 0.35 * len(named) + 0.5
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    grid = figure.subplots(len(named), 1, squeeze=False, gridspec_kw={"height_ratios": tall})
    for axes, (name, one) in zip(grid[:, 0], named, strict=True):
        aspect = one.pixel[1] / one.pixel[0]
        axes.imshow(one.image, aspect=aspect, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
        outline(axes, one.truth, thin=True)
        outline(axes, one.answer)
        down, across = one.tile
        for number, index in enumerate(one.indices):
            row, column = divmod(number, one.columns)
            text = axes.text(column * across, row * down + 1, f" {index}", color="white", fontsize=8, va="top")
            text.set_path_effects([withStroke(linewidth=1.5, foreground="black")])
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_visible(False)
        axes.set_title(plain(name), fontsize=9.5, color=INK, loc="left")
    name_outlines(figure, classes, truth="truth")
    return figure
