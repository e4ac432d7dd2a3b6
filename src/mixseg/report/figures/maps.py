"""Maps of a probability side by side, with the border of the truth on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mixseg.core.types import Bytes
from mixseg.report.figures.pictures import Strip, around, outline, panels, tallness
from mixseg.report.figures.style import plain

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
    rows, boxes = [each.strip for each in strips], [each.box for each in strips]

    def draw(axes: Axes, head: str, number: int) -> Any:  # noqa: ANN401 - a mappable, for the bar
        return _panel(axes, head, strips[number], boxes[number])

    figure, grid, shown = panels(rows, tallness(rows, boxes), heads, draw, side=SIDE, rim=(1.2, 0.3))
    bar = figure.colorbar(shown, ax=grid.ravel().tolist(), shrink=0.6, aspect=25)
    bar.set_label(plain(what), fontsize=9)
    bar.ax.tick_params(labelsize=8)
    return figure


def _panel(axes: Axes, head: str, row: MapStrip, box: tuple[slice, slice]) -> Any:  # noqa: ANN401 - a mappable
    strip = row.strip
    drawing: dict[str, Any] = {"cmap": "gray", "interpolation": "nearest", "aspect": strip.aspect}
    if head in ("image", "truth"):
        axes.imshow(strip.image[box], vmin=0, vmax=255, **drawing)
        if head == "truth":
            outline(axes, strip.truth[box])
        return None
    # As light as it is probable: the same on every printer.
    shown = axes.imshow(row.maps[head][box] / 255, vmin=0, vmax=1, **drawing)
    outline(axes, strip.truth[box], thin=True)
    return shown
