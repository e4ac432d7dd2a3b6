"""How much two soft assignments to clusters tell about each other, image by image or voxel by voxel."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import grad

CONV = {2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {2: F.conv_transpose2d, 3: F.conv_transpose3d}
WEIGHT_GRADIENT = {2: grad.conv2d_weight, 3: grad.conv3d_weight}


def mutual_information(joint: Tensor) -> Tensor:
    """``sum P log(P / (P_row P_column))`` of each ``(..., K, K)`` joint, after scaling to 1 and symmetrising.

    From 0 (independent) to ``log K`` (equal, and spread evenly over the clusters).
    """
    joint = joint / joint.sum(dim=(-2, -1), keepdim=True)
    joint = (joint + joint.mT) / 2
    rows, columns = joint.sum(dim=-1, keepdim=True), joint.sum(dim=-2, keepdim=True)
    ratio = _safe_log(joint) - _safe_log(rows) - _safe_log(columns)
    return (joint * ratio).sum(dim=(-2, -1))


def global_information(first: Tensor, second: Tensor) -> Tensor:
    """The information ``(heads,)`` between assignments ``(B, heads, K)`` of the same images."""
    return mutual_information(torch.einsum("bhk,bhl->hkl", first, second))


def local_information(first: Tensor, second: Tensor, *, pad: int) -> Tensor:
    """The information ``(heads,)`` between assignments ``(B, heads, K, *S)`` of voxels up to ``pad`` apart.

    It is the mean over all displacements ``|u| <= pad`` along each axis. The smallest entry of a head's joints is taken
    off all of them, as published: what remains is what the displacements tell beyond what they all share.
    """
    found = []
    for one, other in zip(first.unbind(dim=1), second.unbind(dim=1), strict=True):
        joint = displaced_joint(one, other, pad=pad).flatten(2).movedim(2, 0)
        found.append(mutual_information(joint - joint.detach().amin() + 1e-16).mean())
    return torch.stack(found)


def displaced_joint(first: Tensor, second: Tensor, *, pad: int) -> Tensor:
    """``P[k, l, u] = sum over images and voxels v of first[k, v + u] second[l, v]``, zero outside the image.

    Args:
        first: ``(B, K, *S)``.
        second: ``(B, K, *S)``.
        pad: The largest displacement; the result is ``(K, K, *(2 pad + 1))`` with ``u = 0`` in the middle.
    """
    joint: Tensor = _DisplacedJoint.apply(first.contiguous(), second.contiguous(), pad)  # type: ignore[no-untyped-call]
    return joint.transpose(0, 1)


class _DisplacedJoint(torch.autograd.Function):
    """The sums over all displacements at once: they are the weight gradient of a convolution of that size.

    As a convolution of ``first`` with ``second`` as its kernel it would have a kernel of the image's size. As a weight
    gradient it is what libraries are fastest at, and its own gradients are two ordinary small convolutions.
    """

    @staticmethod
    def forward(ctx: Any, first: Tensor, second: Tensor, pad: int) -> Tensor:  # noqa: ANN401 - torch's own type
        ctx.save_for_backward(first, second)
        ctx.pad = pad
        dims = first.ndim - 2
        size = (second.shape[1], first.shape[1], *[2 * pad + 1] * dims)
        joint: Tensor = WEIGHT_GRADIENT[dims](first, size, second, padding=pad)  # type: ignore[no-untyped-call]
        return joint

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, Tensor, None]:  # noqa: ANN401
        first, second = ctx.saved_tensors
        dims = first.ndim - 2
        with torch.autocast(first.device.type, enabled=False):
            to_first = TRANSPOSED[dims](second, outer, padding=ctx.pad)
            to_second = CONV[dims](first, outer, padding=ctx.pad)
        return to_first, to_second, None


def _safe_log(values: Tensor) -> Tensor:
    return values.clamp_min(1e-10).log()
