"""Losses against labels. An unlabeled voxel is IGNORE, so full, partial and absent labels are one case."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from mixseg.core.types import IGNORE
from mixseg.methods.losses.precision import at_least_float32


def cross_entropy(logits: Tensor, label: Tensor) -> Tensor:
    """``-log p[label]`` per voxel ``(B, *S)``, and 0 where the label is IGNORE.

    Equations 1 and 2 of the paper: the same function for full masks, scribbles and foreground-only labels. The mean
    over the labelled voxels is ``labelled_mean(cross_entropy(logits, label), label != IGNORE)``.

    Args:
        logits: ``(B, C, *S)``.
        label: ``(B, *S)`` class indices or IGNORE, of any integer type.
    """
    return F.cross_entropy(at_least_float32(logits), label.long(), ignore_index=IGNORE, reduction="none")


def soft_dice(probs: Tensor, label: Tensor, *, smoothing: float = 1e-5) -> Tensor:
    """One minus the soft Dice coefficient of each class ``(C,)``, over the labelled voxels of the whole batch.

    ``1 - (2 sum p y + smoothing) / (sum p^2 + sum y + smoothing)``; a class that is neither there nor predicted gives
    0. This is the one loss without a value per voxel: take ``soft_dice(...)[1:].mean()`` to leave out the background.

    Args:
        probs: ``(B, C, *S)`` probabilities.
        label: ``(B, *S)`` class indices or IGNORE, of any integer type.
        smoothing: Keeps the quotient defined where a class is absent.
    """
    return dice_of_sums(*dice_sums(probs, label), smoothing=smoothing)


def dice_of_sums(twice_overlap: Tensor, sizes: Tensor, *, smoothing: float = 1e-5) -> Tensor:
    """``soft_dice`` from the sums of all the voxels that it is about."""
    return 1 - (twice_overlap + smoothing) / (sizes + smoothing)


def dice_sums(probs: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
    """``2 sum p y`` and ``sum p^2 + sum y`` of each class ``(C,)``: both can be added up over processes."""
    probs = at_least_float32(probs)
    labelled = (label != IGNORE).unsqueeze(1)
    classes = torch.arange(probs.shape[1], device=probs.device).reshape(-1, *[1] * (probs.ndim - 2))
    truth = (label.unsqueeze(1) == classes).to(probs.dtype)
    seen = torch.where(labelled, probs, 0)
    voxels = [axis for axis in range(probs.ndim) if axis != 1]
    return 2 * (seen * truth).sum(voxels), (seen**2 + truth).sum(voxels)
