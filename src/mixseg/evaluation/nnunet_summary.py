"""``summary.json`` in the shape of nnU-Net's, so that whatever reads theirs reads ours; HD95 and ASSD are added."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from mixseg.evaluation.metrics import Counts
from mixseg.evaluation.scores import Row

Metrics = dict[str, float | int | None]


class Entry(NamedTuple):
    """One case: its files, and its rows by class index."""

    prediction: str
    reference: str
    rows: Mapping[int, Row]


def nnunet_summary(entries: Iterable[Entry]) -> dict[str, Any]:
    """``metric_per_case``, ``mean`` by class, ``foreground_mean``; None is undefined and left out of means.

    ``left_out`` counts by class the cases that have it in neither mask.
    """
    entries = list(entries)
    each = [{str(index): _metrics(row) for index, row in entry.rows.items()} for entry in entries]
    classes = sorted({index for metrics in each for index in metrics}, key=int)
    by_class = {index: [metrics[index] for metrics in each if index in metrics] for index in classes}
    mean = {index: _mean(found) for index, found in by_class.items()}
    return {
        "foreground_mean": _mean(list(mean.values())),
        "mean": mean,
        "left_out": {index: sum(one["Dice"] is None for one in found) for index, found in by_class.items()},
        "metric_per_case": [
            {"metrics": metrics, "prediction_file": entry.prediction, "reference_file": entry.reference}
            for metrics, entry in zip(each, entries, strict=True)
        ],
    }


def _metrics(row: Row) -> Metrics:
    counts = row.counts or Counts(0, 0, 0, 0)
    union = counts.tp + counts.fp + counts.fn
    scores = {"Dice": row.dsc, "IoU": counts.tp / union if union else math.nan}
    scores |= {"HD95_vox": row.hd95_vox, "HD95_mm": row.hd95_mm, "ASSD_vox": row.assd_vox, "ASSD_mm": row.assd_mm}
    sizes = {"n_pred": counts.tp + counts.fp, "n_ref": counts.tp + counts.fn}
    defined = {name: None if math.isnan(value) else value for name, value in scores.items()}
    return {**defined, "TP": counts.tp, "FP": counts.fp, "FN": counts.fn, "TN": counts.tn, **sizes}


def _mean(found: Sequence[Metrics]) -> Metrics:
    values = {name: [one[name] for one in found] for name in found[0]} if found else {}
    defined = {name: [value for value in column if value is not None] for name, column in values.items()}
    return {name: sum(column) / len(column) if column else None for name, column in defined.items()}
