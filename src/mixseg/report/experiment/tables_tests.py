"""Which differences between the rows of a table hold over patients: paired tests, seeds drawn anew."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mixseg.methods.outputs import short_name, student_and_teacher
from mixseg.report import paired
from mixseg.report.experiment.results import Filled, Results
from mixseg.report.experiment.tables import Group, Table, heading, row_name
from mixseg.report.experiment.tables_paper import beside
from mixseg.report.paired import Side, Tested

MEASURES = {"DSC (points)": ("dsc", 100.0), "HD95 (voxels)": ("hd95_vox", 1.0)}
"""By head: the score, and what makes it points or voxels."""


def paired_tests(results: Results) -> dict[str, list[Tested]]:
    """By column: every answer against one that was settled beforehand, and each student against its teacher."""
    found = {}
    for column, filled in results.columns.items():
        if pairs := _pairs(results, [each for each in filled if each.runs]):
            found[column] = paired.tested(pairs, MEASURES)
    return found


def table_of_tests(results: Results, found: dict[str, list[Tested]]) -> Table | None:
    """The same as lines of text; None without any."""
    groups = tuple(Group(heading(results.plan.columns, column), paired.lines(tests)) for column, tests in found.items())
    reading = paired.reading(each for tests in found.values() for each in tests)
    return Table("Paired tests", paired.HEAD, paired.WORDS, groups, reading) if groups else None


def records_of_tests(found: dict[str, list[Tested]]) -> list[dict[str, object]]:
    """The same as numbers."""
    return [{"setting": column, **record} for column, tests in found.items() for record in paired.records(tests)]


def reference(results: Results, filled: Sequence[Filled]) -> Filled:
    """What the others are held against, chosen without a look at our scores: kl-ent, the paper's best, or the first."""
    named = [each for each in filled if each.cell.row == "kl-ent"]

    def theirs(each: Filled) -> float:
        value = beside(results.plan, each.cell, each.answer, "dsc")
        return -math.inf if value is None else value

    return named[0] if named else max(filled, key=theirs)


def _pairs(results: Results, filled: Sequence[Filled]) -> list[tuple[Side, Side]]:
    """Each curve, where there are several, has a reference of its own."""
    pairs = []
    for series in dict.fromkeys(each.cell.series for each in filled):
        own = [each for each in filled if each.cell.series == series]
        held = reference(results, own)
        pairs += [((held, held.answer), (each, each.answer)) for each in own if each is not held]
    for each in filled:
        if two := student_and_teacher(each.cell.outputs):
            pairs += [((each, two[0]), (each, two[1]))]
    return [(_side(results, *first), _side(results, *second)) for first, second in pairs]


def _side(results: Results, filled: Filled, output: str) -> Side:
    name = f"{row_name(results.plan, filled.cell.row)}, {short_name(output, filled.runs[0].branches)}"
    return Side(name, filled.trainings(results.part, output))
