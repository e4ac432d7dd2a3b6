"""Rows of scores: one per case, class, branch and checkpoint. Written, read and summarised."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixseg.core.errors import MixsegError
from mixseg.core.files import replacing
from mixseg.core.text_files import read_table
from mixseg.datasets.layouts.base import patient_and_frame
from mixseg.evaluation.metrics import FIRST, METRICS, TOLERANCE_MM, Counts, Scores, bounds, case_metrics
from mixseg.evaluation.statistics import Comparison, Estimate, Value, estimate

ADDRESS = ("case", "class", "branch", "checkpoint")
LATER = (*(name for name in METRICS if name not in FIRST), "tolerance_mm")
NUMBERS = (*FIRST, *LATER)
COLUMNS = (*ADDRESS, *FIRST, "part", "patient", *LATER)
"""Of metrics.csv; new ones come last. ``part`` says which of the split a case belongs to, "val" or "test", where that
is known."""

HELD_OUT, STROKES = "held-out", "strokes"
"""Parts of a cross-validation: scans that were held out, scored by their full masks, or by the strokes they have."""

MEAN = "mean"
"""The name under which the mean over all classes is summarised."""


@dataclass(frozen=True, kw_only=True)
class Row(Scores):
    """The scores of one class in one prediction, and which prediction that is.

    Attributes:
        case: Id of the scan.
        label: Name of the class.
        branch: Output of the method (``methods/outputs``), or "".
        checkpoint: "last" or "best", or "".
        part: "val" or "test", or "".
        patient: Whose scan it is: what comparisons count. Where nobody says so, whom the case is named after.
        counts: Voxels, where they were counted; not part of metrics.csv.
    """

    case: str
    label: str
    branch: str = ""
    checkpoint: str = ""
    part: str = ""
    patient: str = ""
    counts: Counts | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not self.patient:
            object.__setattr__(self, "patient", patient_and_frame(self.case)[0])


def score_case(
    key: Mapping[str, str],
    prediction: NDArray[np.generic],
    truth: NDArray[np.generic],
    classes: Sequence[str],
    spacing_mm: Sequence[float] | None = None,
    tolerance_mm: float = TOLERANCE_MM,
) -> list[Row]:
    """A row for each class but the background.

    Args:
        key: ``case``, and where they are known ``branch``, ``checkpoint``, ``part`` and ``patient``.
        prediction: Class indices.
        truth: Class indices, or IGNORE where nothing is known.
        classes: Names by class index, the background first.
        spacing_mm: Voxel size, where it is known.
        tolerance_mm: Of the surface Dice.
    """
    found = case_metrics(prediction, truth, classes=classes, spacing_mm=spacing_mm, tolerance_mm=tolerance_mm)
    return [_located(key, name, asdict(scores), counts) for name, scores, counts in found]


def _located(key: Mapping[str, str], label: str, scores: Mapping[str, float], counts: Counts | None = None) -> Row:
    return Row(
        case=key["case"],
        label=label,
        branch=key.get("branch", ""),
        checkpoint=key.get("checkpoint", ""),
        part=key.get("part", ""),
        patient=key.get("patient", ""),
        counts=counts,
        **scores,
    )


def write_metrics(path: Path, rows: Iterable[Row]) -> None:
    """Write metrics.csv; an undefined value is an empty field."""
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for row in rows:
            values = {name: getattr(row, name) for name in NUMBERS}
            scores = {name: "" if math.isnan(value) else repr(float(value)) for name, value in values.items()}
            line = scores | {name: getattr(row, name) for name in ("case", "branch", "checkpoint", "part", "patient")}
            writer.writerow([{**line, "class": row.label}[name] for name in COLUMNS])


def read_metrics(path: Path) -> list[Row]:
    """The rows of a metrics.csv."""
    try:
        lines = read_table(path)
    except FileNotFoundError:
        raise MixsegError(f"{path} does not exist: run `mixseg evaluate` first.", "file-missing", file=path) from None
    missing = [name for name in (*ADDRESS, *FIRST) if lines and name not in lines[0]]
    if missing:
        raise MixsegError(
            f"{path} has no column '{missing[0]}': write it again with `mixseg evaluate`.",
            "column-missing",
            file=path,
            column=missing[0],
        )
    return [_row(path, line) for line in lines]


def _row(path: Path, line: Mapping[str, str]) -> Row:
    text = {name: line.get(name, "") for name in COLUMNS}
    try:
        scores = {name: float(text[name]) if text[name] else math.nan for name in NUMBERS}
    except ValueError as error:
        raise MixsegError(
            f"{path}, case {text['case']!r}: {error}; write it again with `mixseg evaluate`.",
            "wrong-content",
            file=path,
            case=text["case"],
        ) from None
    return _located(text, text["class"], scores)


def summarise(rows: Iterable[Row], *, intervals: bool = False) -> list[dict[str, Any]]:
    """Mean and sd over cases (and seeds, if rows of several runs are given) for each part, checkpoint, branch, class.

    Each entry holds ``part``, ``checkpoint``, ``branch``, ``class``, ``cases``, ``left_out`` (how many have the class
    in neither mask) and for each metric ``{"mean", "sd"}``, None where it is undefined. With several classes the mean
    of their means follows under the class "mean".

    Args:
        rows: Of one run; or of several seeds, whose spread is then part of the sd.
        intervals: Whether each entry says too how many ``patients`` have a DSC, and the 95 % ``interval`` of its mean
            over them, low and high: None with one patient.
    """
    groups: dict[tuple[str, str, str], dict[str, list[Row]]] = {}
    for row in rows:
        groups.setdefault((row.part, row.checkpoint, row.branch), {}).setdefault(row.label, []).append(row)
    entries = []
    for (part, checkpoint, branch), classes in groups.items():
        where = {"part": part, "checkpoint": checkpoint, "branch": branch}
        each = [{**where, "class": name, **_summary(of)} for name, of in classes.items()]
        found = list(zip(each, classes.values(), strict=True))
        if len(each) > 1:
            mean = {**where, "class": MEAN, **_over_classes(each)}
            found.append((mean, [row for of in classes.values() for row in of]))
        entries += [{**entry, **(_certainty(of) if intervals else {})} for entry, of in found]
    return entries


def _certainty(rows: Sequence[Row]) -> dict[str, Any]:
    found = estimate(samples([rows]), bounds=bounds("dsc"))
    return {"patients": found.patients, "interval": [found.low, found.high] if found.known else None}


def _summary(rows: Sequence[Row]) -> dict[str, Any]:
    values = {metric: _defined([getattr(row, metric) for row in rows]) for metric in METRICS}
    scores = {metric: {"mean": _mean(found), "sd": _sd(found)} for metric, found in values.items()}
    return {"cases": len(rows), "left_out": len(rows) - len(values["dsc"]), **scores}


def _over_classes(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    means = {metric: _mean([e[metric]["mean"] for e in entries if e[metric]["mean"] is not None]) for metric in METRICS}
    counts = {"cases": max(e["cases"] for e in entries), "left_out": sum(e["left_out"] for e in entries)}
    return counts | {metric: {"mean": mean, "sd": None} for metric, mean in means.items()}


def _defined(values: Iterable[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if len(values) else None


def _sd(values: Sequence[float]) -> float | None:
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def table(entries: Iterable[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """The entries of ``summarise`` as lines of text, the head first: DSC in percent, distances in mm if known."""
    entries = list(entries)
    unit = "mm" if any(entry["hd95_mm"]["mean"] is not None for entry in entries) else "vox"
    columns = {f"HD95 {unit}": (f"hd95_{unit}", 1.0), f"ASSD {unit}": (f"assd_{unit}", 1.0)}
    more = {"NSD %": ("nsd", 100.0), "volume error ml": ("volume_error_ml", 1.0), "lesion F1 %": ("lesion_f1", 100.0)}
    columns |= {head: of for head, of in more.items() if worth_showing(of[0], entries)}
    places = [name for name in ("part", "checkpoint", "branch") if any(entry[name] for entry in entries)]
    sure = certainty(entries)
    lines = [(*places, "class", "cases", "left out", "DSC %", *sure, *columns)]
    for entry in entries:
        place = (str(entry[name]) for name in (*places, "class", "cases", "left_out"))
        scores = (mean_sd(entry.get(metric, UNKNOWN), factor) for metric, factor in columns.values())
        lines.append((*place, mean_sd(entry["dsc"], 100.0), *(text(entry) for text in sure.values()), *scores))
    return lines


def certainty(entries: Iterable[Mapping[str, Any]]) -> dict[str, Callable[[Mapping[str, Any]], str]]:
    """Columns that say how sure the DSC of entries is, where they were made with intervals."""
    if not any("interval" in entry for entry in entries):
        return {}
    return {"95 % interval": _interval, "patients": lambda entry: str(entry["patients"])}


def _interval(entry: Mapping[str, Any]) -> str:
    low, high = (100 * bound for bound in entry["interval"] or (math.nan, math.nan))
    return "-" if math.isnan(low) else f"[{low:.1f}, {high:.1f}]"


UNKNOWN: Mapping[str, float | None] = {"mean": None, "sd": None}
"""A score that nobody has counted."""


def worth_showing(metric: str, entries: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a table has a use for a score: it is known, and of lesions there are several in a scan."""
    found = [entry.get(metric, UNKNOWN)["mean"] for entry in entries]
    if metric.startswith("lesion"):
        counts = (entry.get("lesions", UNKNOWN)["mean"] for entry in entries)
        return any(count is not None and count > 1 for count in counts)
    return any(mean is not None for mean in found)


