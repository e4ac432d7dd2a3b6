"""From the source's voxel grid to the training grid and back. Both cover the same field of view, edge to edge.

A 2D plan cuts ``(I, J, K)`` into ``K`` slices ``(H, W)`` and resizes each; a 3D plan keeps the grid. Voxel ``t`` of
``n`` covers the share ``[t / n, (t + 1) / n]`` of an axis on every grid, so that nothing shifts there or back.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from mixseg.data.prepared import PreparedCase
from mixseg.types import IGNORE

Labels = NDArray[np.uint8]
Float = NDArray[np.float32]
Size = tuple[int, ...]
T = TypeVar("T", bound=np.generic)


def nearest_indices(source: int, target: int) -> NDArray[np.intp]:
    """For each of ``target`` voxels, which of ``source`` voxels holds its centre (in integers: no rounding error)."""
    return (2 * np.arange(target) + 1) * source // (2 * target)


def resize_linear(array: NDArray[np.generic], size: Size) -> Float:
    """``(..., *S)`` -> ``(..., *size)``, multilinear, constant beyond the outermost centres, no anti-aliasing."""
    out = array.astype(np.float32)
    for axis, target in enumerate(size, start=array.ndim - len(size)):
        source = array.shape[axis]
        if source == target:
            continue
        position = ((np.arange(target) + 0.5) * (source / target) - 0.5).clip(0, source - 1)
        below = position.astype(np.intp)
        above = np.minimum(below + 1, source - 1)
        weight = (position - below).astype(np.float32).reshape(-1, *[1] * (array.ndim - 1 - axis))
        low, high = out.take(below, axis=axis), out.take(above, axis=axis)
        out = low + weight * (high - low)
    return out


def resize_image(image: NDArray[np.uint8], size: Size) -> NDArray[np.uint8]:
    """``resize_linear`` of 8-bit images, rounded to 8 bits."""
    if image.shape[image.ndim - len(size) :] == tuple(size):
        return image
    return np.rint(resize_linear(image, size)).astype(np.uint8)


def resize_labels(labels: NDArray[T], size: Size) -> NDArray[T]:
    """``(..., *S)`` -> ``(..., *size)``: each voxel takes the label that lies under its centre."""
    for axis, target in enumerate(size, start=labels.ndim - len(size)):
        if labels.shape[axis] != target:
            labels = labels.take(nearest_indices(labels.shape[axis], target), axis=axis)
    return labels


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


def to_slices(array: NDArray[T]) -> NDArray[T]:
    """``(..., I, J, K)`` -> ``(K, ..., I, J)``, contiguous."""
    return np.ascontiguousarray(np.moveaxis(array, -1, 0))


def to_source(prediction: NDArray[T], case: PreparedCase) -> NDArray[T]:
    """Labels on the prepared grid -> the ``(I, J, K)`` grid of the source image: write them ``like`` it."""
    if case.dims == 3:
        return prediction
    height, width, _ = case.source_shape
    return np.ascontiguousarray(np.moveaxis(resize_labels(prediction, (height, width)), 0, -1))


def probabilities_to_source(probabilities: NDArray[np.floating], case: PreparedCase) -> Float:
    """``(C, *shape)`` on the prepared grid -> ``(C, I, J, K)`` on the source's.

    Interpolated linearly: ``argmax(axis=0)`` of it has smoother borders than labels that are resized themselves.
    """
    if case.dims == 3:
        return probabilities.astype(np.float32)
    height, width, _ = case.source_shape
    return np.ascontiguousarray(np.moveaxis(resize_linear(probabilities, (height, width)), 1, -1))
