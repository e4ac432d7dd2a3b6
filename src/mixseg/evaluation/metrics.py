"""DSC, HD95, ASSD, surface Dice, volumes and lesions of masks: ``docs/reference/metrics.md`` defines them.

Distances between surfaces are found without transforming the whole volume. Masks are boolean arrays of two or three
axes. A volume of one slice counts as an image: along an axis of length one nothing can be inside, and every voxel would
be surface.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.spatial import KDTree

from mixseg.core.types import IGNORE
from mixseg.evaluation.lesions import lesions

Mask = NDArray[np.bool_]
Distances = NDArray[np.float64]

# Which search is faster, measured by benchmarks/metrics.py. A k-d tree finds a neighbour up to NEAR steps away within a
# microsecond but may need fifty for a far one; a distance transform costs the same for all: about as much per FAR_COST
# voxels of the box as the tree per far point. Both find the same distances; only the time depends on these numbers.
NEAR = 8.0
FAR_COST = 200


def surface(mask: Mask) -> Mask:
    """The voxels of ``mask`` with a face neighbour outside it. Beyond the image is outside."""
    padded = np.pad(mask, 1)
    inside = mask.copy()
    middle = (slice(1, -1),) * mask.ndim
    for axis in range(mask.ndim):
        for shifted in (slice(0, -2), slice(2, None)):
            inside &= padded[(*middle[:axis], shifted, *middle[axis + 1 :])]
    return mask & ~inside


def surface_distances(
    prediction: Mask, truth: Mask, spacings: Sequence[Sequence[float] | None] = (None,)
) -> list[tuple[Distances, Distances]]:
    """From each surface voxel of one mask to the nearest of the other: (prediction to truth, truth to prediction).

    Args:
        prediction: A mask that is not empty.
        truth: Another one of the same shape.
        spacings: One pair of distances is returned for each of these voxel sizes; ``None`` counts in voxels.
    """
    if prediction.shape != truth.shape:
        raise ValueError(f"the prediction has shape {prediction.shape}, the truth {truth.shape}")
    shape = prediction.shape
    prediction, truth = (mask.reshape([shape[axis] for axis in extended(shape)]) for mask in (prediction, truth))
    # All that lies outside the box of both masks is background, like what lies outside the image: neither the
    # surfaces nor the distances between them change.
    box = _box(prediction | truth)
    predicted, true = surface(prediction[box]), surface(truth[box])
    pairs = []
    for spacing in spacings:
        steps = np.array([voxel_size(shape, spacing)[axis] for axis in extended(shape)])
        pairs.append((_nearest(predicted, true, steps), _nearest(true, predicted, steps)))
    return pairs


def diagonal(shape: Sequence[int], spacing: Sequence[float] | None = None) -> float:
    """The length of the volume's diagonal, corner to corner."""
    size = voxel_size(shape, spacing)
    return math.hypot(*(shape[axis] * size[axis] for axis in extended(shape)))


def extended(shape: Sequence[int]) -> list[int]:
    """The axes along which there is more than one voxel."""
    return [axis for axis, length in enumerate(shape) if length > 1] or [0]


def voxel_size(shape: Sequence[int], spacing: Sequence[float] | None) -> tuple[float, ...]:
    """``spacing``, checked against ``shape``; ones without it."""
    if spacing is None:
        return (1.0,) * len(shape)
    if len(spacing) != len(shape) or not all(0 < step < math.inf for step in spacing):
        raise ValueError(f"{tuple(spacing)} is not one positive spacing for each axis of {tuple(shape)}")
    return tuple(float(step) for step in spacing)


def _box(mask: Mask) -> tuple[slice, ...]:
    """The smallest box around a mask that is not empty."""
    box: tuple[slice, ...] = ()
    for axis in range(mask.ndim):
        others = tuple(other for other in range(mask.ndim) if other != axis)
        # Each axis is searched only in what the axes before it have left.
        filled = np.flatnonzero(mask[box].any(axis=others))
        box = (*box, slice(int(filled[0]), int(filled[-1]) + 1))
    return box


