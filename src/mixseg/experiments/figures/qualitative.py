"""The same scans as every method of a table marked them."""

from __future__ import annotations

from mixseg.experiments.figures.drawn import Drawn, by_row, setting
from mixseg.experiments.figures.scans import CHOSEN, rows_of_methods
from mixseg.experiments.results import Results
from mixseg.experiments.tables import row_name
from mixseg.report.figures.pictures import gallery

MOST = 9
"""Methods beside each other; with more of them the panels are too small to judge a border."""
WIDEST = 13.0
"""Inches."""


def draw(results: Results) -> list[Drawn]:
    """One figure for each setting with at least two methods."""
    drawn = []
    for column, filled in results.columns.items():
        rows = list(by_row(filled).items())[:MOST]
        named = {row_name(results.plan, row): each for row, each in rows}
        strips = rows_of_methods(named, results.part) if len(named) > 1 else []
        figure = gallery(strips, next(iter(named.values())).runs[0].classes, widest=WIDEST) if strips else None
        if figure is not None:
            title = f"What each method marks, {setting(results, column)}"
            drawn.append(Drawn(f"qualitative-{column}", title, figure, CAPTION))
    return drawn


CAPTION = (
    "Image, truth, and the answer of each method (of two branches the student's), cut to what is marked. Coloured: the "
    "outline in that panel; tinted: a method that marks more than four times as much as there is. Thin and white: the "
    f"truth. Under a panel: DSC of the whole scan. {CHOSEN}"
)
