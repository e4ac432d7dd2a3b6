"""Maps of a probability side by side, with the border of the truth on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from mixseg.report.figures.pictures import NOTE, Strip, around, outline
from mixseg.report.figures.style import INK, plain

Bytes = NDArray[np.uint8]
SIDE = 2.4
"""Inches of a panel."""


@dataclass(frozen=True)
class MapStrip:
    """One row of panels of the same slice, with maps in the place of label maps.

    Attributes:
        strip: The slice; notes go by the names of the maps.
        maps: Probabilities by panel name, 255 is 1.
    """

    strip: Strip
    maps: Mapping[str, Bytes]

    @property
    def box(self) -> tuple[slice, slice]:
        """The part that is worth showing: what is likelier than not counts as marked."""
        likely = {head: (each > 127).astype(np.uint8) for head, each in self.maps.items()}
        return around(replace(self.strip, labels=likely))


def probability_maps(strips: Sequence[MapStrip], what: str) -> Figure:
    """Image, truth, and a map of each name; ``what`` the maps show is said beside the scale."""
    heads = ["image", "truth", *strips[0].maps]
    boxes = [strip.box for strip in strips]
    sizes = [each.strip.image[box].shape for each, box in zip(strips, boxes, strict=True)]
    tall = [each.strip.aspect * size[0] / size[1] for each, size in zip(strips, sizes, strict=True)]
    size = (SIDE * len(heads) + 1.2, SIDE * sum(tall) + NOTE * len(strips) + 0.3)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(len(strips), len(heads), squeeze=False, gridspec_kw={"height_ratios": tall})
    shown: Any = None
    for number, (each, box, row) in enumerate(zip(strips, boxes, grid, strict=True)):
        for head, axes in zip(heads, row, strict=True):
            shown = _panel(axes, head, each, box) or shown
            axes.set_xticks([])
            axes.set_yticks([])
            if number == 0:
                axes.set_title(plain(head), fontsize=10, color=INK, fontweight="bold")
            axes.set_xlabel(plain(each.strip.notes.get(head, "")), fontsize=8.5, color=INK)
        row[0].set_ylabel(plain(each.strip.name), fontsize=8.5, color=INK)
    bar = figure.colorbar(shown, ax=grid.ravel().tolist(), shrink=0.6, aspect=25)
    bar.set_label(plain(what), fontsize=9)
    bar.ax.tick_params(labelsize=8)
    return figure


def _panel(axes: Axes, head: str, row: MapStrip, box: tuple[slice, slice]) -> Any:  # noqa: ANN401 - a mappable
    strip = row.strip
    look: dict[str, Any] = {"cmap": "gray", "interpolation": "nearest", "aspect": strip.aspect}
    if head in ("image", "truth"):
        axes.imshow(strip.image[box], vmin=0, vmax=255, **look)
        if head == "truth":
            outline(axes, strip.truth[box])
        return None
    # As light as it is probable: the same on every printer.
    shown = axes.imshow(row.maps[head][box] / 255, vmin=0, vmax=1, **look)
    outline(axes, strip.truth[box], thin=True)
    return shown
