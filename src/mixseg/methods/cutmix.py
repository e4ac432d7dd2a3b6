"""Scans cut into each other: what a student is shown of the scans without full masks, and what it should answer.

    x' = x outside a random box, another scan of the batch inside it
    y' = the same boxes cut from the targets: the full mask where there is one; elsewhere the partial labels and, where
         they are silent, the class that the student's moving average is sure of

The average sees whole scans, the student sees them cut: to agree, the student has to know a structure by more than its
usual surroundings. Labels, partial ones too, are never overruled by a proposal.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mixseg.core.types import IGNORE, Batch, Part
from mixseg.data.augment import STRONG, intensities

CONFIDENT = 0.8
"""Probability from which on the average's class is taken as a target."""

SMALLEST, LARGEST = 0.3, 0.7
"""Sides of the boxes, as shares of the image's."""


class CutMixed(NamedTuple):
    """A batch whose rows without full masks are cut into each other.

    Attributes:
        batch: The rows with full masks as they were, the others mixed, with their partial labels.
        target: What the mixed rows show, ``(B, *S)`` uint8 with IGNORE, in the order of ``batch.parts[1:]``.
    """

    batch: Batch
    target: Tensor


def cutmix(batch: Batch, proposed: Tensor) -> CutMixed:
    """The rows of ``batch`` without full masks, each with a box of another row of the batch pasted in.

    Args:
        batch: With at least one row that has no full mask.
        proposed: Class probabilities ``(B, classes, *S)`` for those rows, partial ones first.
    """
    rest = (batch.partial, batch.unlabeled)
    images = torch.cat([part.image for part in rest])
    labels = torch.cat([part.partial for part in rest])
    targets = settle(proposed, labels)
    inside = boxes(images)
    other = _partners(batch.full.rows, len(images), images.device)
    images = torch.where(inside.unsqueeze(1), torch.cat([batch.full.image, images])[other], images)
    labels = torch.where(inside, torch.cat([batch.full.partial, labels])[other], labels)
    targets = torch.where(inside, torch.cat([batch.full.full, targets])[other], targets)
    sizes = [part.rows for part in rest]
    nothing = torch.full_like(labels, IGNORE)
    mixed = (Part(*rows) for rows in zip(*(torch.split(t, sizes) for t in (images, nothing, labels)), strict=True))
    return CutMixed(Batch(batch.full, *mixed), targets)


def strong_view(images: Tensor) -> Tensor:
    """The images with other grey values: the moving average answered for them as they were."""
    if not len(images):
        return images
    columns = iter(torch.rand((intensities.COLUMNS, len(images)), device=images.device).to(images).unbind())
    return intensities.change(
        images, STRONG, columns, normal=torch.randn_like(images), steps=(1.0,) * (images.ndim - 2)
    )


def settle(proposed: Tensor, labels: Tensor) -> Tensor:
    """Targets ``(B, *S)``: the labels that are there, elsewhere the proposed class if it is sure, else IGNORE."""
    confidence, guess = proposed.max(dim=1)
    guess = torch.where(confidence >= CONFIDENT, guess.to(torch.uint8), IGNORE)
    return torch.where(labels == IGNORE, guess, labels)


def boxes(images: Tensor) -> Tensor:
    """A random box for each image, ``(B, *S)``, true inside."""
    inside = torch.ones((), dtype=torch.bool, device=images.device)
    for axis, side in enumerate(images.shape[2:]):
        length, start = torch.rand((2, len(images), 1), device=images.device)
        length = SMALLEST + (LARGEST - SMALLEST) * length
        at = (torch.arange(side, device=images.device) + 0.5) / side
        start = start * (1 - length)
        shape = [len(images), *(side if other == axis else 1 for other in range(images.ndim - 2))]
        inside = inside & ((at >= start) & (at < start + length)).view(shape)
    return inside


def _partners(full: int, rows: int, device: torch.device) -> Tensor:
    """For each of ``rows`` mixed rows, the row of the batch (``full`` rows first) that is pasted into it."""
    return torch.rand(full + rows, device=device).argsort()[:rows]
