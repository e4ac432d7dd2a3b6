"""The pages of docs/results and the README's table, made from runs.jsonl."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from results_cells import NOT_RUN, ROLES, SETS, Plain, cells, table, text
from results_groups import Group, Record, gather, paper_value
from results_strong import strong_page
from results_variants import costs, sweeps, variants

TITLES = {"acdc": "ACDC, left ventricle", "la": "Left atrium"}
DUAL = ("top", "bottom")
METHODS: dict[str, tuple[str, ...]] = {
    "lower-bound": ("top",),
    "single": ("top",),
    "single-ent": ("top",),
    "decoupled": DUAL,
    "kl": DUAL,
    "kl-ent": (*DUAL, "ensemble"),
    "upper-bound-set": ("top",),
}
"""The methods of the paper's main table with the outputs that it prints."""
OTHERS = {
    "ua-mt": ("student",),
    "glmi": ("top",),
    "ssco": ("teachers",),
    "proposals-lower-bound": ("top",),
    "proposals-kl": ("top",),
}
"""Those of its other tables, on ACDC: semi-supervised methods, and training on masks that a run proposes."""
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
    groups = gather(records)
    written = []
    for dataset in TITLES:
        if any(group.dataset == dataset for group in groups):
            path = root / "docs" / "results" / f"{dataset}.md"
            path.write_text(page(dataset, groups))
            written.append(path)
    if any(group.preset == "strong" for group in groups):
        strong = root / "docs" / "results" / "strong.md"
        strong.write_text(strong_page(groups))
        written.append(strong)
    readme = root / "README.md"
    readme.write_text(with_block(readme.read_text(), readme_block(groups)))
    return [*written, readme]


def with_block(text: str, block: str) -> str:
    """``text`` with ``block`` between the two markers."""
    return re.sub(f"{re.escape(BEGIN)}.*{re.escape(END)}", lambda _: f"{BEGIN}\n{block}\n{END}", text, flags=re.DOTALL)


def page(dataset: str, groups: Sequence[Group]) -> str:
    """The page of one data set."""
    groups = [group for group in groups if group.dataset == dataset and group.preset == "paper"]
    plain = {(group.n, group.method): group for group in groups if not group.changes}
    methods = {**METHODS, **(OTHERS if dataset == "acdc" else {})}
    sections = [
        f"# {TITLES[dataset]}: ours beside the paper's",
        "Made from [runs.jsonl](runs.jsonl) by `python benchmarks/results.py tables`. [To repeat a row](README.md).",
        READING if dataset == "acdc" else READING_LA,
        *(f"## Set-{n}\n\n{maintable(dataset, n, methods, plain)}" for n in SETS[dataset]),
        f"## All train patients\n\n{maintable(dataset, None, {'upper-bound': ('top',)}, plain)}",
        f"## What the paper claims, at Set-3\n\n{claims(dataset, plain)}",
        CURVES.format(dataset=dataset),
        f"## Readings and variants\n\n{variants(groups, plain)}",
        *([f"## The paper's sweeps\n\n{sweeps(dataset, groups, plain)}"] if dataset == "acdc" else []),
        f"## Runs\n\n{costs(groups)}",
    ]
    return "\n\n".join(sections) + "\n"


def maintable(dataset: str, n: int | None, methods: dict[str, tuple[str, ...]], plain: Plain) -> str:
    """Every method and output of one Set-N on the test patients."""
    head = ("method", "output", "seeds", "DSC last", "DSC best", "paper", "HD95 last", "HD95 best", "paper")
    rows = []
    for method, branches in methods.items():
        for branch in branches:
            theirs = paper_value(dataset, n, method, branch)
            group = plain.get((n, method))
            role = ROLES.get(branch, branch) if "bottom" in branches else branch
            rows.append((f"`{method}`", role, *cells(group, branch, theirs)))
    return table(head, rows, left=2)


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
    rows = []
    for sentence, (first, second) in pairs.items():
        ours = [_gap(plain, first, second, checkpoint) for checkpoint in ("last", "best")]
        theirs = [paper_value(dataset, 3, *which) for which in (first, second)]
        rows.append((sentence, *ours, f"{theirs[0]['dsc'] - theirs[1]['dsc']:+.2f}" if all(theirs) else "-"))
    useless = plain.get((3, "decoupled"))
    found = [
        useless and useless.figure("dsc", part="test", checkpoint=checkpoint, branch="bottom")
        for checkpoint in ("last", "best")
    ]
    rows.append(
        (
            "DSC of the student of `decoupled`, which is useless",
            *map(text, found),
            f"{paper_value(dataset, 3, 'decoupled', 'bottom')['dsc']:.2f}",
        )
    )
    return table(("claim (DSC points, test)", "last", "best", "paper"), rows)


def _gap(plain: Plain, first: tuple[str, str], second: tuple[str, str], checkpoint: str) -> str:
    found = []
    for method, branch in (first, second):
        group = plain.get((3, method))
        found.append(group and group.figure("dsc", part="test", checkpoint=checkpoint, branch=branch))
    return f"{found[0].mean - found[1].mean:+.2f}" if found[0] and found[1] else NOT_RUN


def readme_block(groups: Iterable[Group]) -> str:
    """The README's table: ACDC at Set-3, with the default and under the paper's protocol, beside the paper's own."""
    presets: dict[str, dict[str, Group]] = {"strong": {}, "paper": {}}
    for group in groups:
        if (group.dataset, group.n, group.changes) == ("acdc", 3, ()) and group.preset in presets:
            presets[group.preset][group.method] = group
    rows = []
    for method, branches in METHODS.items():
        for branch in branches:
            ours = [
                _last(presets[preset].get(method), metric, branch)
                for preset in presets
                for metric in ("dsc", "hd95_vox")
            ]
            theirs = paper_value("acdc", 3, method, branch)
            paper = [f"{theirs[key]:.2f}" if theirs else "-" for key in ("dsc", "hd95")]
            rows.append((f"`{method}`", ROLES.get(branch, branch) if "bottom" in branches else "", *ours, *paper))
    head = ("method", "output", "**default** DSC", "HD95", "paper's protocol DSC", "HD95", "the paper DSC", "HD95")
    return table(head, rows, left=2)


def _last(group: Group | None, metric: str, branch: str) -> str:
    """Of the last checkpoint on the test patients."""
    return text(group and group.figure(metric, part="test", checkpoint="last", branch=branch))
