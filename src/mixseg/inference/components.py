"""Structures that are one piece: which they are, and predictions without the crumbs beside them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from mixseg.core.types import Bytes

ONE_PIECE = 0.98
"""Share of a structure that its largest piece has at least, in every mask, for it to count as one piece."""


def largest_pieces(labels: Bytes, indices: Iterable[int]) -> Bytes:
    """A copy of a label map ``(I, J, K)`` in which each of these classes keeps its largest connected piece.

    What is dropped becomes background. Voxels that touch by a corner are connected.
    """
    kept = labels.copy()
    for index in indices:
        mask = labels == index
        kept[mask & ~_largest(mask)] = 0
    return kept


def one_piece(masks: Iterable[Bytes], classes: int) -> tuple[int, ...]:
    """The classes 1 to ``classes`` - 1 that are one piece in every one of these label maps which shows them."""
    seen: set[int] = set()
    scattered: set[int] = set()
    for labels in masks:
        for index in range(1, classes):
            mask = labels == index
            if index in scattered or not mask.any():
                continue
            seen.add(index)
            if _largest(mask).sum() < ONE_PIECE * mask.sum():
                scattered.add(index)
    return tuple(sorted(seen - scattered))


def _largest(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    pieces, count = ndimage.label(mask, structure=np.ones([3] * mask.ndim))
    if count < 2:
        return mask
    return np.asarray(pieces == 1 + np.bincount(pieces.ravel())[1:].argmax())
