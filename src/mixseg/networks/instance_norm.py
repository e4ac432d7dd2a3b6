"""Instance normalisation that suits maps whose channels come last."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

EPSILON = 1e-5


class InstanceNorm(nn.Module):
    """Each channel of each image to mean 0 and variance 1, then a scale and a shift per channel.

    On a GPU as plain arithmetic: torch's kernel copies maps whose channels come last to another layout and back, which
    takes longer than all the rest of a step; of this the compiler makes two passes over the map.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))

    def forward(self, feature: Tensor) -> Tensor:
        """The normalised map ``(B, C, *S)``, in its own precision."""
        if feature.is_cuda:
            return normalised(feature, self.weight, self.bias)
        return F.instance_norm(feature, weight=self.weight, bias=self.bias, eps=EPSILON)


def normalised(feature: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """What ``F.instance_norm`` computes, as arithmetic in float32 or better."""
    axes = list(range(2, feature.ndim))
    shape = (1, -1, *[1] * len(axes))
    values = feature.to(weight.dtype)
    variance, mean = torch.var_mean(values, axes, correction=0, keepdim=True)
    scale = weight.view(shape) * torch.rsqrt(variance + EPSILON)
    return ((values - mean) * scale + bias.view(shape)).to(feature.dtype)
