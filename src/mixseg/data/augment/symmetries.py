"""Quarter turns and flips: each voxel goes to a voxel, nothing is interpolated."""

from __future__ import annotations

import torch
from torch import Tensor

from mixseg.data.augment.strength import Augmentation, Columns

COLUMNS = 7
"""Uniform numbers per image: turn and how far, one of two axes and which, a flip for each of three axes."""


def change(image: Tensor, maps: Tensor, strength: Augmentation, columns: Columns) -> tuple[Tensor, Tensor]:
    """Images ``(B, C, *S)`` and maps ``(B, L, *S)``, turned and flipped alike."""
    turn, far, flip_one, which, *flip_each = (next(columns) for _ in range(COLUMNS))
    axes = range(image.dim() - 2)
    square = image.shape[2] == image.shape[3]
    quarters = torch.floor(far * 4) if square else 2 * torch.floor(far * 2)
    quarters = torch.where(turn < strength.turn, quarters, 0)
    # A quarter turn is a transposition and a flip of the first axis; two are two flips; and so on.
    flips = [roll < strength.flip for _, roll in zip(axes, flip_each, strict=False)]
    one = flip_one < strength.flip_one
    flips[0] = flips[0] ^ (quarters == 1) ^ (quarters == 2) ^ (one & (which < 0.5))
    flips[1] = flips[1] ^ (quarters == 2) ^ (quarters == 3) ^ (one & (which >= 0.5))
    if strength.turn and square:
        odd = quarters % 2 == 1
        image, maps = (_where(odd, array.transpose(2, 3), array) for array in (image, maps))
    planar = strength.turn or strength.flip_one
    for axis in axes:
        if strength.flip or (planar and axis < 2):
            image, maps = (_where(flips[axis], array.flip(axis + 2), array) for array in (image, maps))
    return image, maps


def _where(chosen: Tensor, changed: Tensor, original: Tensor) -> Tensor:
    return torch.where(chosen.view(-1, *(1,) * (original.dim() - 1)), changed, original)