def mean_sd(score: Mapping[str, float | None], factor: float = 1.0) -> str:
    """``86.10 ± 4.02``; the sd is left out where there is none, and "-" is said where nothing is known."""
    mean, sd = score["mean"], score["sd"]
    if mean is None:
        return "-"
    return f"{factor * mean:.2f}" if sd is None else f"{factor * mean:.2f} ± {factor * sd:.2f}"


def difference_text(difference: float, factor: float) -> str:
    """``+1.23``, or ``-`` where there was nothing to compare."""
    return "-" if math.isnan(difference) else f"{factor * difference:+.2f}"


def p_text(p: float) -> str:
    """``0.0123``; small ones as a power of ten."""
    return "-" if math.isnan(p) else f"{p:.4f}" if p >= 1e-4 else f"{p:.0e}"


def interval_text(found: Estimate | Comparison, factor: float = 1.0) -> str:
    """``[81.2, 90.4]``, a 95 % interval; ``-`` where there is none."""
    low, high = factor * found.low, factor * found.high
    return "-" if math.isnan(low) else f"[{low:.1f}, {high:.1f}]"


def samples(trainings: Iterable[Iterable[Row]], metric: str = "dsc") -> list[list[Value]]:
    """What ``statistics`` takes: the scores of each training by patient and class.

    Args:
        trainings: The rows of each seed, of one branch and checkpoint.
        metric: Name of a score.
    """
    found = [list(rows) for rows in trainings]
    outputs = sorted({(row.checkpoint, row.branch) for rows in found for row in rows})
    if len(outputs) > 1:
        raise ValueError(f"rows of several outputs ({outputs}) cannot be averaged: choose one")
    return [[(row.patient, row.label, getattr(row, metric)) for row in rows] for rows in found]
