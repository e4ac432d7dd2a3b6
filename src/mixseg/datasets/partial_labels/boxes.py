"""A box round each class: what lies outside of all boxes is background, what lies inside is unknown."""

from __future__ import annotations

from functools import partial

import numpy as np

from mixseg.core.types import Labels
from mixseg.datasets.partial_labels.base import at_least, bounding_box, foreground, nothing, slicewise


def boxes(mask: Labels, rng: np.random.Generator, *, axis: int = -1, margin: int = 0) -> Labels:
    """Background outside a box round each class of each slice; no label inside.

    Args:
        mask: Class indices.
        rng: Draws how loosely the boxes are drawn.
        axis: Along which the slices lie.
        margin: The most voxels by which each side of a box lies outside the tight one, drawn from 0 to ``margin``.
    """
    at_least("margin", margin, 0)
    return slicewise(partial(_outside, margin=margin), mask, rng, axis=axis)


def _outside(mask: Labels, rng: np.random.Generator, *, margin: int) -> Labels:
    out = nothing(mask)
    out[mask == 0] = 0
    for label in foreground(mask):
        tight = bounding_box(mask == label)
        loose = rng.integers(margin + 1, size=(2, 2))
        rows, columns = (
            slice(max(0, side.start - before), side.stop + after)
            for side, (before, after) in zip(tight, loose.tolist(), strict=True)
        )
        out[rows, columns] = nothing(out[rows, columns])
    return out
