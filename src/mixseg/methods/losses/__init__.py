"""Losses as pure functions: logits or probabilities in, a value per voxel ``(B, *S)`` out.

The mask and the reduction are the caller's: ``labelled_mean(cross_entropy(logits, label), label != IGNORE)``.
"""

from mixseg.methods.losses.divergences import DIVERGENCES, Divergence, divergence, smooth
from mixseg.methods.losses.terms import (
    cross_entropy,
    dice_of_sums,
    dice_sums,
    entropy,
    labelled_mean,
    masked_sum_and_count,
    min_entropy,
    soft_dice,
)

__all__ = [
    "DIVERGENCES",
    "Divergence",
    "cross_entropy",
    "dice_of_sums",
    "dice_sums",
    "divergence",
    "entropy",
    "labelled_mean",
    "masked_sum_and_count",
    "min_entropy",
    "smooth",
    "soft_dice",
]
