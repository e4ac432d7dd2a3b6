"""From the source's voxel grid to the training grid and back. Both cover the same field of view, edge to edge.

In 2D ``(I, J, K)`` is cut into ``K`` slices ``(H, W)`` and each is resized; in 3D the volume is. Voxel ``t`` of ``n``
covers the share ``[t / n, (t + 1) / n]`` of an axis on every grid, so that nothing shifts there or back. Slices that
are resized to a voxel size, and so differ in their number of pixels, are then cropped or padded round their centre.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from mixseg.core.types import IGNORE, Bytes, Labels
from mixseg.data.prepare.store import PreparedCase
from mixseg.data.scan import VoxelIndices

Float = NDArray[np.float32]
Size = tuple[int, ...]
T = TypeVar("T", bound=np.generic)


def nearest_indices(source: int, target: int) -> NDArray[np.intp]:
    """For each of ``target`` voxels, which of ``source`` voxels holds its centre (in integers: no rounding error)."""
    return (2 * np.arange(target) + 1) * source // (2 * target)


def resize_linear(array: NDArray[np.generic], size: Size, *, smooth: bool = False) -> Float:
    """``(..., *S)`` -> ``(..., *size)``, multilinear, constant beyond the outermost centres.

    With ``smooth`` a voxel of a coarser grid averages all that lie under it, so that fine texture does not turn into
    coarse noise; without, it is interpolated from the nearest ones alone.
    """
    out = array.astype(np.float32)
    for axis, target in enumerate(size, start=array.ndim - len(size)):
        source = array.shape[axis]
        if source == target:
            continue
        if smooth and target < source:
            out = _averaged(out, axis, target)
            continue
        position = ((np.arange(target) + 0.5) * (source / target) - 0.5).clip(0, source - 1)
        below = position.astype(np.intp)
        above = np.minimum(below + 1, source - 1)
        weight = (position - below).astype(np.float32).reshape(-1, *[1] * (array.ndim - 1 - axis))
        low, high = out.take(below, axis=axis), out.take(above, axis=axis)
        out = low + weight * (high - low)
    return out


def _averaged(array: Float, axis: int, target: int) -> Float:
    """One axis on a coarser grid: weights fall linearly from each new centre to the ones beside it."""
    source = array.shape[axis]
    reach = source / target
    centre = (np.arange(target) + 0.5) * reach - 0.5
    weight = (1 - np.abs(centre[:, None] - np.arange(source)) / reach).clip(min=0)
    weight = (weight / weight.sum(axis=1, keepdims=True)).astype(np.float32)
    return np.moveaxis(np.tensordot(weight, array, (1, axis)), 0, axis)


def resize_image(image: Bytes, size: Size, *, smooth: bool = False) -> Bytes:
    """``resize_linear`` of 8-bit images, rounded to 8 bits."""
    if image.shape[image.ndim - len(size) :] == tuple(size):
        return image
    return np.rint(resize_linear(image, size, smooth=smooth)).astype(np.uint8)


def resize_labels(labels: NDArray[T], size: Size) -> NDArray[T]:
    """``(..., *S)`` -> ``(..., *size)``: each voxel takes the label that lies under its centre."""
    for axis, target in enumerate(size, start=labels.ndim - len(size)):
        if labels.shape[axis] != target:
            labels = labels.take(nearest_indices(labels.shape[axis], target), axis=axis)
    return labels


def resize_masks(labels: Labels, size: Size) -> Labels:
    """``(..., *S)`` -> ``(..., *size)``: the class with the largest share of each voxel, interpolated class by class.

    Borders are smoother than those of ``resize_labels``, and on a coarser grid volumes are kept better.
    """
    if labels.shape[labels.ndim - len(size) :] == tuple(size):
        return labels
    present = np.flatnonzero(np.bincount(labels.ravel(), minlength=1))
    out = np.full((*labels.shape[: labels.ndim - len(size)], *size), present[0], np.uint8)
    most = resize_linear(labels == present[0], size, smooth=True)
    for label in present[1:]:
        share = resize_linear(labels == label, size, smooth=True)
        # Shares that are equal but for rounding are a draw, which the first class wins on every machine.
        larger = share > most + np.float32(1e-5)
        out[larger] = label
        np.copyto(most, share, where=larger)
    return out


def resize_strokes(labels: Labels, size: Size) -> Labels:
    """``resize_labels`` that loses no stroke: each labelled voxel also marks the voxel that its own centre falls into.

    Where voxels of different classes fall into one (only on a coarser grid), the class with fewer voxels stays.
    """
    out = resize_labels(labels, size)
    axes = range(labels.ndim - len(size), labels.ndim)
    if all(target >= labels.shape[axis] for axis, target in zip(axes, size, strict=True)):
        return out  # on a finer grid every voxel lies under some centre
    out = out.copy()
    counts = np.bincount(labels.ravel(), minlength=IGNORE + 1)[:IGNORE]
    for label in np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]:
        where = list(np.nonzero(labels == label))
        for axis, target in zip(axes, size, strict=True):
            where[axis] = nearest_indices(target, labels.shape[axis])[where[axis]]
        out[tuple(where)] = label
    return out


def size_at(
    shape: Sequence[int], spacing: Sequence[float], wanted: Sequence[float] | None, long_side: int | None = None
) -> Size:
    """How many voxels of the size ``wanted`` come nearest to the extent of a grid.

    Without ``wanted`` its longer side becomes ``long_side`` voxels; without both it stays as it is.
    """
    extent = [n * mm for n, mm in zip(shape, spacing, strict=True)]
    if wanted is None:
        wanted = [max(extent) / long_side] * len(extent) if long_side else spacing
    return tuple(max(1, round(length / mm)) for length, mm in zip(extent, wanted, strict=True))


def centred(array: NDArray[T], size: Size, fill: int) -> NDArray[T]:
    """``(..., *S)`` -> ``(..., *size)``, cropped or padded on both sides; back again is the same with the old size."""
    old = array.shape[array.ndim - len(size) :]
    if old == tuple(size):
        return array
    out = np.full((*array.shape[: array.ndim - len(size)], *size), fill, array.dtype)
    every = (slice(None),) * (array.ndim - len(size))
    out[every + kept_part(size, old)] = array[every + kept_part(old, size)]
    return out


def kept_part(of: Size, within: Size) -> tuple[slice, ...]:
    """The part of a grid of the size ``of`` that lies within one of another size round the same centre."""
    spare = [max(0, have - want) // 2 for have, want in zip(of, within, strict=True)]
    return tuple(slice(gap, gap + min(pair)) for gap, *pair in zip(spare, of, within, strict=True))


def cropped_foreground(labels: Labels, size: Size) -> VoxelIndices:
    """The foreground that ``centred`` crops away: rows of a class and an index, counted from the crop's first voxel."""
    old = labels.shape[labels.ndim - len(size) :]
    cropped = (labels != 0) & (labels != IGNORE)
    cropped[(slice(None),) * (labels.ndim - len(size)) + kept_part(old, size)] = False
    places = np.argwhere(cropped)
    classes = labels[tuple(places.T)]
    for axis, (have, want) in enumerate(zip(old, size, strict=True), start=labels.ndim - len(size)):
        places[:, axis] -= (have - want) // 2 if have > want else -((want - have) // 2)
    return np.column_stack([classes, places]).astype(np.int32)


