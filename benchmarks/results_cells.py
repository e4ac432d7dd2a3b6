"""Cells of the results pages: ours, and what the paper prints."""

from __future__ import annotations

from mixseg.experiments.paper import EXPERIMENTS
from mixseg.experiments.plan import Cell
from mixseg.experiments.planner import outputs_of
from mixseg.methods.outputs import teacher_first
from mixseg.report.experiment.results import NOT_RUN, Spread
from mixseg.report.experiment.tables import MEASURES, score_cells, value_text
from mixseg.report.experiment.tables_paper import METRICS, paper_value
from results_groups import Group

Plain = dict[tuple[str, str], Group]
"""The runs of the preset ``paper`` as it is, by setting and method."""
Theirs = dict[str, float | None]
"""What the paper has of one output, by metric."""
SETS = {"acdc": ("set-3", "set-5", "set-10"), "la": ("set-3", "set-5")}
"""Those that the train scans at hand suffice for: of 30 atria, Set-10 would take 60."""
ROLES = {"bottom": "student", "top": "teacher"}
FACTORS = dict(MEASURES.values())


def printed(dataset: str, column: str, *experiments: str) -> dict[str, dict[str, Theirs]]:
    """The rows and outputs of which the paper prints values at one setting, in the order of its tables."""
    found: dict[str, dict[str, Theirs]] = {}
    for name in experiments:
        for row in EXPERIMENTS[name].rows:
            cell = Cell(row.label, column, outputs_of(row))
            for output in teacher_first(outputs_of(row)):
                theirs = {metric: paper_value(dataset, name, cell, output, metric) for metric in METRICS}
                if theirs["dsc"] is not None:
                    found.setdefault(row.label, {})[output] = theirs
    return found


def cells(group: Group | None, output: str, theirs: Theirs) -> list[str]:
    """Seeds, and for each metric ours (last, best) and the paper's."""

    def score(metric: str, checkpoint: str) -> Spread | None:
        return group and group.score(metric, part="test", output=output, checkpoint=checkpoint)

    last = score("dsc", "last")
    return [str(last.seeds if last else 0), *score_cells(score, theirs, NOT_RUN)]


def ours(group: Group | None, metric: str, output: str, *, part: str = "test", checkpoint: str = "last") -> str:
    """One value over seeds, with nothing held against it."""
    found = group and group.score(metric, part=part, output=output, checkpoint=checkpoint)
    return value_text(found, FACTORS[metric], otherwise=NOT_RUN)
