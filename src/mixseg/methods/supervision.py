"""What the methods share: a loss against full masks, and the images that have none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mixseg.core.types import Batch, Part
from mixseg.methods.base import foreground_dice, mean_of_labelled
from mixseg.methods.losses import cross_entropy
from mixseg.networks import Network


def unlabeled_images(batch: Batch) -> Tensor | None:
    """The images ``(B, channels, *S)`` of the partly labelled and the unlabeled scans, or None; no label is read."""
    images = [part.image for part in (batch.partial, batch.unlabeled) if part.rows]
    return torch.cat(images) if images else None


def supervised_on(network: Network, part: Part, weights: Mapping[str, float]) -> dict[str, Tensor]:
    """The terms of ``supervised`` for a network of one branch, on scans with full masks."""
    return supervised(network.decode_deep(network.encode(part.image), 0), part.full, weights)


def supervised(answers: Sequence[Tensor], label: Tensor, weights: Mapping[str, float]) -> dict[str, Tensor]:
    """The cross-entropy "full" and, where it has a weight, the soft "dice" of the foreground classes.

    Args:
        answers: Logits at the label's resolution, at half of it, a quarter, ...: each counts half of the one before.
        label: ``(B, *S)``.
        weights: Of the terms that are wanted.
    """
    values: dict[str, list[Tensor]] = {"full": [], "dice": []}
    for level, logits in enumerate(answers):
        every = slice(None, None, 2**level)
        seen, share = label[:, *(every,) * (label.ndim - 1)], 0.5**level
        values["full"].append(share * mean_of_labelled(cross_entropy(logits, seen), seen))
        if "dice" in weights:
            values["dice"].append(share * foreground_dice(logits, seen))
    return {name: torch.stack(of_levels).sum() for name, of_levels in values.items() if name in weights}
