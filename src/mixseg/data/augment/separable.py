"""Linear operators along single axes, as matrices: one code path for any number of axes and a matrix per image."""

from __future__ import annotations

import torch
from torch import Tensor

CELLS = 5
"""Cells between the control points of a spline, along each axis."""

CONTROL_POINTS = CELLS + 3


def along(axis: int, matrix: Tensor, array: Tensor) -> Tensor:
    """``matrix`` times ``array`` along the spatial ``axis`` of ``(B, C, *S)``.

    Args:
        axis: Counted from the first spatial one.
        matrix: ``(n, m)``, or ``(B, n, m)`` with one for each image.
        array: With ``m`` entries along the axis; the result has ``n``.
    """
    moved = array.movedim(axis + 2, -1)
    product = moved.flatten(1, -2) @ matrix.mT
    return product.view(*moved.shape[:-1], -1).movedim(-1, axis + 2)


def spline(size: int, like: Tensor) -> Tensor:
    """``(size, CONTROL_POINTS)``: the uniform cubic B-spline at the voxels of an axis."""
    position = (torch.arange(size, device=like.device, dtype=like.dtype) + 0.5) * (CELLS / size)
    knot = torch.arange(CONTROL_POINTS, device=like.device, dtype=like.dtype) - 1
    t = (position[:, None] - knot).abs()
    near, far = (4 - 6 * t**2 + 3 * t**3) / 6, (2 - t).clamp(min=0) ** 3 / 6
    return torch.where(t < 1, near, far)


def gaussian(size: int, sigma: Tensor) -> Tensor:
    """``(B, size, size)``: a Gaussian blur for each ``sigma``; the identity where it is 0. Edges lose no brightness."""
    index = torch.arange(size, device=sigma.device, dtype=sigma.dtype)
    # Below a thousandth of a voxel all neighbours underflow to exactly zero.
    width = sigma.clamp(min=1e-3).view(-1, 1, 1)
    weights = torch.exp(-0.5 * ((index[:, None] - index) / width) ** 2)
    return weights / weights.sum(dim=-1, keepdim=True)


def subsampling(size: int, step: Tensor) -> Tensor:
    """``(B, size, size)``: every ``step``-th voxel kept and the others interpolated; the identity where it is 1."""
    index = torch.arange(size, device=step.device, dtype=step.dtype)
    step = step.view(-1, 1)
    position = (index + 0.5) / step - 0.5
    below = torch.floor(position)
    weight = (position - below).unsqueeze(-1)

    last = torch.floor(size / step + 1e-3) - 1

    def kept(sample: Tensor) -> Tensor:
        voxel = torch.round((torch.minimum(sample.clamp(min=0), last) + 0.5) * step - 0.5)
        return (voxel.unsqueeze(-1) == index).to(step.dtype)

    return (1 - weight) * kept(below) + weight * kept(below + 1)
