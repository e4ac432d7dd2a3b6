"""The page of the preset ``strong``: every method with the same recipe, and what each part of it is worth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mixseg.evaluation.scores import MEAN
from mixseg.report.experiment.results import NOT_RUN
from mixseg.report.experiment.tables import heading
from mixseg.report.experiment.tables_markdown import grid
from results_cells import FACTORS, ROLES, SETS, ours, printed
from results_groups import Group
from results_variants import costs

METHODS = ("lower-bound", "ua-mt", "glmi", "ssco", "single", "kl", "kl-ent", "upper-bound-set")
SCRIBBLES = "partial=drawn"
STRUCTURES = ("RV", "Myo", "LV", MEAN)

LEAD = """\
# The default on real scans: preset `strong`

Made from [runs.jsonl](runs.jsonl) by `python benchmarks/results.py tables`. [To repeat a row](README.md#repeat-a-row),
and [what the recipe is and why](../concepts/recipe.md).

On ACDC slices keep their shape: their longer side becomes 256 pixels, and the middle 192x192 are trained on and
scored; no mask of a training or validation scan is cut by that, and what it cuts of a test mask counts as missed. DSC
in percent, HD95 in voxels of the training grid, last checkpoint, mean over seeds of the mean over scans, ± the standard
deviation over seeds where there are several. Choices were made on the validation patients (*val*); the test patients
were scored once per run. The first runs of seed 0 at Set-3 were trained before predictions kept the largest piece
alone: that was done to their label maps afterwards."""

ATRIA = """\
Voxels of 1 mm and patches of 128x96x64 hold the whole of most scans. The first two tables have them, and are scored on
that grid (our HD95 in mm, the paper's in its voxels of 0.625 mm); the third has every run, those with voxels of
0.625 mm (`spacing=null`) too. Brought back to 0.625 mm, the label maps of 1 mm score 0.1 to 0.2 less."""


def strong_page(groups: Iterable[Group]) -> str:
    """All of it."""
    groups = [group for group in groups if group.preset == "strong"]
    acdc = [group for group in groups if group.dataset == "acdc"]
    sections = [
        LEAD,
        *(f"## Left ventricle, {heading('setting', n)}\n\n{recipe_table('acdc', groups, n)}" for n in SETS["acdc"]),
        f"## What each part is worth, Set-3\n\n{parts_table(acdc)}",
        f"## All three structures from hand-drawn scribbles\n\n{structures_table(acdc)}",
        f"## Left atrium\n\n{ATRIA}",
        *(f"### {heading('setting', n)}\n\n{recipe_table('la', groups, n)}" for n in SETS["la"]),
        f"### Grids and contrasts\n\n{atria_table(groups)}",
        f"## Runs\n\nThree to six at a time on one GPU, most with a cold compiler.\n\n{costs(groups)}",
    ]
    return "\n\n".join(sections) + "\n"


def recipe_table(dataset: str, groups: Sequence[Group], column: str) -> str:
    """Every method with the recipe as it is; beside it what the paper has under its own protocol."""
    plain = {each.method: each for each in groups if (each.dataset, each.column, each.changes) == (dataset, column, ())}
    paper = printed(dataset, column, "main", "semi-supervised")
    rows = []
    for method in (each for each in METHODS if each in paper):
        group, theirs = plain.get(method), paper[method]
        for output in theirs:
            role = ROLES.get(output, output) if "bottom" in theirs else output
            seeds = str(len(group.records)) if group else "0"
            test = (ours(group, metric, output) for metric in FACTORS)
            values = (f"{value:.2f}" for value in theirs[output].values())
            rows.append((f"`{method}`", role, seeds, *test, ours(group, "dsc", output, part="val"), *values))
    head = ("method", "output", "seeds", "DSC", "HD95", "DSC val", "paper's DSC", "HD95")
    return grid(head, rows, words=2)


def parts_table(groups: Sequence[Group]) -> str:
    """Runs that differ from the recipe in one thing, on validation; the test figure for those that have one."""
    rows = []
    for group in groups:
        if group.column != "set-3" or SCRIBBLES in group.changes:
            continue
        answer, teacher = ([_of(group, who, metric, "val") for metric in FACTORS] for who in ("answer", "teacher"))
        rows.append((f"`{group.method}`", _label(group), str(len(group.records)), *answer, *teacher))
    head = ("method", "changed", "seeds", "answer: DSC val", "HD95", "teacher: DSC val", "HD95")
    return grid(head, rows, words=2)


def atria_table(groups: Sequence[Group]) -> str:
    """Every run on atria, whatever its grid, on validation and on test."""
    rows = []
    for group in sorted((each for each in groups if each.dataset == "la"), key=lambda each: each.column):
        cells = (_of(group, who, "dsc", part) for part in ("val", "test") for who in ("answer", "teacher"))
        rows.append((heading("setting", group.column), f"`{group.method}`", _label(group), *cells))
    head = ("set", "method", "changed", "answer: DSC val", "teacher: DSC val", "answer: DSC test", "teacher: DSC test")
    return grid(head, rows, words=3)


def _label(group: Group) -> str:
    return ", ".join(f"`{change}`" for change in group.changes) or "the recipe"


def _of(group: Group, who: str, metric: str, part: str) -> str:
    """A score of the branch that answers, or of the teacher of a student that does."""
    answer = group.records[0]["figures"][0]["branch"]
    if who == "teacher" and answer != "bottom":
        return "-"
    return ours(group, metric, answer if who == "answer" else "top", part=part)


def structures_table(groups: Sequence[Group]) -> str:
    """DSC of each structure, student and teacher, on the validation and the test patients; HD95 of their mean."""
    rows = []
    for group in groups:
        if SCRIBBLES not in group.changes:
            continue
        record = group.records[0]
        counts = f"{record['counts']['full'] // 2} outlined, {record['counts']['partial'] // 2} scribbled"
        asked = (f"`{group.method}`", counts, str(record["config"]["steps"]))
        last = [entry for entry in record["figures"] if entry["checkpoint"] == "last" and entry["branch"] in ROLES]
        for part, branch in dict.fromkeys((entry["part"], entry["branch"]) for entry in last):
            found = {entry["class"]: entry for entry in last if (entry["part"], entry["branch"]) == (part, branch)}
            scores = [f"{100 * found[name]['dsc']['mean']:.2f}" if name in found else "-" for name in STRUCTURES]
            far = f"{found[MEAN]['hd95_vox']['mean']:.2f}" if MEAN in found else "-"
            rows.append((*asked, part, ROLES[branch], *scores, far))
    head = ("method", "patients", "steps", "part", "output", *STRUCTURES, "HD95")
    return grid(head, rows, words=5) if rows else NOT_RUN
