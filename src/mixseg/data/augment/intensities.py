"""Gamma, inversion, contrast, brightness, blur, low resolution and noise, in units of each image's own grey values.

Nothing here knows whether an image runs from 0 to 1 or is z-scored: ``change(a * image + b)`` is
``a * change(image) + b`` for every ``a > 0``. Results are not clipped.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mixseg.data.augment.separable import along, gaussian, subsampling
from mixseg.data.augment.strength import Augmentation, Columns, amounts

COLUMNS = 13
"""Uniform numbers per image: a decision and an amount for each of six changes, and the decision to invert."""


def change(
    image: Tensor, strength: Augmentation, columns: Columns, *, normal: Tensor | None, steps: Sequence[float]
) -> Tensor:
    """Images ``(B, C, *S)`` with other grey values.

    Args:
        image: Float.
        strength: What may happen.
        columns: The image's random numbers.
        normal: ``(B, C, *S)``, for the noise.
        steps: Relative voxel sizes: a blur is as wide along thick slices as along thin ones, in mm.
    """
    for exponent in amounts(strength.gamma, columns, neutral=1):
        image = _gamma(image, exponent)
    contrast = amounts(strength.contrast, columns, neutral=1)
    brightness = amounts(strength.brightness, columns)
    blur = amounts(strength.blur, columns)
    kept = amounts(strength.low_resolution, columns, neutral=1)
    noise = amounts(strength.noise, columns)
    inverted = next(columns) < strength.invert
    if contrast or brightness or noise or strength.invert:
        deviation, mean = torch.std_mean(image, dim=_spatial(image), keepdim=True, correction=0)
    if strength.invert:
        image = torch.where(_per_image(inverted, image), 2 * mean - image, image)
    for factor in contrast:
        image = mean + (image - mean) * _per_image(factor, image)
    for offset in brightness:
        image = image + deviation * _per_image(offset, image)
    image = _blur(image, blur, kept, steps)
    if noise and normal is not None:
        image = image + normal * (deviation * _per_image(noise[0], image))
    return image


def _gamma(image: Tensor, exponent: Tensor) -> Tensor:
    low, high = (end(image, dim=_spatial(image), keepdim=True) for end in (torch.amin, torch.amax))
    span = (high - low).clamp(min=torch.finfo(image.dtype).tiny)
    return low + span * ((image - low) / span) ** _per_image(exponent, image)


def _blur(image: Tensor, blur: list[Tensor], kept: list[Tensor], steps: Sequence[float]) -> Tensor:
    """Blurred and subsampled: along each axis both are matrices, and their product is applied once."""
    if not (blur or kept):
        return image
    for axis, step in enumerate(steps):
        size, finest = image.shape[axis + 2], min(steps) / step
        matrices = [subsampling(size, (finest / share).clamp(min=1)) for share in kept]
        matrices += [gaussian(size, sigma * finest) for sigma in blur]
        matrix = matrices[0] if len(matrices) == 1 else matrices[0] @ matrices[1]
        # The difference from the identity is exactly zero for an image that is spared, at any matmul precision.
        image = image + along(axis, matrix - torch.eye(size, dtype=image.dtype, device=image.device), image)
    return image


def _spatial(image: Tensor) -> list[int]:
    return list(range(2, image.dim()))


def _per_image(amount: Tensor, image: Tensor) -> Tensor:
    return amount.view(-1, *(1,) * (image.dim() - 1))
