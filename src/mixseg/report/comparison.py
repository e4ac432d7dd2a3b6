"""Several runs side by side: scores with intervals, paired tests, learning curves, and the same slices of each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from mixseg.core.errors import enumerated
from mixseg.core.files import replacing
from mixseg.inference.report_slices import Example
from mixseg.methods.outputs import short_name, student_and_teacher
from mixseg.report import paired
from mixseg.report.contenders import (
    Contender,
    check_comparable,
    common_part,
    folder_names,
    gather,
    score_lines,
    score_records,
)
from mixseg.report.csv_tables import csv_text
from mixseg.report.experiment.page import table_html
from mixseg.report.experiment.tables import Group, Table
from mixseg.report.experiment.tables_latex import latex
from mixseg.report.experiment.tables_markdown import markdown
from mixseg.report.figures import curves
from mixseg.report.figures.pictures import Strip, gallery
from mixseg.report.figures.scans import strips
from mixseg.report.figures.style import as_html
from mixseg.report.html import Html, joined, page, paragraph, table
from mixseg.report.paired import Side, Tested
from mixseg.report.run_files import dsc_by_case
from mixseg.report.wording import IN_VOXELS, MISSED, count, part_name

SHOWN = 2
"""How many of the hardest scans are shown, and how many of the easiest."""
WORDS = 3
"""Columns of the scores that hold no numbers: method, output and class."""


@dataclass(frozen=True)
class Comparison:
    """Several methods and what was found of them.

    Attributes:
        contenders: The methods; the first one is what others are held to.
        part: The part of the split that all were scored on.
        tests: Every answer against the others', then each student against its own teacher.
    """

    contenders: tuple[Contender, ...]
    part: str
    tests: tuple[Tested, ...]

    @property
    def title(self) -> str:
        """What is compared."""
        return "Comparison of " + enumerated([contender.name for contender in self.contenders], " and ")

    @property
    def verdict(self) -> str:
        """Who is ahead, by how much, on whom; that nobody is, where the interval of the difference holds 0."""
        means = [each.estimate("dsc", self.part, each.answer) for each in self.contenders]
        order = sorted(range(len(means)), key=lambda number: np.nan_to_num(means[number].mean, nan=-math.inf))
        if len(order) == 1:
            (only,) = means
            where = f"{count(only.patients, f'{part_name(self.part)} patient')}, {count(only.seeds, 'seed')}"
            return f"{self.contenders[0].name} has {100 * only.mean:.1f} % DSC ({paired.span(only)}; {where})."
        pair = sorted((order[-1], order[-2] if order[-1] == 0 else 0))
        of_answers = [each for each in self.tests if each.metric == "dsc"]
        test = of_answers[list(combinations(range(len(means)), 2)).index((pair[0], pair[1]))]
        second, first = (self.contenders[number].name for number in pair)
        return paired.standing(test._replace(first=first, second=second), self.part)

    @property
    def tables(self) -> list[Table]:
        """The scores and, where there is anything to test, the tests: what is written in every format."""
        head, *lines = score_lines(self.contenders, self.part)
        where = f"{part_name(self.part).capitalize()} scans, last checkpoint"
        scores = Table(self.title, head, WORDS, (Group(where, tuple(lines)),), self._reading(head))
        if not self.tests:
            return [scores]
        tests = (Group(where, paired.lines(self.tests)),)
        return [scores, Table("Paired tests", paired.HEAD, paired.WORDS, tests, paired.reading(self.tests))]

    def _reading(self, head: Sequence[str]) -> str:
        several = any(len(contender.runs) > 1 for contender in self.contenders)
        sentences = [
            f"Mean ± standard deviation over scans{' and seeds' if several else ''}; the interval is that of the mean, "
            f"from a bootstrap over patients{' and seeds' if several else ''}.",
            *([] if several else [paired.ONE_SEED]),
            MISSED,
            *([] if any("mm" in column for column in head) else [IN_VOXELS]),
        ]
        return " ".join(sentences)


def compare_runs(runs: Sequence[Path], *, anyway: bool = False) -> Comparison:
    """The finished runs in ``runs`` as methods side by side.

    Args:
        runs: Run folders; those that differ in their seeds alone are one method.
        anyway: Compare runs of different data, or scored on different scans, all the same.

    Raises:
        MixsegError: A run has no scores, or the runs differ in more than their methods and settings.
    """
    contenders = tuple(gather(runs))
    part = common_part(contenders)
    if not anyway:
        check_comparable(contenders, part)
    return Comparison(contenders, part, tuple(_tests(contenders, part)))


def write_comparison(found: Comparison, out: Path) -> list[Path]:
    """Write the page ``out``, and beside it its tables in Markdown, LaTeX and CSV; the files, the page first."""
    scores, *tests = found.tables
    body = [
        ("Scores", joined([*_doubts(found), table_html(scores)])),
        ("Paired tests", joined(map(table_html, tests))),
        ("Every scan", _scans(found.contenders, found.part)),
        ("Learning curves", _curves(found.contenders)),
        ("The same slices", _pictures(found.contenders, found.part)),
        ("Runs", _folders(found.contenders)),
    ]
    names = (out.stem, f"{out.stem}-tests")
    contents = {
        out: page(found.title, [each for each in body if each[1]], lead=found.verdict),
        out.with_suffix(".md"): "\n".join(map(markdown, found.tables)),
        out.with_suffix(".tex"): "\n".join(map(latex, found.tables, names)),
        out.with_suffix(".csv"): csv_text(score_records(found.contenders, found.part)),
        out.with_name(f"{names[1]}.csv"): csv_text(paired.records(found.tests)),
    }
    for path, content in contents.items():
        with replacing(path) as temporary:
            temporary.write_text(content, encoding="utf-8")
    return list(contents)


def _doubts(found: Comparison) -> list[Html]:
    """What makes a comparison unfair, said aloud."""
    runs = [run for contender in found.contenders for run in contender.runs]
    warnings = []
    if len({str(run.facts.get("data")) for run in runs}) > 1:
        warnings.append("The runs were trained on different data: differences are not those of the methods alone.")
    if len({frozenset(row.case for row in run.rows if row.part == found.part) for run in runs}) > 1:
        warnings.append(
            "The runs were scored on different scans: the paired tests use the common ones, the means do not."
        )
    return [paragraph(sentence, kind="warning") for sentence in warnings]


def _tests(contenders: Sequence[Contender], part: str) -> list[Tested]:
    """Each method's answer against those before it, and against its own teacher."""
    pairs = [((a, a.answer), (b, b.answer)) for b, a in combinations(contenders, 2)]
    for each in contenders:
        if two := student_and_teacher(each.branches):
            pairs.append(((each, two[0]), (each, two[1])))
    sides = [(_side(*first, part), _side(*second, part)) for first, second in pairs]
    rows = (row for each in contenders for row in each.rows(part, each.answer))
    unit = "mm" if any(not math.isnan(row.hd95_mm) for row in rows) else "voxels"
    hd95 = "hd95_mm" if unit == "mm" else "hd95_vox"
    return paired.tested(sides, {"DSC (points)": ("dsc", 100.0), f"HD95 ({unit})": (hd95, 1.0)})


