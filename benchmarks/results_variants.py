"""Sections of the results pages about runs that differ from the preset, and about what all runs took."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from results_cells import Plain, cells, table, text
from results_groups import Group, paper_values

ABLATIONS = {
    "divergence": ("kl-ent", "divergence", "Divergence of the distillation term in `kl-ent`"),
    "kl-ent-distill-weight": ("kl-ent", "weights.distill", "Weight of the distillation term in `kl-ent`"),
    "kl-ent-weak-weight": ("kl-ent", "weights.weak", "Weight of the partial cross-entropy in `kl-ent`"),
    "kl-distill-weight": ("kl", "weights.distill", "Weight of the distillation term in `kl`"),
    "single-weak-weight": ("single", "weights.weak", "Weight of the partial cross-entropy in `single`"),
    "single-entropy-weight": ("single-ent", "weights.entropy", "Weight of the entropy in `single-ent`"),
}
"""The paper's sweeps of one setting: experiment -> method, key, title. The preset's own value is the plain run."""
OWN = {"divergence": "kl", "weights.distill": 50.0, "weights.weak": 0.001, "weights.entropy": 1.0}


def variants(groups: Iterable[Group], plain: Plain) -> str:
    """Runs that differ from the preset, judged on the validation patients alone."""
    changed = [group for group in groups if group.changes and group.preset == "paper"]
    lead = (
        "The choice between readings is made on the validation patients: no test figure is shown here. DSC (%) of the\n"
        "method's answer and of its teacher, and in brackets the difference from the preset `paper`."
    )
    if not changed:
        return f"{lead}\n\nNone has been run yet."
    rows = []
    for group in changed:
        usual = plain.get((group.n, group.method))
        answer = group.records[0]["figures"][0]["branch"]
        label = ", ".join(group.changes)
        where = f"Set-{group.n}" if group.n else "all"
        row = [f"`{label}`", where, f"`{group.method}`", str(len(group.records))]
        for branch, checkpoint in ((answer, "last"), (answer, "best"), ("top", "last"), ("top", "best")):
            place = {"part": "val", "checkpoint": checkpoint, "branch": branch}
            found, reference = (each and each.figure("dsc", **place) for each in (group, usual))
            row.append("-" if found is None else text(found, reference.mean if reference else None))
        row.append(str(sum(record["collapse_warnings"] > 0 for record in group.records)))
        rows.append(row)
    head = ("changed", "set", "method", "seeds", "answer last", "answer best", "teacher last", "teacher best", "warned")
    tail = "*warned*: runs in which the collapse guard spoke."
    return f"{lead}\n\n{table(head, rows, left=3)}\n\n{tail}"


def sweeps(dataset: str, groups: Iterable[Group], plain: Plain) -> str:
    """One setting over the paper's values, student (or network) on the test patients at Set-3."""
    groups = list(groups)
    parts = []
    for experiment, (method, key, title) in ABLATIONS.items():
        rows = []
        for value, theirs in paper_values()[f"{dataset}-{experiment}"]["set-3"].items():
            group = _at(groups, plain, method, key, value)
            branch = "top" if method.startswith("single") else "bottom"
            rows.append((value, *cells(group, branch, theirs)))
        head = ("value", "seeds", "DSC last", "DSC best", "paper", "HD95 last", "HD95 best", "paper")
        parts.append(f"**{title}**, Set-3\n\n{table(head, rows)}")
    return "\n\n".join(parts)


def _at(groups: Sequence[Group], plain: Plain, method: str, key: str, value: str) -> Group | None:
    """The runs of ``method`` in which nothing but ``key`` has been changed, to ``value``."""
    if _same(value, str(OWN[key])):
        return plain.get((3, method))
    if key == "weights.entropy" and float(value) == 0:  # without the term it is another method
        return plain.get((3, "single"))
    for group in groups:
        if (group.n, group.method, group.preset, len(group.changes)) == (3, method, "paper", 1):
            name, text = group.changes[0].split("=")
            if name == key and _same(value, text):
                return group
    return None


def _same(first: str, second: str) -> bool:
    try:
        return float(first) == float(second)
    except ValueError:
        return first == second


def costs(groups: Iterable[Group]) -> str:
    """What each row of runs.jsonl took."""
    head = ("id", "set", "method", "changed", "seed", "steps", "device", "training", "GPU memory", "commit")
    rows = []
    for group in groups:
        for record in group.records:
            memory = record["peak_gpu_gib"]
            label = ", ".join(group.changes)
            rows.append(
                (
                    f"`{record['id']}`",
                    f"Set-{group.n}" if group.n else "all",
                    f"`{group.method}`",
                    f"`{label}`" if label else "-",
                    str(record["config"]["seed"]),
                    str(record["config"]["steps"]),
                    record["device"],
                    f"{record['training_seconds']:.0f} s",
                    f"{memory:.1f} GiB" if memory else "-",
                    record["commit"] or "not recorded",
                )
            )
    return table(head, rows, left=4)
