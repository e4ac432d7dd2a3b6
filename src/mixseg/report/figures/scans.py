"""The DSC of every scan as a dot: a mean hides the scan that failed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mixseg.report.figures.style import COLOURS, INK, MARKERS, SOFT, folded, name_axes, panels, plain

Column = tuple[str, Mapping[str, float]]
"""A name, and DSC by scan."""


def strips(groups: Sequence[tuple[str, Sequence[Column]]], *, wide: bool = False) -> Figure | None:
    """One panel per group, one strip of dots per column; a line joins the dots of one scan.

    A group of one scan has no panel: its dots would say no more than a table does.

    Args:
        groups: Title and columns of each panel.
        wide: Whether the names of the columns are long.
    """
    groups = [(title, columns) for title, columns in groups if len({case for _, of in columns for case in of}) > 1]
    if not groups:
        return None
    most = max(len(columns) for _, columns in groups)
    width = 1.6 + most * (1.9 if wide else 1.1)
    figure, all_axes = panels(len(groups), columns=max(1, int(11 / width)), size=(width, 3.7))
    for axes, (title, columns) in zip(all_axes, groups, strict=True):
        _panel(axes, columns)
        name_axes(axes, title, "", "DSC (%)")
        axes.set_ylim(-8, 103)  # with room for the name of a scan at 0
        axes.set_xlim(-0.6, len(columns) - 0.4)
        axes.set_xticks(range(len(columns)), [folded(name, 24 if wide else 14) for name, _ in columns])
        axes.grid(visible=False, axis="x")
    return figure


def _panel(axes: Axes, columns: Sequence[Column]) -> None:
    cases = list(dict.fromkeys(case for _, values in columns for case in values))
    for case, offset in zip(cases, _spread(len(cases)), strict=True):
        heights = [100 * values.get(case, math.nan) for _, values in columns]
        at = np.arange(len(columns)) + offset
        axes.plot(at, heights, color=SOFT, linewidth=0.6, alpha=0.35, zorder=1)
        for number, height in enumerate(heights):
            drawing: dict[str, Any] = {
                "color": COLOURS[number % len(COLOURS)],
                "marker": MARKERS[number % len(MARKERS)],
            }
            axes.plot(at[number], height, **drawing, markersize=5, alpha=0.75, linestyle="", zorder=2)
    for number, (_, values) in enumerate(columns):
        if not values:
            continue
        mean = 100 * float(np.mean(list(values.values())))
        axes.plot([number - 0.3, number + 0.3], [mean, mean], color=INK, linewidth=2.2, zorder=3)
        axes.annotate(f"{mean:.1f}", (number + 0.32, mean), fontsize=8.5, color=INK, va="center")
        worst = min(values, key=lambda case: values[case])
        if number == 0 and len(values) > 1:
            below = 100 * values[worst] - 2.5  # the mean and its number are never there
            axes.annotate(plain(worst), (number, below), fontsize=7.5, color=SOFT, ha="center", va="top")


def _spread(count: int) -> list[float]:
    """Sideways shifts so that equal dots do not hide each other: the same for the same number of scans."""
    return [0.0] if count == 1 else [0.36 * (number / (count - 1) - 0.5) for number in range(count)]
