"""Foreground labels eroded to a core, slice by slice: two readings of what the field calls "partial labels".

Both take, in each slice and for each class, the first square of a descending list that fits into the region, and
erode the region by it. Eroding n times by a k x k square is eroding once by a square of side ``n (k - 1) + 1``, so the
readings differ in nothing but the list. Background is never labelled. Deterministic: no random number is drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from mixseg.core.types import Labels
from mixseg.datasets.partial_labels.base import bounding_box, foreground, nothing, slicewise

Region = NDArray[np.bool_]

TIMES_3X3 = 10


def erosion_3x3(mask: Labels, rng: np.random.Generator, *, axis: int = -1) -> Labels:
    """Each class eroded 10 times by 3x3, or by as many times as leave something (even 0).

    The partial labels of Kervadec et al., "Constrained-CNN losses for weakly supervised segmentation" (2019).
    """
    sides = [2 * times + 1 for times in range(TIMES_3X3, -1, -1)]
    return slicewise(lambda one, _: _cores(one, sides), mask, rng, axis=axis)


def erosion_10x10(mask: Labels, rng: np.random.Generator, *, axis: int = -1) -> Labels:
    """Each class eroded by 10x10 as often as leaves something; where once is too much, once by 9x9, 8x8, ..., 1x1."""
    return slicewise(lambda one, _: _cores(one, list(_sides_10x10(max(one.shape)))), mask, rng, axis=axis)


def _sides_10x10(longest: int) -> Iterator[int]:
    yield from (9 * times + 1 for times in range(longest // 9, 0, -1))
    yield from range(9, 0, -1)


def _cores(mask: Labels, sides: Iterable[int]) -> Labels:
    out = nothing(mask)
    for label in foreground(mask):
        region = mask == label
        box = bounding_box(region)
        out[box][_core(region[box], sides)] = label
    return out


def _core(region: Region, sides: Iterable[int]) -> Region:
    """The erosion of ``region`` by the first of ``sides`` that leaves something; outside the array counts as 0."""
    corner = np.zeros((region.shape[0] + 1, region.shape[1] + 1), dtype=np.int64)
    region.cumsum(axis=0).cumsum(axis=1, out=corner[1:, 1:])
    for side in sides:
        if side > min(region.shape):
            continue
        # Sums over every side x side window: a window is in the region if and only if its sum is its area.
        sums = corner[side:, side:] - corner[:-side, side:] - corner[side:, :-side] + corner[:-side, :-side]
        fits = sums == side * side
        if fits.any():
            # A square of even side has no middle. The voxel marked is (side // 2) from its first row and column: one
            # of its own voxels, so the core never leaves the region, and at most half a voxel off centre (repeating a
            # 10x10 kernel of fixed origin would drift by half a voxel each time, towards the border).
            core = np.zeros_like(region)
            first = side // 2
            core[first : first + fits.shape[0], first : first + fits.shape[1]] = fits
            return core
    return region
