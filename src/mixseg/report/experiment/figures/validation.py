"""Validation DSC through training of several rows of a table, seeds taken together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mixseg.report.figures import seeds
from mixseg.report.figures.curves import STEP
from mixseg.report.figures.seeds import Curve
from mixseg.report.figures.style import legend, name_axes, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def validation(curves: Sequence[Curve], title: str) -> Figure:
    """One curve per row."""
    figure, (axes,) = panels(1, columns=1, size=(8.6, 4.2))
    for number, curve in enumerate(curves):
        seeds.draw(axes, curve, number)
    name_axes(axes, title, STEP, "DSC on the validation scans (%)")
    axes.set_ylim(0, 100)
    legend(axes)
    return figure
