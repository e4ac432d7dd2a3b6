"""Grids of one size round the same centre: cropped or padded, with what a crop cuts off kept for the scores."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from mixseg.core.types import IGNORE, Labels

Places = NDArray[np.int32]
Size = tuple[int, ...]
T = TypeVar("T", bound=np.generic)


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


def cut_off(labels: Labels, size: Size) -> Places:
    """The foreground that ``centred`` crops away: rows of a class and an index, counted from the crop's first voxel."""
    old = labels.shape[labels.ndim - len(size) :]
    beyond = (labels != 0) & (labels != IGNORE)
    beyond[(slice(None),) * (labels.ndim - len(size)) + kept_part(old, size)] = False
    places = np.argwhere(beyond)
    classes = labels[tuple(places.T)]
    for axis, (have, want) in enumerate(zip(old, size, strict=True), start=labels.ndim - len(size)):
        places[:, axis] -= (have - want) // 2 if have > want else -((want - have) // 2)
    return np.column_stack([classes, places]).astype(np.int32)


def uncut(labels: Labels, truth: Labels, beyond: Places | None) -> tuple[Labels, Labels]:
    """A prediction and its truth on a grid that holds what ``cut_off`` found too: there the prediction has nothing."""
    if beyond is None or not len(beyond):
        return labels, truth
    before = -np.minimum(beyond[:, 1:].min(axis=0), 0)
    after = np.maximum(beyond[:, 1:].max(axis=0) + 1 - truth.shape, 0)
    around = np.column_stack([before, after])
    labels, truth = np.pad(labels, around), np.pad(truth, around)
    truth[tuple((beyond[:, 1:] + before).T)] = beyond[:, 0]
    return labels, truth
