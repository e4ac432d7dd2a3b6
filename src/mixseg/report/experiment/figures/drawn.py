"""What a figure of an experiment is: a picture with a title and a caption in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from mixseg.report.experiment.results import Filled, Results
from mixseg.report.experiment.tables import heading
from mixseg.report.wording import count, part_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Drawn(NamedTuple):
    """One figure.

    Attributes:
        name: Of its file, without a suffix.
        title: In plain words.
        figure: The picture.
        caption: What is to be seen, and from what it was made.
    """

    name: str
    title: str
    figure: Figure
    caption: str


def setting(results: Results, column: str) -> str:
    """Where a figure was made: ``Set-3 of acdc``."""
    return f"{heading(results.plan.columns, column)} of {results.plan.dataset}"


def seeds_of(filled: Sequence[Filled], *, shaded: bool) -> str:
    """What a curve is, and how the spread over seeds is shown: shaded, or as bars."""
    counts = sorted({len(each.runs) for each in filled})
    if counts == [1]:
        return "One seed."
    many = f"{counts[0]} to {counts[-1]} seeds" if len(counts) > 1 else count(counts[0], "seed")
    how = "shaded: from the lowest to the highest seed" if shaded else "bars: the standard deviation over seeds"
    return f"Mean of {many}; {how}."


def scored_on(results: Results) -> str:
    """``test scans``."""
    return f"{part_name(results.part)} scans"


def by_row(filled: tuple[Filled, ...]) -> dict[str, Filled]:
    """The cells of a column that have runs, by the label of their row."""
    return {each.cell.row: each for each in filled if each.runs}
