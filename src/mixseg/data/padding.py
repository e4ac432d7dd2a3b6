"""A volume smaller than a patch, in training and at prediction alike: widened by its own edge, unlabeled there.

The edge, because a network then meets there the grey values that it knows: 0 is black in one scan and, after z-scores,
the mean of another. It also commutes with every normalisation, so that it does not matter which comes first.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mixseg.core.types import IGNORE


def inside(size: Sequence[int], patch: Sequence[int]) -> tuple[slice, ...]:
    """Where a volume of ``size`` lies within its widened self, which is at least as large as ``patch``."""
    before = [max(0, want - have) // 2 for have, want in zip(size, patch, strict=True)]
    return tuple(slice(start, start + have) for start, have in zip(before, size, strict=True))


def widen_image(image: Tensor, patch: Sequence[int]) -> Tensor:
    """``(C, *S)`` of any dtype -> ``(C, *at least patch)``: beyond the volume, its outermost voxels again."""
    size = image.shape[1:]
    for axis, (within, have, want) in enumerate(zip(inside(size, patch), size, patch, strict=True), start=1):
        if want > have:
            source = (torch.arange(want, device=image.device) - within.start).clamp(0, have - 1)
            image = image.index_select(axis, source)
    return image


def widen_labels(labels: Tensor, patch: Sequence[int]) -> Tensor:
    """``(*S)`` -> ``(*at least patch)``: beyond the volume, IGNORE."""
    size = tuple(map(max, labels.shape, patch))
    if size == tuple(labels.shape):
        return labels
    wide = torch.full(size, IGNORE, dtype=labels.dtype, device=labels.device)
    wide[inside(labels.shape, patch)] = labels
    return wide
