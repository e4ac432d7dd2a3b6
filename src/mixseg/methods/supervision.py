"""What the methods share: a loss against full masks, and the images that have none."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from mixseg.losses import cross_entropy
from mixseg.methods.base import foreground_dice, mean_of_labelled
from mixseg.types import Batch


def unlabelled_images(batch: Batch) -> Tensor | None:
    """The images ``(B, channels, *S)`` of the partly labelled and the bare scans alike, or None; no label is read."""
    images = [part.image for part in (batch.partial, batch.bare) if part.rows]
    return torch.cat(images) if images else None


def supervised(logits: Tensor, label: Tensor, weights: Mapping[str, float]) -> dict[str, Tensor]:
    """The cross-entropy "full" and, where it has a weight, the soft "dice" of the foreground classes."""
    values = {"full": mean_of_labelled(cross_entropy(logits, label), label)}
    if "dice" in weights:
        values["dice"] = foreground_dice(logits, label)
    return {name: value for name, value in values.items() if name in weights}
