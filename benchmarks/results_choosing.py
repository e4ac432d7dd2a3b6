"""The page of the runs by which the default is chosen: on train and validation patients alone, test never opened."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mixseg.report.experiment.tables import value_text
from mixseg.report.experiment.tables_markdown import grid
from results_groups import Group, Record, gather

PARTIAL = {"erosion-3x3": "cores", "drawn": "scribbles", "erosion-10x10": "cores"}
REFERENCE = "single"
DRAWS = 10_000

LEAD = """\
# Choosing the default

Made from [runs.jsonl](runs.jsonl) by `python benchmarks/results.py tables`. Every run here has a split of its own
([splits](../../benchmarks/splits)): it learns from the first train patients and is judged by the validation patients
and all other train patients. None of them sees a test patient. DSC in percent and HD95 in voxels of the training grid,
last checkpoint, mean over seeds, ± the standard deviation over seeds. The difference is that of the same seeds from one
network on the same labels (`single`), patient by patient; in brackets its 95 % interval, from a bootstrap over
patients. An interval that holds 0 says that nothing can be said."""


def is_choice(record: Record) -> bool:
    """Whether a run was made to choose something: its split has no test patients."""
    return record["counts"]["test patients"] == 0


def choosing_page(records: Sequence[Record]) -> str:
    """A table for each task."""
    tasks: dict[tuple[object, ...], list[Group]] = {}
    for group in gather(records):
        tasks.setdefault(_task(group), []).append(group)
    return "\n\n".join([LEAD, *(_section(groups) for groups in tasks.values())]) + "\n"


def _task(group: Group) -> tuple[object, ...]:
    """What has to be alike for runs to stand in one table."""
    record = group.records[0]
    return (group.dataset, tuple(record["config"]["target"]), record["data"], record["split"], _steps(group))


def _steps(group: Group) -> int:
    return int(group.records[0]["config"]["steps"])


def _section(groups: Sequence[Group]) -> str:
    first = groups[0].records[0]
    config, counts = first["config"], first["counts"]
    what = ", ".join(config["target"]) or ", ".join(first["classes"][1:])
    labels = PARTIAL.get(config["partial"], config["partial"])
    title = f"## {groups[0].dataset.upper()}: {what}, {labels}, {groups[0].where}, {_steps(groups[0])} steps"
    scans = (
        f"{counts['full']} fully annotated scans, {counts['partial']} with {labels}, "
        f"judged by {counts['val']} scans of other patients."
    )
    rows = [row for group in groups for row in _rows(group, groups)]
    head = ("method", "changed", "output", "seeds", "DSC", "HD95", f"DSC against `{REFERENCE}`")
    table = grid(head, sorted(rows, key=lambda row: row[4], reverse=True), words=3)
    return f"{title}\n\n{scans}\n\n{table}"


def _rows(group: Group, groups: Sequence[Group]) -> Iterable[tuple[str, ...]]:
    own = set.intersection(*(set(each.changes) for each in groups))
    changed = ", ".join(f"`{change}`" for change in group.changes if change not in own)
    for output in group.records[0]["scans"]:
        scores = [
            value_text(group.score(metric, part="val", output=output), factor)
            for metric, factor in (("dsc", 100), ("hd95_vox", 1))
        ]
        gap = difference(group, output, next((each for each in groups if _is_reference(each, own)), None))
        yield f"`{group.method}`", changed or "-", output, str(len(group.records)), *scores, str(gap or "-")


def _is_reference(group: Group, own: set[str]) -> bool:
    return group.method == REFERENCE and set(group.changes) == own


@dataclass(frozen=True)
class Difference:
    """A mean over patients, of the seeds that both have, and its interval; in points."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:+.2f} [{self.low:+.2f}, {self.high:+.2f}]"


def difference(group: Group, output: str, reference: Group | None) -> Difference | None:
    """How far ``output`` lies above the answer of ``reference``, patient by patient; None for the reference itself."""
    if reference is None or group is reference:
        return None
    theirs = {record["config"]["seed"]: record for record in reference.records}
    gaps: dict[str, list[float]] = {}
    for record in group.records:
        other = theirs.get(record["config"]["seed"])
        if other is None:
            continue
        ours, answer = by_patient(record["scans"][output]), by_patient(next(iter(other["scans"].values())))
        for patient in ours:
            gaps.setdefault(patient, []).append(100 * (ours[patient] - answer[patient]))
    if not gaps:
        return None
    means = np.array([np.mean(of) for of in gaps.values()])
    drawn = np.random.default_rng(0).choice(means, (DRAWS, len(means))).mean(axis=1)
    return Difference(float(means.mean()), *(float(end) for end in np.percentile(drawn, (2.5, 97.5))))


def by_patient(scans: Mapping[str, float]) -> dict[str, float]:
    """The mean over the scans of each patient; ACDC's are called patientNNN_frameFF."""
    found: dict[str, list[float]] = {}
    for scan, dsc in scans.items():
        found.setdefault(scan.split("_frame")[0], []).append(dsc)
    return {patient: float(np.mean(of)) for patient, of in found.items()}
