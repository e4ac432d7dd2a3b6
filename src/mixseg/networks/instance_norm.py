"""Instance normalisation that suits maps whose channels come last."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

EPSILON = 1e-5


class InstanceNorm(nn.Module):
    """Each channel of each image to mean 0 and variance 1, then a scale and a shift per channel.

    On a GPU as plain arithmetic: torch's kernel copies maps whose channels come last to another layout and back, which
    takes longer than all the rest of a step; of this the compiler makes two passes over the map. Where nothing is
    compiled, the gradient is written out, so that the map alone is kept for it and no copy in float32.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))

    def forward(self, feature: Tensor) -> Tensor:
        """The normalised map ``(B, C, *S)``, in its own precision."""
        if feature.is_cuda and not torch.compiler.is_compiling():
            return leanly_normalised(feature, self.weight, self.bias)
        if feature.is_cuda or feature.shape[2:].numel() == 1:  # of a single voxel torch's own makes an error
            return normalised(feature, self.weight, self.bias)
        return F.instance_norm(feature, weight=self.weight, bias=self.bias, eps=EPSILON)


def normalised(feature: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """What ``F.instance_norm`` computes, as arithmetic in float32 or better."""
    _, shape = _axes(feature)
    values = feature.to(weight.dtype)
    mean, inverse = _moments(values)
    return ((values - mean) * (weight.view(shape) * inverse) + bias.view(shape)).to(feature.dtype)


def leanly_normalised(feature: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The same; for the gradient, the map as it came is kept and two numbers per channel."""
    found: Tensor = _Normalised.apply(feature, weight, bias)  # type: ignore[no-untyped-call]
    return found


class _Normalised(torch.autograd.Function):
    """The gradient in closed form.

    With u = (x - mean) / sd and g the gradient of y = weight * u + bias:
    dx = weight / sd * (g - mean(g) - u * mean(g * u)), dweight = sum(g * u), dbias = sum(g).
    """

    @staticmethod
    def forward(ctx: Any, feature: Tensor, weight: Tensor, bias: Tensor) -> Tensor:  # noqa: ANN401 - torch's own type
        _, shape = _axes(feature)
        values = feature.to(weight.dtype)
        mean, inverse = _moments(values)
        ctx.save_for_backward(feature, weight, mean, inverse)
        scale = weight.view(shape) * inverse
        return (values * scale).add_(bias.view(shape) - mean * scale).to(feature.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # noqa: ANN401
        feature, weight, mean, inverse = ctx.saved_tensors
        axes, shape = _axes(feature)
        count = feature[0, 0].numel()
        unit = feature.to(weight.dtype).sub(mean).mul_(inverse)
        shift = gradient.sum(axes, keepdim=True, dtype=weight.dtype)
        scale = (gradient * unit).sum(axes, keepdim=True)
        back = unit.mul_(-scale / count).add_(gradient).sub_(shift / count).mul_(weight.view(shape) * inverse)
        return back.to(feature.dtype), scale.sum(0).flatten(), shift.sum(0).flatten()


def _moments(values: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and one over the standard deviation of each channel of each image."""
    variance, mean = torch.var_mean(values, _axes(values)[0], correction=0, keepdim=True)
    return mean, torch.rsqrt(variance + EPSILON)


def _axes(feature: Tensor) -> tuple[list[int], tuple[int, ...]]:
    """The spatial axes of ``(B, C, *S)``, and the shape of a number per channel."""
    axes = list(range(2, feature.ndim))
    return axes, (1, -1, *[1] * len(axes))
