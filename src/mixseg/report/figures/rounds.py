"""Scores against the round of self-training."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from mixseg.report.figures.style import INK, SOFT, line, name_axes, panels, plain

Drawn = tuple[str, Sequence[float], Sequence[Sequence[float]]]
"""What is measured, with its unit; the mean of each round; the values of each scan, one per round."""


def against_round(measures: Sequence[Drawn], numbers: Sequence[int], *, on: str) -> Figure:
    """A panel per measure: the mean of each round as a labelled curve, each scan as a thin line behind it."""
    figure, all_axes = panels(len(measures), columns=2, size=(5.2, 3.6))
    for axes, (what, means, scans) in zip(all_axes, measures, strict=True):
        for values in scans:
            axes.plot(numbers, values, color=SOFT, linewidth=0.7, alpha=0.35, zorder=1)
        axes.plot(numbers, means, **line(0), marker="o", markersize=5, zorder=3)
        for number, mean in zip(numbers, means, strict=True):
            axes.annotate(
                f"{mean:.1f}",
                (number, mean),
                xytext=(0, 7),
                textcoords="offset points",
                ha="center",
                fontsize=8.5,
                color=INK,
                bbox={"boxstyle": "round,pad=0.15", "color": "white", "alpha": 0.8},
            )
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        name_axes(axes, f"{plain(what.split(' (')[0])}, {on}", "round (0: the run that proposed first)", what)
    return figure
