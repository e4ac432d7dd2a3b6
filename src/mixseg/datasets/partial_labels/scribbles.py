"""Strokes as a person draws them: along the middle of each class or its border, and round it in the background."""

from __future__ import annotations

from collections import deque
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from mixseg.core.types import Labels
from mixseg.datasets.partial_labels.base import at_least, bounding_box, foreground, nothing, slicewise

Region = NDArray[np.bool_]

EIGHT = np.ones((3, 3), dtype=bool)
"""Voxels that touch by an edge or a corner belong to one stroke."""

NEIGHBOURS = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]

BACKGROUND_DISTANCE = (0.02, 0.12)
"""How far from the foreground the background is scribbled, as a share of the slice's shorter side."""

BORDER_DISTANCE = 2
"""How many voxels a border stroke stays inside its class."""


def scribbles(
    mask: Labels,
    rng: np.random.Generator,
    *,
    axis: int = -1,
    border: bool = False,
    background: bool = True,
    shortest: float = 0.6,
    width: int = 1,
) -> Labels:
    """One stroke in each connected piece of each class of each slice, and one in the background.

    A piece is scribbled along its skeleton (a round one in a loop); the background round the foreground at a distance,
    or, in a slice without foreground, along its own middle.

    Args:
        mask: Class indices.
        rng: Draws where a stroke begins, how much of its line it follows, and how far out the background is scribbled.
        axis: Along which the slices lie.
        border: Strokes run just inside the border instead of along the skeleton, and the background's just outside.
        background: Whether the background is scribbled too.
        shortest: The smallest share of its line that a stroke follows, drawn from ``shortest`` to 1.
        width: Of the pen in voxels; it never paints over the border of a class.
    """
    at_least("width", width, 1)
    draw = partial(_strokes, border=border, background=background, shortest=float(np.clip(shortest, 0, 1)), width=width)
    return slicewise(draw, mask, rng, axis=axis)


def _strokes(
    mask: Labels, rng: np.random.Generator, *, border: bool, background: bool, shortest: float, width: int
) -> Labels:
    out = nothing(mask)
    labels = foreground(mask)
    lines = [(label, _line(mask == label, border)) for label in labels]
    if background and (mask == 0).any():
        lines.append((0, _background_line(mask, labels, rng, border)))
    for label, line in lines:
        stroke = _parts(line, rng, shortest)
        if width > 1:
            stroke = ndimage.binary_dilation(stroke, np.ones((width, width), dtype=bool))
        out[stroke & (mask == label)] = label
    return out


def _line(region: Region, border: bool) -> Region:
    """The line that a stroke in ``region`` follows, in every connected piece of it."""
    box = bounding_box(region)
    line = np.zeros_like(region)
    line[box] = (_inner_border if border else _middle)(np.pad(region[box], 1))[1:-1, 1:-1]
    return line


def _middle(region: Region) -> Region:
    """The skeleton; in a round piece, whose skeleton is hardly more than a dot, a loop half-way to the border."""
    skeleton = _skeleton(region)
    depth, deepest, components = _depth(region)
    length = np.bincount(components[skeleton], minlength=len(deepest))
    loop = region & (depth == np.ceil(deepest / 2)[components])
    return np.where((length < 2 * deepest)[components], loop, skeleton)


def _skeleton(region: Region) -> Region:
    from skimage.morphology import skeletonize  # slow to import, and nobody else needs it

    skeleton: Region = skeletonize(region)  # type: ignore[no-untyped-call]
    return skeleton


def _inner_border(region: Region) -> Region:
    """The voxels ``BORDER_DISTANCE`` inside the border; in pieces that are too thin for that, the deepest ones."""
    depth, deepest, components = _depth(region)
    line: Region = region & (depth == np.minimum(deepest, BORDER_DISTANCE)[components])
    return line


def _depth(region: Region) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Of each voxel its depth (1 at the border), of each piece the greatest depth, and the piece of each voxel."""
    depth = ndimage.distance_transform_cdt(region, metric="chessboard").astype(np.int64)
    components, count = ndimage.label(region, EIGHT)
    deepest = np.concatenate([[0], ndimage.maximum(depth, components, np.arange(1, count + 1))]).astype(np.int64)
    return depth, deepest, components


def _background_line(mask: Labels, labels: list[int], rng: np.random.Generator, border: bool) -> Region:
    """A line of background voxels round the foreground, or through the middle of a slice that has none."""
    empty = mask == 0
    if not labels:
        return _skeleton(np.pad(empty, 1))[1:-1, 1:-1]
    shorter = min(mask.shape)
    share = rng.uniform(*BACKGROUND_DISTANCE)
    wanted = BORDER_DISTANCE if border else max(BORDER_DISTANCE, round(share * shorter))
    distance = np.floor(ndimage.distance_transform_edt(np.isin(mask, labels, invert=True))).astype(int)
    # Where nothing lies so far out (foreground fills the slice), the line is as near to it as there is background.
    there_is = np.unique(distance[empty])
    line: Region = empty & (distance == there_is[np.abs(there_is - wanted).argmin()])
    return line


def _parts(line: Region, rng: np.random.Generator, shortest: float) -> Region:
    """A connected part of each connected piece of ``line``: at least the share ``shortest``, at least one voxel."""
    components, count = ndimage.label(line, EIGHT)
    out = np.zeros_like(line)
    for index, window in enumerate(ndimage.find_objects(components, count), start=1):
        voxels = [(int(i), int(j)) for i, j in np.argwhere(components[window] == index)]
        length = max(1, round(rng.uniform(shortest, 1) * len(voxels)))
        start = voxels[int(rng.integers(len(voxels)))]
        i, j = zip(*_walk(set(voxels), start, length), strict=True)
        out[window][i, j] = True
    return out


def _walk(voxels: set[tuple[int, int]], start: tuple[int, int], length: int) -> list[tuple[int, int]]:
    """The ``length`` voxels that are nearest to ``start`` along the line, which is connected."""
    seen, queue = [start], deque([start])
    left = voxels - {start}
    while len(seen) < length:
        i, j = queue.popleft()
        for di, dj in NEIGHBOURS:
            if (i + di, j + dj) in left:
                left.remove((i + di, j + dj))
                seen.append((i + di, j + dj))
                queue.append((i + di, j + dj))
    return seen[:length]
