"""DSC, HD95 and ASSD of masks. Definitions and the policy for empty masks: ``docs/reference/metrics.md``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mixseg.core.types import IGNORE
from mixseg.evaluation.surface_distance import Mask, diagonal, surface_distances


class Counts(NamedTuple):
    """Voxels by what was predicted and what is true."""

    tp: int
    fp: int
    fn: int
    tn: int


@dataclass(frozen=True)
class Scores:
    """One class in one case. ``nan`` is undefined: the class is in neither mask, or (mm) the voxel size is unknown."""

    dsc: float
    hd95_vox: float
    hd95_mm: float
    assd_vox: float
    assd_mm: float


METRICS: tuple[str, ...] = tuple(field.name for field in fields(Scores))


class ClassScores(NamedTuple):
    """What ``case_metrics`` says about one class."""

    name: str
    scores: Scores
    counts: Counts


def confusion(prediction: Mask, truth: Mask) -> Counts:
    """True and false positives and negatives, in voxels."""
    prediction, truth = _masks(prediction, truth)
    predicted, true = int(np.count_nonzero(prediction)), int(np.count_nonzero(truth))
    both = int(np.count_nonzero(prediction & truth))
    return Counts(both, predicted - both, true - both, prediction.size - predicted - true + both)


def dice(prediction: Mask, truth: Mask) -> float:
    """``2 |P and T| / (|P| + |T|)``; 0 if one mask is empty, ``nan`` if both are."""
    return _dice(confusion(prediction, truth))


def hd95(prediction: Mask, truth: Mask, spacing: Sequence[float] | None = None) -> float:
    """The 95th percentile of the surface distances of both directions, pooled; in voxels without a ``spacing``.

    One mask empty: the diagonal of the volume. Both empty: ``nan``.
    """
    return _distances(*_masks(prediction, truth), (spacing,))[0][0]


def assd(prediction: Mask, truth: Mask, spacing: Sequence[float] | None = None) -> float:
    """The mean of the two directed mean surface distances; in voxels without a ``spacing``.

    One mask empty: the diagonal of the volume. Both empty: ``nan``.
    """
    return _distances(*_masks(prediction, truth), (spacing,))[0][1]


def case_metrics(
    prediction: NDArray[np.generic],
    truth: NDArray[np.generic],
    *,
    classes: Sequence[str],
    spacing_mm: Sequence[float] | None = None,
) -> list[ClassScores]:
    """The scores of every class but the background, from two maps of class indices.

    Args:
        prediction: Class indices.
        truth: Class indices of the same shape; voxels that are IGNORE count neither as prediction nor as truth.
        classes: Names by class index, the background first.
        spacing_mm: Voxel size along each axis; ``None`` where it is unknown, and distances in mm are ``nan`` then.
    """
    _refuse_shapes(prediction, truth)
    unknown = truth == IGNORE
    ignored = int(np.count_nonzero(unknown))
    rows = []
    for index, name in enumerate(classes[1:], start=1):
        predicted, true = prediction == index, truth == index
        if ignored:
            predicted &= ~unknown
        counts = confusion(predicted, true)
        counts = counts._replace(tn=counts.tn - ignored)
        rows.append(ClassScores(name, _scores(predicted, true, counts, spacing_mm), counts))
    return rows


def _scores(prediction: Mask, truth: Mask, counts: Counts, spacing_mm: Sequence[float] | None) -> Scores:
    if spacing_mm is None:
        ((hd95_vox, assd_vox),) = _distances(prediction, truth, (None,))
        return Scores(_dice(counts), hd95_vox, math.nan, assd_vox, math.nan)
    (hd95_vox, assd_vox), (hd95_mm, assd_mm) = _distances(prediction, truth, (None, spacing_mm))
    return Scores(_dice(counts), hd95_vox, hd95_mm, assd_vox, assd_mm)


def _masks(prediction: NDArray[np.generic], truth: NDArray[np.generic]) -> tuple[Mask, Mask]:
    """Both as masks: whatever is not 0 is inside, be it stored as 1, 2 or 255."""
    _refuse_shapes(prediction, truth)
    return prediction.astype(bool, copy=False), truth.astype(bool, copy=False)


def _refuse_shapes(prediction: NDArray[np.generic], truth: NDArray[np.generic]) -> None:
    if prediction.shape != truth.shape:
        raise ValueError(f"the prediction has shape {prediction.shape}, the truth {truth.shape}")


def _dice(counts: Counts) -> float:
    total = 2 * counts.tp + counts.fp + counts.fn
    return 2 * counts.tp / total if total else math.nan


def _distances(prediction: Mask, truth: Mask, spacings: Sequence[Sequence[float] | None]) -> list[tuple[float, float]]:
    """HD95 and ASSD, which share the costly part, in the unit of each spacing."""
    present = bool(prediction.any()), bool(truth.any())
    if all(present):
        pairs = surface_distances(prediction, truth, spacings)
        return [(float(np.percentile(np.concatenate(pair), 95)), _mean_of_means(*pair)) for pair in pairs]
    missed = [diagonal(truth.shape, spacing) if any(present) else math.nan for spacing in spacings]
    return [(length, length) for length in missed]


def _mean_of_means(there: NDArray[np.float64], back: NDArray[np.float64]) -> float:
    return float(there.mean() + back.mean()) / 2