def _nearest(start: Mask, goal: Mask, steps: Distances) -> Distances:
    """The distance from each voxel of ``start`` to the nearest one of ``goal``."""
    points, goals = np.argwhere(start), np.argwhere(goal)
    nearest = points.copy()
    for rows, found in _searches(points, goals, goal, steps):
        nearest[rows] = found
    # Computed from whole steps, so that it does not depend on which search found the neighbour.
    ways = (nearest - points) * steps
    return np.asarray(np.sqrt((ways * ways).sum(axis=1)))


def _searches(
    points: NDArray[np.intp], goals: NDArray[np.intp], goal: Mask, steps: Distances
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.integer]]]:
    """Numbers of ``points`` and the nearest goal of each; a point that is itself a goal is left out."""
    away = np.flatnonzero(~goal[tuple(points.T)])
    if not away.size:
        return
    tree = KDTree(goals * steps, leafsize=32, balanced_tree=False, compact_nodes=False)
    _, neighbours = tree.query(points[away] * steps, distance_upper_bound=NEAR * float(steps.min()))
    near = neighbours < len(goals)
    yield away[near], goals[neighbours[near]]
    far = away[~near]
    if far.size * FAR_COST < goal.size:
        yield far, goals[tree.query(points[far] * steps)[1]]
    else:
        indices = ndimage.distance_transform_edt(~goal, sampling=steps, return_distances=False, return_indices=True)
        yield far, indices[(slice(None), *points[far].T)].T


class Counts(NamedTuple):
    """Voxels by what was predicted and what is true."""

    tp: int
    fp: int
    fn: int
    tn: int


@dataclass(frozen=True)
class Scores:
    """One class in one case. ``nan`` is undefined: the class is in neither mask, or (mm) the voxel size is unknown.

    Attributes:
        dsc: See ``dice``, as for the next four.
        hd95_vox: In voxels.
        hd95_mm: In mm.
        assd_vox: In voxels.
        assd_mm: In mm.
        nsd: Normalised surface Dice at ``tolerance_mm``.
        tolerance_mm: What the borders may differ by without being wrong.
        volume_ml: Of the prediction, where the truth is known.
        reference_ml: Of the truth.
        volume_error_ml: Prediction less truth.
        lesion_f1: Of detection: see ``lesions``.
        lesions: Connected components of the truth.
        lesions_missed: Of these, not found.
        lesions_false: Components of the prediction that are nowhere true.
    """

    dsc: float
    hd95_vox: float
    hd95_mm: float
    assd_vox: float
    assd_mm: float
    nsd: float = math.nan
    tolerance_mm: float = math.nan
    volume_ml: float = math.nan
    reference_ml: float = math.nan
    volume_error_ml: float = math.nan
    lesion_f1: float = math.nan
    lesions: float = math.nan
    lesions_missed: float = math.nan
    lesions_false: float = math.nan


TOLERANCE_MM = 2.0
"""Of the surface Dice, where nobody asks for another: about what two experts differ by on many organs."""
FIRST = ("dsc", "hd95_vox", "hd95_mm", "assd_vox", "assd_mm")
"""The scores that every metrics.csv has; earlier versions wrote no others."""
METRICS: tuple[str, ...] = tuple(field.name for field in fields(Scores) if field.name != "tolerance_mm")


def bounds(metric: str) -> tuple[float, float]:
    """The smallest and the largest value that a score can have."""
    if metric in ("dsc", "nsd", "lesion_f1"):
        return 0.0, 1.0
    return (-math.inf if metric == "volume_error_ml" else 0.0), math.inf


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
    return _distances(*_masks(prediction, truth), (spacing,))[0].hd95


def assd(prediction: Mask, truth: Mask, spacing: Sequence[float] | None = None) -> float:
    """The mean of the two directed mean surface distances; in voxels without a ``spacing``.

    One mask empty: the diagonal of the volume. Both empty: ``nan``.
    """
    return _distances(*_masks(prediction, truth), (spacing,))[0].assd


def surface_dice(
    prediction: Mask, truth: Mask, spacing: Sequence[float] | None = None, *, tolerance: float = TOLERANCE_MM
) -> float:
    """The share of both surfaces that lies within ``tolerance`` of the other one; in voxels without a ``spacing``.

    One mask empty: 0. Both empty: ``nan``.
    """
    return _distances(*_masks(prediction, truth), (spacing,), tolerance)[0].nsd