def _side(contender: Contender, branch: str, part: str) -> Side:
    return Side(f"{contender.name}, {short_name(branch, contender.branches)}", contender.trainings(part, branch))


def _scans(contenders: Sequence[Contender], part: str) -> Html:
    columns = [(each.name, dsc_by_case(each.rows(part, each.answer))) for each in contenders]
    caption = "DSC of each method's answer on each scan, last checkpoint, mean over classes and seeds. A thin line "
    caption += "joins the same scan, the bar is the mean. The name is that of the scan with the lowest DSC."
    return as_html(strips([(f"DSC, {part_name(part)}", columns)], wide=True), caption)


def _curves(contenders: Sequence[Contender]) -> Html:
    named = [(contender.name, run) for contender in contenders for run in contender.runs]
    return as_html(curves.overlaid(named), "Volume DSC on the validation scans during training, one curve per run.")


def _pictures(contenders: Sequence[Contender], part: str) -> Html:
    """Scans that are hard for all, and easy ones: chosen by the mean over the methods, so that none is favoured."""
    examples: dict[str, Example] = {}
    for run in (run for contender in contenders for run in contender.runs):
        for example in run.examples:
            if example.part == part:
                examples.setdefault(example.case, example)
    scored = [dsc_by_case(each.rows(part, each.answer)) for each in contenders]
    hardness = {case: float(np.mean([of.get(case, 0.0) for of in scored])) for case in examples}
    order = sorted(examples, key=lambda case: hardness[case])
    shown = order if len(order) <= 2 * SHOWN else [*order[:SHOWN], *order[-SHOWN:]]
    rows = [_strip(contenders, examples[case], scored) for case in shown]
    caption = "The scans with the lowest and the highest DSC in the mean of the methods, of those that the runs kept. "
    caption += "Coloured: the answer of each method (first seed, last checkpoint). White: the truth."
    return as_html(gallery(rows, contenders[0].runs[0].classes), caption)


def _strip(contenders: Sequence[Contender], example: Example, scored: Sequence[dict[str, float]]) -> Strip:
    return Strip(
        name=example.case,
        image=example.image,
        truth=example.truth,
        labels={each.name: each.runs[0].labels_on(example, each.answer) for each in contenders},
        notes={
            each.name: f"DSC of the scan {100 * of[example.case]:.1f} %"
            for each, of in zip(contenders, scored, strict=True)
            if example.case in of
        },
    )


def _folders(contenders: Sequence[Contender]) -> Html:
    found = [(each.name, run) for each in contenders for run in each.runs]
    folders = folder_names([run.path for _, run in found])
    lines = [
        (name, run.config.training.seed, run.config.training.steps, folder, run.facts.get("commit") or "-")
        for (name, run), folder in zip(found, folders, strict=True)
    ]
    return table(lines, ("method", "seed", "steps", "folder", "commit"))
