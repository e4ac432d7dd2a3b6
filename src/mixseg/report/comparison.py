"""Several runs side by side: scores, paired tests, learning curves, and the same slices as each run marked them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from mixseg.core.errors import enumerated
from mixseg.core.files import replacing
from mixseg.evaluation.scores import difference_text, p_text, wilcoxon
from mixseg.inference.report_slices import Example
from mixseg.methods.outputs import short_name, student_and_teacher
from mixseg.report.contenders import Contender, common_part, folder_names, gather, score_lines, verdict
from mixseg.report.figures import curves
from mixseg.report.figures.pictures import Strip, gallery
from mixseg.report.figures.scans import strips
from mixseg.report.figures.style import as_html
from mixseg.report.html import Html, joined, page, paragraph, table
from mixseg.report.run_files import dsc_by_case
from mixseg.report.wording import IN_VOXELS, MISSED, part_name

SHOWN = 2
"""How many of the hardest scans are shown, and how many of the easiest."""


def write_comparison(runs: Sequence[Path], out: Path) -> Path:
    """Write a page at ``out`` that compares the finished runs in ``runs``; the first one is what others are held to."""
    contenders = gather(runs)
    part = common_part(contenders)
    title = "Comparison of " + enumerated([contender.name for contender in contenders], " and ")
    body = [
        ("Scores", _scores(contenders, part)),
        ("Paired tests", _tests(contenders, part)),
        ("Every scan", _scans(contenders, part)),
        ("Learning curves", _curves(contenders)),
        ("The same slices", _pictures(contenders, part)),
        ("Runs", _folders(contenders)),
    ]
    content = page(title, [each for each in body if each[1]], lead=verdict(contenders, part))
    with replacing(out) as temporary:
        temporary.write_text(content, encoding="utf-8")
    return out


def comparison_rows(runs: Sequence[Path]) -> list[tuple[str, ...]]:
    """The table of scores as lines of text, the head first: one line per method and output."""
    contenders = gather(runs)
    return score_lines(contenders, common_part(contenders))


def _scores(contenders: Sequence[Contender], part: str) -> Html:
    head, *lines = score_lines(contenders, part)
    note = f"{part_name(part).capitalize()} scans, last checkpoint. Mean ± standard deviation over scans"
    note += " and seeds. " if any(len(contender.runs) > 1 for contender in contenders) else ". "
    note += MISSED if any("mm" in column for column in head) else f"{MISSED} {IN_VOXELS}"
    return joined([*_doubts(contenders, part), table(lines, head), paragraph(note, kind="soft")])


def _doubts(contenders: Sequence[Contender], part: str) -> list[Html]:
    """What makes a comparison unfair, said aloud."""
    runs = [run for contender in contenders for run in contender.runs]
    found = []
    if len({str(run.facts.get("data")) for run in runs}) > 1:
        found.append("The runs were trained on different data: differences are not those of the methods alone.")
    if len({frozenset(row.case for row in run.rows if row.part == part) for run in runs}) > 1:
        found.append("The runs were scored on different scans: the paired tests use the common ones, the means do not.")
    return [paragraph(sentence, kind="warning") for sentence in found]


def _tests(contenders: Sequence[Contender], part: str) -> Html:
    """Each method's answer against the others', and against its own teacher."""
    pairs = [((a, a.answer), (b, b.answer)) for b, a in combinations(contenders, 2)]
    for each in contenders:
        if two := student_and_teacher(each.branches):
            pairs.append(((each, two[0]), (each, two[1])))
    lines = []
    for (first, branch), (second, other) in pairs:
        found = wilcoxon(first.rows(part, branch), second.rows(part, other))
        names = (f"{of.name}, {short_name(which, of.branches)}" for of, which in ((first, branch), (second, other)))
        lines.append((*names, found.cases, difference_text(found.difference, 100), p_text(found.p)))
    if not lines:
        return Html("")
    note = "Two-sided Wilcoxon signed-rank test over scans, after the mean over classes and seeds of each scan; not "
    note += "corrected for the number of tests. With fewer than 6 scans no difference can reach p = 0.05."
    head = ("first", "second", "scans", "first - second, DSC (points)", "p")
    return joined([table(lines, head), paragraph(note, kind="soft")])


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
