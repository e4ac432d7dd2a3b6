"""Random changes of a batch on its device: images and labels in, images and labels out.

One code path for images and volumes, vectorised over the batch: every image draws its own change. ``draw`` takes all
random numbers from the generator; ``apply`` is a pure function of them that never waits for the device and can be
compiled. What each change assumes and why it is there: ``docs/concepts/augmentation.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from mixseg.data.augment import intensities, symmetries, warp
from mixseg.data.augment.separable import CONTROL_POINTS
from mixseg.data.augment.strength import AUGMENTATIONS, NONE, OFF, PAPER_3D, STRONG, Augmentation, Chance

__all__ = [
    "AUGMENTATIONS",
    "NONE",
    "OFF",
    "PAPER_3D",
    "STRONG",
    "Augmentation",
    "Chance",
    "Draws",
    "apply",
    "augment",
    "draw",
]

COLUMNS = symmetries.COLUMNS + warp.COLUMNS + intensities.COLUMNS


class Draws(NamedTuple):
    """The random numbers of one batch.

    Attributes:
        uniform: ``(COLUMNS, B)`` in 0..1: decisions and amounts.
        control: ``(B, axes, *control points)`` in -1..1, for the elastic deformation; None if it is off.
        normal: ``(B, C, *S)``, for the noise; None if it is off.
    """

    uniform: Tensor
    control: Tensor | None
    normal: Tensor | None


def augment(
    image: Tensor,
    labels: tuple[Tensor, ...],
    strength: Augmentation,
    generator: torch.Generator,
    *,
    spacing: Sequence[float] | None = None,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """A changed copy of a batch; labels follow their image, and are IGNORE where it shows nothing.

    Args:
        image: ``(B, C, *S)`` float32 or float64, of any intensity scale: amounts are relative to each image's own.
        labels: Any number of maps ``(B, *S)`` uint8, class indices or IGNORE.
        strength: What may happen.
        generator: Source of all random numbers; the same state gives the same result.
        spacing: Voxel size along each axis, if they differ: rotations and blurs then happen in mm.
    """
    if strength == NONE or not len(image):
        return image, labels
    return apply(image, labels, draw(image, strength, generator), strength, spacing=spacing)


def draw(image: Tensor, strength: Augmentation, generator: torch.Generator) -> Draws:
    """All random numbers that a batch of this shape needs."""
    batch, axes = len(image), image.dim() - 2
    uniform = torch.rand((COLUMNS, batch), generator=generator, device=generator.device)
    control = normal = None
    if strength.elastic.probability:
        points = (batch, axes, *(CONTROL_POINTS,) * axes)
        control = (2 * torch.rand(points, generator=generator, device=generator.device) - 1).to(image)
    if strength.noise.probability:
        normal = torch.randn(image.shape, generator=generator, device=generator.device).to(image)
    return Draws(uniform.to(image), control, normal)


def apply(
    image: Tensor,
    labels: tuple[Tensor, ...],
    draws: Draws,
    strength: Augmentation,
    *,
    spacing: Sequence[float] | None = None,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The batch, changed as drawn; arguments as for ``augment``."""
    columns = iter(draws.uniform.unbind())
    steps = (1.0,) * (image.dim() - 2) if spacing is None else spacing
    maps = torch.stack(labels, dim=1) if labels else image.new_empty((len(image), 0, *image.shape[2:])).byte()
    image, maps = symmetries.change(image, maps, strength, columns)
    image, maps = warp.change(image, maps, strength, columns, control=draws.control, steps=steps)
    image = intensities.change(image, strength, columns, normal=draws.normal, steps=steps)
    return image, maps.unbind(dim=1)
