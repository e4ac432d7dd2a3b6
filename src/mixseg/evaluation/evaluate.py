"""Predicted label maps against reference masks, from files alone: no model, no torch.

``evaluate(folder, references)`` scores every case; ``Evaluation.write`` leaves ``metrics.csv``, and ``summary.json`` in
the shape of nnU-Net's, so that whatever reads theirs reads ours; HD95 and ASSD are added.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from mixseg.core.errors import MixsegError, listed
from mixseg.core.files import write_json
from mixseg.core.progress import Progress
from mixseg.core.types import Case
from mixseg.core.workers import cores
from mixseg.data.scan import spacing_not_meant
from mixseg.datasets import formats
from mixseg.datasets.labels import LabelFlags
from mixseg.evaluation.metrics import TOLERANCE_MM, Counts
from mixseg.evaluation.pairing import (
    Job,
    by_name,
    by_part,
    check_one_meaning,
    match,
    of_cases,
    of_folder,
    predicted_classes,
)
from mixseg.evaluation.scores import Row, read_metrics, score_case, summarise, table, write_metrics

__all__ = ["Evaluation", "evaluate", "read_metrics", "summarise", "table", "write_metrics"]

MOST_THREADS = 8
"""Each holds two volumes and their surfaces in memory."""


@dataclass(frozen=True)
class Evaluation:
    """The scores of a folder of predictions.

    Attributes:
        scored: Each prediction with its rows, in the order of outputs and cases.
        missing: Predictions that are not there, as paths without a suffix.
        unmatched: Files for which there is no reference; they were left alone.
        meaning: What the ids of the reference masks were found to mean, in a sentence, or "".
    """

    scored: tuple[tuple[Job, tuple[Row, ...]], ...]
    missing: tuple[Path, ...] = ()
    unmatched: tuple[Path, ...] = ()
    meaning: str = ""

    @property
    def rows(self) -> list[Row]:
        """All rows: what metrics.csv holds."""
        return [row for _, rows in self.scored for row in rows]

    def table(self) -> list[tuple[str, ...]]:
        """Means and standard deviations as lines of text, the head first."""
        return table(summarise(self.rows, intervals=True))

    def remarks(self) -> list[str]:
        """Sentences about what the means do not show: what was not scored, classes in neither mask."""
        sentences = [self.meaning] if self.meaning else []
        if self.missing:
            sentences.append(f"{len(self.missing)} without a prediction, not scored: {listed(self.missing, most=5)}.")
        if self.unmatched:
            sentences.append(
                f"{len(self.unmatched)} without a reference, not scored: {listed(self.unmatched, most=5)}."
            )
        partly = {job.reference.case: job.reference.unlabeled for job, _ in self.scored if job.reference.unlabeled}
        if partly:
            many = "s are" if len(partly) > 1 else " is"
            sentences.append(
                f"{len(partly)} reference{many} partly unlabeled (up to {max(partly.values()):.1%} of the voxels): "
                f"the rest alone is scored there, which says little about borders: {listed(list(partly))}."
            )
        left_out: Counter[str] = Counter(row.label for row in self.rows if row.dsc != row.dsc)
        for label, count in left_out.items():
            sentences.append(f"{label}: {count} left out of the means, in neither the reference nor the prediction.")
        return sentences

    def write(self, out: Path) -> list[Path]:
        """Write ``metrics.csv`` and a ``summary.json`` for each output and part of the split; the files written.

        They take the place of those of an earlier evaluation.
        """
        write_metrics(out / "metrics.csv", self.rows)
        written = [out / "metrics.csv"]
        entries: dict[tuple[str, str, str], list[Entry]] = {}
        for job, rows in self.scored:
            entries.setdefault((*job.output, job.reference.part), []).append(_entry(job, rows))
        outputs, parts = len({key[:2] for key in entries}), len({key[2] for key in entries})
        for (checkpoint, branch, part), of_these in entries.items():
            parts_of_name = [*((checkpoint, branch) if outputs > 1 else ()), *((part,) if parts > 1 else ())]
            written.append(out / f"{'_'.join(('summary', *filter(None, parts_of_name)))}.json")
            write_json(written[-1], nnunet_summary(of_these))
        for old in set(out.glob("summary*.json")) - set(written):
            if '"metric_per_case"' in old.read_text(encoding="utf-8"):  # of an evaluation whose metrics.csv is gone
                old.unlink()
        return written


def evaluate(
    predictions: Path,
    references: Path | Sequence[Case],
    *,
    flags: LabelFlags | None = None,
    prediction_ids: Mapping[int, int] | None = None,
    workers: int | None = None,
    tolerance_mm: float = TOLERANCE_MM,
) -> Evaluation:
    """Score every prediction that has a reference.

    Args:
        predictions: A folder of label maps named after their cases; or one of ``<branch>`` or ``<checkpoint>/<branch>``
            folders of them; or a run folder, whose ``predictions`` are taken.
        references: A folder of masks with the same names; or cases, whose hidden or full masks are taken.
        flags: What the ids of a folder of masks mean, where that is not clear.
        prediction_ids: Id in the predictions -> class index. By default predictions of a run hold its classes, known
            by name, and others class indices, or the same ids as a folder of masks.
        workers: Threads; one per core by default, but not more than eight.
        tolerance_mm: What borders may differ by without being wrong: of the normalised surface Dice.
    """
    predicted = predicted_classes(predictions) if prediction_ids is None else []
    if isinstance(references, Path):
        truths = of_folder(references, predictions, flags, predicted)
    else:
        truths = of_cases(references)
        if not predicted and prediction_ids is None:
            check_one_meaning(predictions, truths)
    truths = by_part(predictions, by_name(predicted, truths))
    matched = match(predictions, truths, prediction_ids)
    if not matched.jobs:
        where = references if isinstance(references, Path) else "the cases"
        raise MixsegError(
            f"No file in {predictions} is named after a mask of {where} (one of these is {truths.each[0].case}): "
            "name predictions after their cases.",
            "nothing-matches",
            folder=predictions,
        )
    masks = {job.reference.case: job.reference.mask for job in matched.jobs}
    places = [formats.read_geometry(mask) for mask in masks.values()]
    meant = not spacing_not_meant(places)
    scored = tuple(_score_all(matched.jobs, workers, in_mm=meant, tolerance_mm=tolerance_mm))
    return Evaluation(scored, tuple(matched.missing), tuple(matched.unmatched), truths.meaning)


def _score_all(
    jobs: Sequence[Job], workers: int | None, *, in_mm: bool, tolerance_mm: float
) -> list[tuple[Job, tuple[Row, ...]]]:
    # Decompressing and the search for neighbours run outside the interpreter lock: threads are enough.
    results: dict[int, tuple[Row, ...]] = {}
    threads = workers or min(MOST_THREADS, cores())
    with ThreadPoolExecutor(threads) as pool, Progress("evaluating", total=len(jobs)) as bar:
        futures = {
            pool.submit(_score, job, in_mm=in_mm, tolerance_mm=tolerance_mm): index for index, job in enumerate(jobs)
        }
        try:
            for future in as_completed(futures):
                index = futures[future]
                results[index] = future.result()
                bar.step(jobs[index].reference.case)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    return [(job, results[index]) for index, job in enumerate(jobs)]


def _score(job: Job, *, in_mm: bool, tolerance_mm: float) -> tuple[Row, ...]:
    prediction, truth = formats.read_labels(job.prediction), formats.read_labels(job.reference.mask)
    if difference := formats.same_geometry(prediction, truth):
        raise MixsegError(
            f"{job.prediction.path} does not lie on the grid of {job.reference.mask.path}, {difference}: "
            "predict again from the same scan, or resample it.",
            "geometry-differs",
            file=job.prediction.path,
            other=job.reference.mask.path,
        )
    of = job.reference
    key = {
        "case": of.case,
        "checkpoint": job.output[0],
        "branch": job.output[1],
        "part": of.part,
        "patient": of.patient,
    }
    spacing = truth.spacing if truth.spacing_known and in_mm else None
    rows = score_case(key, prediction.array, truth.array, of.classes, spacing, tolerance_mm)
    return tuple(row for row in rows if row.label in of.looked_for)


def _entry(job: Job, rows: Sequence[Row]) -> Entry:
    by_index = {job.reference.classes.index(row.label): row for row in rows}
    return Entry(str(job.prediction.path), str(job.reference.mask.path), by_index)


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
    scores |= {"NSD": row.nsd, "volume_error_ml": row.volume_error_ml, "lesion_F1": row.lesion_f1}
    sizes = {"n_pred": counts.tp + counts.fp, "n_ref": counts.tp + counts.fn}
    defined = {name: None if math.isnan(value) else value for name, value in scores.items()}
    return {**defined, "TP": counts.tp, "FP": counts.fp, "FN": counts.fn, "TN": counts.tn, **sizes}


def _mean(found: Sequence[Metrics]) -> Metrics:
    values = {name: [one[name] for one in found] for name in found[0]} if found else {}
    defined = {name: [value for value in column if value is not None] for name, column in values.items()}
    return {name: sum(column) / len(column) if column else None for name, column in defined.items()}
