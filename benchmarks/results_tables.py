"""The pages of docs/results and the README's table, made from runs.jsonl."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from mixseg.evaluation.scores import difference_text
from mixseg.report.experiment.results import NOT_RUN
from mixseg.report.experiment.tables import CHECKPOINTS, heading, score_head
from mixseg.report.experiment.tables_markdown import grid
from results_cells import FACTORS, ROLES, SETS, Plain, cells, ours, printed
from results_choosing import choosing_page, is_choice
from results_groups import Group, Record, gather
from results_strong import strong_page
from results_variants import costs, sweeps, variants

TITLES = {"acdc": "ACDC, left ventricle", "la": "Left atrium"}
TABLES = ("main", "semi-supervised", "proposals")
"""Those of the paper whose rows are methods."""
BEGIN, END = "<!-- results: made by `python benchmarks/results.py tables` -->", "<!-- end of results -->"

READING = """\
On the test patients, DSC in percent and HD95 in voxels of the 256x256 grid: mean over seeds of the mean over scans, and
± the standard deviation over seeds where there are several. *last* is the end of training, *best* the checkpoint with
the highest validation DSC of the method's answer. In brackets: the difference from the paper, whose values are means of
3 runs; which checkpoint it scored is not stated. "not run" means that there is no finished run."""

READING_LA = f"""\
{READING.replace("voxels of the 256x256 grid", "voxels")}

Why `kl-ent` fails on some of the scans here, and what tells so without their masks, is in
[deviations](../concepts/deviations.md#the-left-atrium). Of 30 train scans Set-10 cannot be made: it takes 60."""


CURVES = """\
## How training went

Drawn by `python benchmarks/results.py curves RUN_FOLDER...`. The grey band is the share of foreground in the full masks
that the run sees; a flag (!) is a warning of the collapse guard.

![validation DSC, loss terms and marked foreground through training](../pictures/{dataset}-curves.png)"""


def write_pages(records: Sequence[Record], root: Path) -> list[Path]:
    """Write the page of each data set that has runs, and the README's table; returns the files."""
    written = pages(records, root)
    for path, text in written.items():
        path.write_text(text)
    return list(written)


def pages(records: Sequence[Record], root: Path) -> dict[Path, str]:
    """Every file that is made from the records, and its text."""
    choices, published = ([each for each in records if is_choice(each) is wanted] for wanted in (True, False))
    groups = gather(published)
    found = {dataset: page(dataset, groups) for dataset in TITLES if any(each.dataset == dataset for each in groups)}
    if any(group.preset == "strong" for group in groups):
        found["strong"] = strong_page(groups)
    if choices:
        found["choosing"] = choosing_page(choices)
    readme = root / "README.md"
    block = with_block(readme.read_text(), readme_block(groups))
    return {**{root / "docs" / "results" / f"{name}.md": text for name, text in found.items()}, readme: block}


def with_block(text: str, block: str) -> str:
    """``text`` with ``block`` between the two markers."""
    return re.sub(f"{re.escape(BEGIN)}.*{re.escape(END)}", lambda _: f"{BEGIN}\n{block}\n{END}", text, flags=re.DOTALL)


def page(dataset: str, groups: Sequence[Group]) -> str:
    """The page of one data set."""
    groups = [group for group in groups if group.dataset == dataset and group.preset == "paper"]
    plain = {(group.column, group.method): group for group in groups if not group.changes}
    sections = [
        f"# {TITLES[dataset]}: ours beside the paper's",
        "Made from [runs.jsonl](runs.jsonl) by `python benchmarks/results.py tables`. [To repeat a row](README.md).",
        READING if dataset == "acdc" else READING_LA,
        *(f"## {heading('setting', each)}\n\n{maintable(dataset, each, plain)}" for each in (*SETS[dataset], "all")),
        f"## What the paper claims, at Set-3\n\n{claims(dataset, plain)}",
        CURVES.format(dataset=dataset),
        f"## Readings and variants\n\n{variants(groups, plain)}",
        *([f"## The paper's sweeps\n\n{sweeps(dataset, groups)}"] if dataset == "acdc" else []),
        f"## Runs\n\n{costs(groups)}",
    ]
    return "\n\n".join(sections) + "\n"


def maintable(dataset: str, column: str, plain: Plain) -> str:
    """Every method and output of one setting on the test patients."""
    rows = []
    for method, outputs in printed(dataset, column, *TABLES).items():
        for output, theirs in outputs.items():
            role = ROLES.get(output, output) if "bottom" in outputs else output
            rows.append((f"`{method}`", role, *cells(plain.get((column, method)), output, theirs)))
    return grid(("method", "output", "seeds", *score_head()), rows, words=2)


def claims(dataset: str, plain: Plain) -> str:
    """The differences that the paper's argument rests on, ours and theirs."""
    student, teacher = ("kl-ent", "bottom"), ("kl-ent", "top")
    pairs = {
        "`kl-ent` student above `lower-bound`": (student, ("lower-bound", "top")),
        "`kl-ent` student above `single`": (student, ("single", "top")),
        "`kl-ent` student above the student of `kl`": (student, ("kl", "bottom")),
        "`kl-ent` student above its own teacher": (student, teacher),
        "`kl` student above `lower-bound`": (("kl", "bottom"), ("lower-bound", "top")),
    }
    theirs = printed(dataset, "set-3", "main")
    rows = []
    for sentence, pair in pairs.items():
        first, second = (theirs[method][output]["dsc"] for method, output in pair)
        gaps = (_gap(plain, pair, checkpoint) for checkpoint in CHECKPOINTS)
        rows.append((sentence, *gaps, difference_text(first - second, 1.0)))
    useless = (ours(plain.get(("set-3", "decoupled")), "dsc", "bottom", checkpoint=each) for each in CHECKPOINTS)
    paper = f"{theirs['decoupled']['bottom']['dsc']:.2f}"
    rows.append(("DSC of the student of `decoupled`, which is useless", *useless, paper))
    return grid(("claim (DSC points, test)", *CHECKPOINTS, "paper"), rows, words=1)


def _gap(plain: Plain, pair: Iterable[tuple[str, str]], checkpoint: str) -> str:
    groups = ((plain.get(("set-3", method)), output) for method, output in pair)
    first, second = (
        group and group.score("dsc", part="test", output=output, checkpoint=checkpoint) for group, output in groups
    )
    return difference_text(first.mean - second.mean, FACTORS["dsc"]) if first and second else NOT_RUN


def readme_block(groups: Iterable[Group]) -> str:
    """The README's table: ACDC at Set-3, with the default and under the paper's protocol, beside the paper's own."""
    presets: dict[str, dict[str, Group]] = {"strong": {}, "paper": {}}
    for group in groups:
        if (group.dataset, group.column, group.changes) == ("acdc", "set-3", ()) and group.preset in presets:
            presets[group.preset][group.method] = group
    rows = []
    for method, outputs in printed("acdc", "set-3", "main").items():
        for output, theirs in outputs.items():
            role = ROLES.get(output, output) if "bottom" in outputs else ""
            found = (ours(of.get(method), metric, output) for of in presets.values() for metric in FACTORS)
            rows.append((f"`{method}`", role, *found, *(f"{value:.2f}" for value in theirs.values())))
    head = ("method", "output", "**default** DSC", "HD95", "paper's protocol DSC", "HD95", "the paper DSC", "HD95")
    return grid(head, rows, words=2)
