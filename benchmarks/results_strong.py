"""The page of the preset ``strong``: every method with the same recipe, and what each part of it is worth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from results_cells import NOT_RUN, table, text
from results_groups import Group, paper_value
from results_variants import costs

METHODS = ("lower-bound", "single", "kl", "kl-ent", "upper-bound-set")
ROLES = {"bottom": "student", "top": "teacher"}
SETS = (3, 5, 10)
SCRIBBLES = "partial=drawn"

LEAD = """\
# The default on real scans: preset `strong`

Made from [runs.jsonl](runs.jsonl) by `python benchmarks/results.py tables`. [To repeat a row](README.md#repeat-a-row),
and [what the recipe is and why](../concepts/recipe.md).

Slices keep their shape: their longer side becomes 256 pixels, and the middle 192x192 are trained on and scored; no mask
of a training or validation scan is cut by that, and what it cuts of a test mask counts as missed. DSC in percent, HD95
in voxels of that grid, last checkpoint, mean over seeds of the mean over scans, ± the standard deviation over seeds
where there are several. Choices were made on the validation patients (*val*); the test patients were scored once per
run. The runs of seed 0 at Set-3 were trained before predictions kept the largest piece alone: that was done to their
label maps afterwards."""


def strong_page(groups: Iterable[Group]) -> str:
    """All of it."""
    groups = [group for group in groups if group.preset == "strong" and group.dataset == "acdc"]
    ours = [group for group in groups if not group.changes]
    sections = [
        LEAD,
        *(f"## Left ventricle, Set-{n}\n\n{recipe_table(ours, n)}" for n in SETS),
        f"## What each part is worth, Set-3\n\n{parts_table(groups)}",
        f"## All three structures from hand-drawn scribbles\n\n{structures_table(groups)}",
        f"## Runs\n\nFour at a time on one GPU, with a cold compiler.\n\n{costs(groups)}",
    ]
    return "\n\n".join(sections) + "\n"


def recipe_table(groups: Sequence[Group], n: int) -> str:
    """Every method with the recipe as it is; beside it what the paper has under its own protocol."""
    rows = []
    for method in METHODS:
        group = next((group for group in groups if (group.n, group.method) == (n, method)), None)
        for branch in ("bottom", "top") if method.startswith("kl") else ("top",):
            theirs = paper_value("acdc", n, method, branch)
            role = ROLES[branch] if method.startswith("kl") else branch
            seeds = str(len(group.records)) if group else "0"
            cells = [
                _figure(group, *place, branch) for place in (("dsc", "test"), ("hd95_vox", "test"), ("dsc", "val"))
            ]
            paper = [f"{theirs[key]:.2f}" if theirs else "-" for key in ("dsc", "hd95")]
            rows.append((f"`{method}`", role, seeds, *cells, *paper))
    head = ("method", "output", "seeds", "DSC", "HD95", "DSC val", "paper's DSC", "HD95")
    return table(head, rows, left=2)


def parts_table(groups: Sequence[Group]) -> str:
    """Runs that differ from the recipe in one thing, on validation; the test figure for those that have one."""
    rows = []
    for group in groups:
        if group.n != 3 or SCRIBBLES in group.changes:
            continue
        answer = group.records[0]["figures"][0]["branch"]
        cells = [_figure(group, metric, "val", branch) for branch in (answer, "top") for metric in ("dsc", "hd95_vox")]
        label = ", ".join(f"`{change}`" for change in group.changes) or "the recipe"
        rows.append((f"`{group.method}`", label, str(len(group.records)), *cells))
    head = ("method", "changed", "seeds", "answer: DSC val", "HD95", "teacher: DSC val", "HD95")
    return table(head, rows, left=2)


def structures_table(groups: Sequence[Group]) -> str:
    """Student and teacher of each structure, on the test and the validation patients."""
    found = [group for group in groups if SCRIBBLES in group.changes]
    if not found:
        return NOT_RUN
    rows = []
    for group in found:
        record = group.records[0]
        counts = f"{record['counts']['full'] // 2} outlined, {record['counts']['partial'] // 2} scribbled"
        for entry in record["figures"]:
            if entry["checkpoint"] != "last" or entry["branch"] not in ROLES:
                continue
            scores = (f"{100 * entry['dsc']['mean']:.2f}", f"{entry['hd95_vox']['mean']:.2f}")
            rows.append((f"`{group.method}`", counts, entry["part"], ROLES[entry["branch"]], entry["class"], *scores))
    return table(("method", "patients", "part", "output", "structure", "DSC", "HD95"), rows, left=5)


def _figure(group: Group | None, metric: str, part: str, branch: str) -> str:
    return text(group and group.figure(metric, part=part, checkpoint="last", branch=branch))
