"""The same scans as every method of a table marked them."""

from __future__ import annotations

import math

from mixseg.report.experiment.figures.drawn import Drawn, by_row, setting
from mixseg.report.experiment.figures.scans import CHOSEN, rows_of_methods
from mixseg.report.experiment.results import Results
from mixseg.report.experiment.tables import row_name
from mixseg.report.figures.pictures import gallery

MOST = 9
"""Methods beside each other: more of them fill several figures, because smaller panels show no border."""
WIDEST = 13.0
"""Inches."""


def draw(results: Results) -> list[Drawn]:
    """A figure, or as many as it takes, for each setting with at least two methods."""
    drawn = []
    for column, filled in results.columns.items():
        rows = list(by_row(filled).items())
        parts = math.ceil(len(rows) / MOST) if len(rows) > 1 else 0
        for part in range(parts):
            # As many methods in each, give or take one.
            shown = rows[part * len(rows) // parts : (part + 1) * len(rows) // parts]
            strips = rows_of_methods({row_name(results.plan, row): each for row, each in shown}, results.part)
            figure = gallery(strips, shown[0][1].runs[0].classes, widest=WIDEST)
            if figure is not None:
                title = f"What each method marks, {setting(results, column)}"
                title += f" ({part + 1} of {parts})" if parts > 1 else ""
                name = f"qualitative-{column}" + (f"-{part + 1}" if part else "")
                drawn.append(Drawn(name, title, figure, CAPTION))
    return drawn


CAPTION = (
    "Image, truth, and the answer of each method (of two branches the student's), cut to what is marked. Coloured: the "
    "outline in that panel; tinted: a method that marks more than four times as much as there is. Thin and white: the "
    f"truth. Under a panel: DSC of the whole scan. {CHOSEN}"
)
