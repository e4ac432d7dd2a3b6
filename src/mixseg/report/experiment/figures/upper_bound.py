"""The student of kl-ent beside the network that had the full masks of the same scans."""

from __future__ import annotations

from mixseg.report.experiment.figures.drawn import Drawn, by_row, setting
from mixseg.report.experiment.figures.scans import CHOSEN, rows_of_methods
from mixseg.report.experiment.results import Results
from mixseg.report.figures.pictures import gallery

ROWS = {"kl-ent": "student of kl-ent", "upper-bound-set": "upper bound of the set"}


def draw(results: Results) -> list[Drawn]:
    """One figure for each setting in which both have runs."""
    drawn = []
    for column, filled in results.columns.items():
        rows = by_row(filled)
        if not set(ROWS) <= set(rows):
            continue
        strips = rows_of_methods({name: rows[row] for row, name in ROWS.items()}, results.part)
        figure = gallery(strips, rows["kl-ent"].runs[0].classes)
        if figure is not None:
            title = f"The student beside the upper bound, {setting(results, column)}"
            drawn.append(Drawn(f"upper-bound-{column}", title, figure, CAPTION))
    return drawn


CAPTION = (
    "The student learns from a few full masks and many partial labels; the upper bound of the set is one network with "
    "the full masks of all these scans. Coloured: the outline in that panel. Thin and white: the truth. Under a panel: "
    f"DSC of the whole scan. {CHOSEN}"
)