def case_metrics(
    prediction: NDArray[np.generic],
    truth: NDArray[np.generic],
    *,
    classes: Sequence[str],
    spacing_mm: Sequence[float] | None = None,
    tolerance_mm: float = TOLERANCE_MM,
) -> list[ClassScores]:
    """The scores of every class but the background, from two maps of class indices.

    Args:
        prediction: Class indices.
        truth: Class indices of the same shape; voxels that are IGNORE count neither as prediction nor as truth.
        classes: Names by class index, the background first.
        spacing_mm: Voxel size along each axis; ``None`` where it is unknown, and distances in mm are ``nan`` then.
        tolerance_mm: Of the surface Dice.
    """
    _check_shapes(prediction, truth)
    unknown = truth == IGNORE
    ignored = int(np.count_nonzero(unknown))
    rows = []
    for index, name in enumerate(classes[1:], start=1):
        predicted, true = prediction == index, truth == index
        if ignored:
            predicted &= ~unknown
        counts = confusion(predicted, true)
        counts = counts._replace(tn=counts.tn - ignored)
        rows.append(ClassScores(name, _scores(predicted, true, counts, spacing_mm, tolerance_mm), counts))
    return rows


def _scores(
    prediction: Mask, truth: Mask, counts: Counts, spacing_mm: Sequence[float] | None, tolerance_mm: float
) -> Scores:
    found = lesions(prediction, truth)
    of_lesions = {
        "lesion_f1": found.f1,
        "lesions": float(found.true),
        "lesions_missed": float(found.missed),
        "lesions_false": float(found.false),
    }
    if spacing_mm is None:
        (vox,) = _distances(prediction, truth, (None,))
        return Scores(_dice(counts), vox.hd95, math.nan, vox.assd, math.nan, **of_lesions)
    vox, mm = _distances(prediction, truth, (None, spacing_mm), tolerance_mm)
    ml = math.prod(voxel_size(truth.shape, spacing_mm)) / 1000
    volume, reference = (counts.tp + counts.fp) * ml, (counts.tp + counts.fn) * ml
    return Scores(
        _dice(counts),
        vox.hd95,
        mm.hd95,
        vox.assd,
        mm.assd,
        nsd=mm.nsd,
        tolerance_mm=tolerance_mm,
        volume_ml=volume,
        reference_ml=reference,
        volume_error_ml=volume - reference,
        **of_lesions,
    )


def _masks(prediction: NDArray[np.generic], truth: NDArray[np.generic]) -> tuple[Mask, Mask]:
    """Both as masks: whatever is not 0 is inside, be it stored as 1, 2 or 255."""
    _check_shapes(prediction, truth)
    return prediction.astype(bool, copy=False), truth.astype(bool, copy=False)


def _check_shapes(prediction: NDArray[np.generic], truth: NDArray[np.generic]) -> None:
    if prediction.shape != truth.shape:
        raise ValueError(f"the prediction has shape {prediction.shape}, the truth {truth.shape}")


def _dice(counts: Counts) -> float:
    total = 2 * counts.tp + counts.fp + counts.fn
    return 2 * counts.tp / total if total else math.nan


class _Surfaces(NamedTuple):
    """What is told from the distances between two surfaces, in the unit of one spacing."""

    hd95: float
    assd: float
    nsd: float


def _distances(
    prediction: Mask, truth: Mask, spacings: Sequence[Sequence[float] | None], tolerance: float = TOLERANCE_MM
) -> list[_Surfaces]:
    """HD95, ASSD and surface Dice, which share the costly part, in the unit of each spacing."""
    present = bool(prediction.any()), bool(truth.any())
    if not all(present):
        missed = [diagonal(truth.shape, spacing) if any(present) else math.nan for spacing in spacings]
        return [_Surfaces(length, length, 0.0 if any(present) else math.nan) for length in missed]
    found = []
    for pair in surface_distances(prediction, truth, spacings):
        pool = np.concatenate(pair)
        # Steps of a voxel add up to a hair more than they are: a border exactly at the tolerance is within it.
        within = float(np.mean(pool <= tolerance * (1 + 1e-9)))
        found.append(_Surfaces(float(np.percentile(pool, 95)), _mean_of_means(*pair), within))
    return found


def _mean_of_means(there: NDArray[np.float64], back: NDArray[np.float64]) -> float:
    return float(there.mean() + back.mean()) / 2
