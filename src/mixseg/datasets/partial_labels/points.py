"""A few clicks in each class of each slice."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from mixseg.core.types import Labels
from mixseg.datasets.partial_labels.base import at_least, bounding_box, foreground, nothing, slicewise


def points(
    mask: Labels,
    rng: np.random.Generator,
    *,
    axis: int = -1,
    count: int = 1,
    radius: int = 0,
    background: bool = True,
) -> Labels:
    """``count`` clicks in each class of each slice, the background included.

    Args:
        mask: Class indices.
        rng: Draws the clicks: well inside a foreground class (people avoid borders), anywhere in the background.
        axis: Along which the slices lie.
        count: Clicks a class and slice; fewer where the class has fewer voxels to click.
        radius: Each click paints the voxels of its class that are no farther away than this.
        background: Whether the background is clicked too.
    """
    at_least("count", count, 1)
    at_least("radius", radius, 0)
    return slicewise(partial(_clicks, count=count, radius=radius, background=background), mask, rng, axis=axis)


def _clicks(mask: Labels, rng: np.random.Generator, *, count: int, radius: int, background: bool) -> Labels:
    out = nothing(mask)
    for label in [0, *foreground(mask)] if background else foreground(mask):
        region = mask == label
        candidates = np.flatnonzero(_inner(region) if label else region)
        chosen = rng.choice(candidates, size=min(count, candidates.size), replace=False)
        painted = np.zeros_like(region)
        painted.flat[chosen] = True  # not ravel: masks in Fortran order, as nibabel gives them, would be copied
        if radius:
            painted = ndimage.binary_dilation(painted, _disc(radius)) & region
        out[painted] = label
    return out


def _inner(region: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The voxels at least half as deep inside the region as its deepest one."""
    box = bounding_box(region)
    depth = ndimage.distance_transform_cdt(np.pad(region[box], 1), metric="chessboard")[1:-1, 1:-1]
    out = np.zeros_like(region)
    out[box] = 2 * depth >= depth.max()
    return out & region


def _disc(radius: int) -> NDArray[np.bool_]:
    offset = np.arange(-radius, radius + 1)
    return np.add.outer(offset**2, offset**2) <= radius**2
