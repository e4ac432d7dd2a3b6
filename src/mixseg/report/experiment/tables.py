"""The table of an experiment as lines of text: ours over seeds, the paper's value, the difference; gaps say why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from mixseg.evaluation.metrics import METRICS
from mixseg.evaluation.scores import interval_text
from mixseg.evaluation.statistics import Estimate
from mixseg.experiments.plan import Plan
from mixseg.methods.outputs import short_name, teacher_first
from mixseg.report.experiment.results import Filled, Results, Spread
from mixseg.report.experiment.tables_paper import beside
from mixseg.report.paired import ONE_SEED
from mixseg.report.wording import count, part_name

CHECKPOINTS = ("last", "best")
MEASURES = {"DSC": ("dsc", 100.0), "HD95": ("hd95_vox", 1.0)}
"""By head: the score, and what makes it percent or voxels."""
NO_PAPER = "-"
INTERVAL = "95 % interval"
COSTS = {"scans": "partly labelled scans", "voxels": "labelled voxels", "strokes": "strokes"}
"""What the labels of a cell cost, by the name of the plan."""


@dataclass(frozen=True)
class Group:
    """Lines that belong together: one setting.

    Attributes:
        heading: Which.
        lines: One per row and output.
    """

    heading: str
    lines: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Table:
    """What is written as HTML, Markdown and LaTeX.

    Attributes:
        title: What it is called.
        head: Of its columns.
        words: So many columns at the left hold words, the others numbers.
        groups: Its lines.
        reading: How to read it, in sentences.
    """

    title: str
    head: tuple[str, ...]
    words: int
    groups: tuple[Group, ...]
    reading: str


def score_table(results: Results) -> Table:
    """Every cell of the plan: mean ± sd over seeds, its interval, in brackets the difference from the paper."""
    plan = results.plan
    values = (_theirs(results, each, output, "dsc") for each in results.filled for output in each.cell.outputs)
    held = any(value is not None for value in values)
    costs = [name for name in COSTS if any(name in each.cell.budget for each in results.filled)]
    head = (plan.varies, "output", "seeds", *(COSTS[name] for name in costs), *score_head(held=held, intervals=True))
    groups = (
        Group(
            heading(plan.columns, column),
            tuple(
                (*_names(each, output), *_costs(each, costs), *_scores(results, each, output, held=held))
                for each in filled
                for output in teacher_first(each.cell.outputs)
            ),
        )
        for column, filled in results.columns.items()
    )
    return Table(plan.title, head, 2, tuple(groups), _reading(results, held=held))


def score_head(*, held: bool = True, intervals: bool = False) -> Iterator[str]:
    """What stands above ``score_cells``."""
    for measure in MEASURES:
        for checkpoint in CHECKPOINTS:
            yield f"{measure} {checkpoint}"
            if intervals:
                yield INTERVAL
        if held:
            yield "paper"


def score_cells(
    score: Callable[[str, str], Spread | None],
    theirs: Mapping[str, float | None],
    otherwise: str,
    *,
    held: bool = True,
    within: Callable[[str, str], Estimate] | None = None,
) -> Iterator[str]:
    """Of each measure ``score(metric, checkpoint)`` against ``theirs[metric]``; ``otherwise`` without a value.

    Where ``within`` gives the interval of a mean, that follows.
    """
    for metric, factor in MEASURES.values():
        for checkpoint in CHECKPOINTS:
            yield value_text(score(metric, checkpoint), factor, theirs[metric], otherwise)
            if within is not None:
                yield interval_text(within(metric, checkpoint), factor)
        if held:
            yield NO_PAPER if (value := theirs[metric]) is None else f"{value:.2f}"


def heading(kind: str, column: str) -> str:
    """A column of the plan in words: "set-3" is Set-3, "all" is all train patients."""
    if kind != "setting":
        return f"{kind} {column}"
    words = {"all": "All train patients", "as-labelled": "Labels as they are in the files"}
    return words.get(column, column.replace("set-", "Set-"))


def row_name(plan: Plan, row: str) -> str:
    """A row outside its table: "weight 50" for a number, a name as it is."""
    return f"{plan.varies} {row}" if row.replace(".", "").isdigit() else row


def value_text(found: Spread | None, factor: float, reference: float | None = None, otherwise: str = "") -> str:
    """``56.02 ± 1.30 (-30.92)``: mean, sd over seeds, difference from ``reference``; ``otherwise`` without a value."""
    if found is None:
        return otherwise
    mean = factor * found.mean
    spread = "" if found.sd is None else f" ± {factor * found.sd:.2f}"
    return f"{mean:.2f}{spread}" + ("" if reference is None else f" ({mean - reference:+.2f})")


def score_records(results: Results) -> list[dict[str, object]]:
    """Every score of every output as numbers, as metrics.csv counts, for a table that programs read."""
    found: list[dict[str, object]] = []
    for each in results.filled:
        for output, checkpoint, metric in product(each.cell.outputs, CHECKPOINTS, METRICS):
            within = each.estimate(metric, part=results.part, output=output, checkpoint=checkpoint)
            over_seeds = each.score(metric, part=results.part, output=output, checkpoint=checkpoint)
            if over_seeds is None or not within.patients:
                continue
            where = {"row": each.cell.row, "setting": each.cell.column, "output": output, "checkpoint": checkpoint}
            theirs = {"paper": _theirs(results, each, output, metric)}
            found.append({**where, "score": metric, **within._asdict(), "sd_over_seeds": over_seeds.sd, **theirs})
    return found


def _names(filled: Filled, output: str) -> Iterator[str]:
    yield filled.cell.row
    yield short_name(output, filled.runs[0].branches if filled.runs else filled.cell.outputs)
    yield _seeds(filled)


def _costs(filled: Filled, names: Sequence[str]) -> Iterator[str]:
    """What the partial labels cost, where that was counted."""
    for name in names:
        yield f"{filled.cell.budget[name]:,.0f}" if name in filled.cell.budget else "not counted"


def _scores(results: Results, filled: Filled, output: str, *, held: bool) -> Iterator[str]:
    def score(metric: str, checkpoint: str) -> Spread | None:
        return filled.score(metric, part=results.part, output=output, checkpoint=checkpoint)

    def within(metric: str, checkpoint: str) -> Estimate:
        return filled.estimate(metric, part=results.part, output=output, checkpoint=checkpoint)

    theirs = {metric: _theirs(results, filled, output, metric) for metric, _ in MEASURES.values()}
    return score_cells(score, theirs, filled.why_empty or "not scored", held=held, within=within)


def _seeds(filled: Filled) -> str:
    done, asked = len(filled.runs), len(filled.runs) + len(filled.gaps)
    return str(done) if done == asked else f"{done} of {asked}"


def _theirs(results: Results, filled: Filled, output: str, metric: str) -> float | None:
    return beside(results.plan, filled.cell, output, metric)


def _reading(results: Results, *, held: bool) -> str:
    plan = results.plan
    rows = [row for each in results.filled for run in each.runs for row in run.rows if row.part == results.part]
    scans, patients = len({row.case for row in rows}), len({row.patient for row in rows})
    units = f"{scans} of {count(patients, 'patient')}" if scans != patients else f"{scans}"
    of_others = "" if plan.words else f"The paper prints no values of this on {plan.dataset}."
    sentences = [
        f"{part_name(results.part).capitalize()} scans ({units}); DSC in percent, HD95 in voxels of the training grid: "
        "the mean over seeds of the mean over scans, and ± the standard deviation over seeds where there are several. "
        "The interval is that of the mean, from a bootstrap over patients and, where there are several, over seeds.",
        "last is the end of training, best the checkpoint with the highest validation DSC of the method's answer.",
        "In brackets: the difference from the paper, whose values are means of 3 runs on its own split; which "
        "checkpoint it scored is not stated."
        if held
        else of_others,
    ]
    if any(len(each.runs) == 1 for each in results.filled):
        sentences.append(ONE_SEED)
    if plan.quick:
        sentences.append("A quick trial of few steps with small networks: its figures say nothing about the methods.")
    return " ".join(filter(None, sentences))
