"""Sections of the results pages about runs that differ from the preset, and about what all runs took."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from mixseg.experiments.paper import EXPERIMENTS
from mixseg.report.experiment.tables import CHECKPOINTS, score_head, value_text
from mixseg.report.experiment.tables_markdown import grid
from mixseg.runs.typed_json import merged
from results_cells import Plain, cells, printed
from results_groups import Group, changes, usual_config

SWEEPS = (
    "divergence",
    "kl-ent-distill-weight",
    "kl-ent-weak-weight",
    "kl-distill-weight",
    "single-weak-weight",
    "single-entropy-weight",
)
"""The paper's sweeps of one setting. The preset's own value is the plain run."""


def variants(groups: Iterable[Group], plain: Plain) -> str:
    """Runs that differ from the preset, judged on the validation patients alone."""
    changed = [group for group in groups if group.changes]
    lead = (
        "The choice between readings is made on the validation patients: no test figure is shown here. DSC (%) of the\n"
        "method's answer and of its teacher, and in brackets the difference from the preset `paper`."
    )
    if not changed:
        return f"{lead}\n\nNone has been run yet."
    rows = []
    for group in changed:
        usual = plain.get((group.column, group.method))
        answer = group.records[0]["figures"][0]["branch"]
        label = ", ".join(group.changes)
        row = [f"`{label}`", group.where, f"`{group.method}`", str(len(group.records))]
        for output, checkpoint in product((answer, "top"), CHECKPOINTS):
            place = {"part": "val", "checkpoint": checkpoint, "output": output}
            found, reference = (each and each.score("dsc", **place) for each in (group, usual))
            row.append(value_text(found, 100.0, reference and 100.0 * reference.mean, otherwise="-"))
        row.append(str(sum(record["collapse_warnings"] > 0 for record in group.records)))
        rows.append(row)
    head = ("changed", "set", "method", "seeds", "answer last", "answer best", "teacher last", "teacher best", "warned")
    tail = "*warned*: runs in which the collapse guard spoke."
    return f"{lead}\n\n{grid(head, rows, words=3)}\n\n{tail}"


def sweeps(dataset: str, groups: Iterable[Group]) -> str:
    """One setting over the paper's values, student (or network) on the test patients at Set-3."""
    found = {(group.method, group.changes): group for group in groups if group.column == "set-3"}
    parts = []
    for name in SWEEPS:
        experiment, paper = EXPERIMENTS[name], printed(dataset, "set-3", name)
        rows = []
        for row in (row for row in experiment.rows if row.label in paper):
            told = merged(usual_config("paper", row.recipe.method, dataset, 3), row.recipe.changes)
            ((output, theirs),) = paper[row.label].items()
            rows.append((row.label, *cells(found.get((row.recipe.method, changes(told))), output, theirs)))
        # The method, its title's last word, as code; without the entropy single-ent is another one, single.
        title = f"{experiment.title.rpartition(' ')[0]} `{experiment.rows[-1].recipe.method}`"
        parts.append(f"**{title}**, Set-3\n\n{grid(('value', 'seeds', *score_head()), rows, words=1)}")
    return "\n\n".join(parts)


def costs(groups: Iterable[Group]) -> str:
    """What each row of runs.jsonl took."""
    head = ("id", "set", "method", "changed", "seed", "steps", "device", "training", "GPU memory", "commit")
    rows = []
    for group in groups:
        for record in (*group.records, *group.again):
            memory = record["peak_gpu_gib"]
            label = ", ".join(group.changes)
            rows.append(
                (
                    f"`{record['id']}`",
                    group.where,
                    f"`{group.method}`",
                    f"`{label}`" if label else "-",
                    f"{record['config']['seed']}{', again' if record in group.again else ''}",
                    str(record["config"]["steps"]),
                    record["device"],
                    f"{record['training_seconds']:.0f} s",
                    f"{memory:.1f} GiB" if memory else "-",
                    record["commit"] or "not recorded",
                )
            )
    return grid(head, rows, words=4)