def restore_cropped(labels: Labels, truth: Labels, cropped: VoxelIndices | None) -> tuple[Labels, Labels]:
    """A prediction and its truth on a grid that holds the ``cropped_foreground`` too, where nothing is predicted."""
    if cropped is None or not len(cropped):
        return labels, truth
    before = -np.minimum(cropped[:, 1:].min(axis=0), 0)
    after = np.maximum(cropped[:, 1:].max(axis=0) + 1 - truth.shape, 0)
    around = np.column_stack([before, after])
    labels, truth = np.pad(labels, around), np.pad(truth, around)
    truth[tuple((cropped[:, 1:] + before).T)] = cropped[:, 0]
    return labels, truth


def to_slices(array: NDArray[T]) -> NDArray[T]:
    """``(..., I, J, K)`` -> ``(K, ..., I, J)``, contiguous."""
    return np.ascontiguousarray(np.moveaxis(array, -1, 0))


def to_source(prediction: Labels, case: PreparedCase) -> Labels:
    """Labels on the prepared grid -> the ``(I, J, K)`` grid of the source image: write them ``like`` it."""
    if case.dims == 3:
        return resize_masks(prediction, case.header.shape)
    plane = case.header.shape[:2]
    back = resize_masks(centred(prediction, case.field, 0), plane) if case.field else resize_labels(prediction, plane)
    return np.ascontiguousarray(np.moveaxis(back, 0, -1))


def probabilities_to_source(probabilities: NDArray[np.floating], case: PreparedCase) -> Float:
    """``(C, *shape)`` on the prepared grid -> ``(C, I, J, K)`` on the source's.

    Interpolated linearly: ``argmax(axis=0)`` of it has smoother borders than labels that are resized themselves. What
    was cropped away is background.
    """
    if case.dims == 3:
        return resize_linear(probabilities, case.header.shape, smooth=True)
    plane = case.header.shape[:2]
    if case.field:
        background, others = centred(probabilities[:1], case.field, 1), centred(probabilities[1:], case.field, 0)
        probabilities = np.concatenate([background, others])
    return np.ascontiguousarray(np.moveaxis(resize_linear(probabilities, plane, smooth=bool(case.field)), 1, -1))
