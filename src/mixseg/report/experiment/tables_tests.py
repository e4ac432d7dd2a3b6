"""Which differences between the rows of a table hold over the scans: paired tests, seeds averaged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from mixseg.evaluation.scores import Comparison, difference_text, p_text, wilcoxon
from mixseg.evaluation.statistics import holm
from mixseg.experiments.plan import Plan
from mixseg.methods.outputs import short_name, student_and_teacher
from mixseg.report.experiment.results import Filled, Results
from mixseg.report.experiment.tables import MEASURES, Group, Table, heading, row_name
from mixseg.report.experiment.tables_paper import beside

READING = (
    "DSC and HD95: the mean over scans of first minus second. p: two-sided Wilcoxon signed-rank test over scans, after "
    "the mean over classes and seeds of each scan; last checkpoint; several scans of one patient count one by one. "
    "Holm: corrected for the number of tests in its block. With fewer than 6 scans no difference can reach p = 0.05. "
    "Seeds are averaged, not tested: the spread over seeds is in the table of scores."
)


class Pair(NamedTuple):
    """Two outputs to compare, each a cell and the name of an output."""

    first: tuple[Filled, str]
    second: tuple[Filled, str]


def paired_tests(results: Results) -> Table | None:
    """Every answer against one that was settled beforehand, and each student against its teacher; None without any."""
    groups = []
    for column, filled in results.columns.items():
        pairs = _pairs(results, [each for each in filled if each.runs])
        if pairs:
            groups.append(Group(heading(results.plan.columns, column), _lines(results, pairs)))
    head = ("first", "second", "scans", "DSC (points)", "p", "p, Holm", "HD95 (voxels)", "p", "p, Holm")
    return Table("Paired tests", head, 2, tuple(groups), READING) if groups else None


def reference(results: Results, filled: Sequence[Filled]) -> Filled:
    """What the others are held against, chosen without a look at our scores: kl-ent, the paper's best, or the first."""
    named = [each for each in filled if each.cell.row == "kl-ent"]

    def theirs(each: Filled) -> float:
        value = beside(results.plan, each.cell, each.answer, "dsc")
        return -math.inf if value is None else value

    return named[0] if named else max(filled, key=theirs)


def _pairs(results: Results, filled: Sequence[Filled]) -> list[Pair]:
    """Each curve, where there are several, has a reference of its own."""
    pairs = []
    for series in dict.fromkeys(each.cell.series for each in filled):
        own = [each for each in filled if each.cell.series == series]
        held = reference(results, own)
        pairs += [Pair((held, held.answer), (each, each.answer)) for each in own if each is not held]
    for each in filled:
        if found := student_and_teacher(each.cell.outputs):
            pairs.append(Pair((each, found[0]), (each, found[1])))
    return pairs


def _lines(results: Results, pairs: Sequence[Pair]) -> tuple[tuple[str, ...], ...]:
    names = [tuple(_name(results.plan, *of) for of in pair) for pair in pairs]
    rows = [tuple(each.rows(results.part, output) for each, output in pair) for pair in pairs]
    found = {metric: [wilcoxon(one, other, metric) for one, other in rows] for metric, _ in MEASURES.values()}
    columns = [names, [(str(each.cases),) for each in found["dsc"]]]
    for metric, factor in MEASURES.values():
        corrected = holm([each.p for each in found[metric]])
        columns.append([_said(each, p, factor) for each, p in zip(found[metric], corrected, strict=True)])
    return tuple(tuple(text for cells in line for text in cells) for line in zip(*columns, strict=True))


def _said(found: Comparison, corrected: float, factor: float) -> tuple[str, str, str]:
    return difference_text(found.difference, factor), p_text(found.p), p_text(corrected)


def _name(plan: Plan, filled: Filled, output: str) -> str:
    return f"{row_name(plan, filled.cell.row)}, {short_name(output, filled.runs[0].branches)}"
