"""Rotation, tilt, scale, shear, shift and a smooth deformation, composed into one resampling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import torch
from torch import Tensor
from torch.nn import functional as F

from mixseg.core.types import IGNORE
from mixseg.data.augment.separable import CELLS, along, spline
from mixseg.data.augment.strength import Augmentation, Columns, amounts

COLUMNS = 17
"""Uniform numbers per image: a decision for each of six changes, and 1 + 2 + 1 + 3 + 3 + 1 amounts."""


def change(
    image: Tensor,
    maps: Tensor,
    strength: Augmentation,
    columns: Columns,
    *,
    control: Tensor | None,
    steps: Sequence[float],
) -> tuple[Tensor, Tensor]:
    """Images ``(B, C, *S)`` interpolated, with their edges drawn out; maps ``(B, L, *S)`` nearest, IGNORE outside.

    Args:
        image: Float.
        maps: uint8.
        strength: What may happen.
        columns: The image's random numbers.
        control: ``(B, axes, *control points)`` in -1..1, for the deformation.
        steps: Relative voxel sizes, so that a rotation keeps shapes on anisotropic grids.
    """
    affine = _affine(image, strength, columns, steps)
    bend = amounts(strength.elastic, columns)
    if affine is None and not bend:
        return image, maps
    if affine is None:
        affine = F.pad(_identity(image), (0, 1))
    # grid_sample counts its coordinates from the last axis.
    affine = torch.cat((affine[..., :-1].flip(1, 2), affine[..., -1:].flip(1)), dim=-1)
    grid = F.affine_grid(affine, [len(image), 1, *image.shape[2:]], align_corners=False)
    if bend and control is not None:
        grid = grid + _deformation(control, bend[0], image.shape[2:])
    image = F.grid_sample(image, grid, mode="bilinear", padding_mode="border", align_corners=False)
    if maps.shape[1]:
        # Outside the image grid_sample gives 0, so labels are counted down from IGNORE. float32 holds them exactly.
        counted = F.grid_sample((IGNORE - maps).to(grid.dtype), grid, mode="nearest", align_corners=False)
        maps = IGNORE - counted.to(torch.uint8)
    return image, maps


def _affine(image: Tensor, strength: Augmentation, columns: Columns, steps: Sequence[float]) -> Tensor | None:
    """``(B, axes, axes + 1)``: from where each output coordinate in -1..1 is fetched; None if all of it is off."""
    extent = [size * step for size, step in zip(image.shape[2:], steps, strict=True)]
    axes = len(extent)
    rotation = amounts(strength.rotation, columns)
    tilts = amounts(strength.tilt, columns, count=2)
    scale = amounts(strength.scale, columns, neutral=1)
    shears = amounts(strength.shear, columns, count=3)
    shifts = amounts(strength.shift, columns, count=3)[:axes]
    factors = [_rotation(angle, (0, 1), extent) for angle in rotation]
    factors += [_rotation(angle, (axis, 2), extent) for axis, angle in enumerate(tilts) if axes == 3]
    factors += [_shear(slope, plane, extent) for slope, plane in zip(shears, _planes(axes), strict=False)]
    if not (factors or scale or shifts):
        return None
    matrix = factors[0] if factors else _identity(image)
    for factor in factors[1:]:
        matrix = matrix @ factor
    for magnification in scale:
        matrix = matrix / magnification.view(-1, 1, 1)
    moves = 2 * torch.stack(shifts, dim=1) if shifts else image.new_zeros(len(image), axes)
    return torch.cat((matrix, moves.unsqueeze(-1)), dim=-1)


def _identity(image: Tensor) -> Tensor:
    axes = image.dim() - 2
    return torch.eye(axes, dtype=image.dtype, device=image.device).expand(len(image), -1, -1)


def _planes(axes: int) -> list[tuple[int, int]]:
    return list(combinations(range(axes), 2))


def _rotation(degrees: Tensor, plane: tuple[int, int], extent: Sequence[float]) -> Tensor:
    angle = degrees * (math.pi / 180)
    cosine, sine = torch.cos(angle), torch.sin(angle)
    return _in_plane(plane, extent, ((cosine, -sine), (sine, cosine)))


def _shear(slope: Tensor, plane: tuple[int, int], extent: Sequence[float]) -> Tensor:
    one, zero = torch.ones_like(slope), torch.zeros_like(slope)
    return _in_plane(plane, extent, ((one, slope), (zero, one)))


def _in_plane(
    plane: tuple[int, int], extent: Sequence[float], block: tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]
) -> Tensor:
    """``(B, axes, axes)``: ``block`` acts on two axes in mm; the matrix on coordinates that run from -1 to 1.

    Shapes must be kept in mm: a patch need not be a cube, nor a voxel.
    """
    first, second = plane
    aspect = extent[second] / extent[first]
    (a, b), (c, d) = block
    entries = {(first, first): a, (first, second): b * aspect, (second, first): c / aspect, (second, second): d}
    axes = len(extent)
    one, zero = torch.ones_like(a), torch.zeros_like(a)
    rows = [entries.get((i, j), one if i == j else zero) for i in range(axes) for j in range(axes)]
    return torch.stack(rows, dim=-1).view(-1, axes, axes)


def _deformation(control: Tensor, size: Tensor, shape: Sequence[int]) -> Tensor:
    """``(B, *S, axes)``: a smooth displacement for grid_sample, from control points in -1..1."""
    field = control * (size * (2 / CELLS)).view(-1, *(1,) * (control.dim() - 1))
    for axis, voxels in enumerate(shape):
        field = along(axis, spline(voxels, control), field)
    return field.flip(1).movedim(1, -1)
