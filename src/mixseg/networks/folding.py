"""A trained network answers with its batch normalisations folded into the convolutions before them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mixseg.networks.convolutions import Conv2d, widened
from mixseg.networks.relu import ReLU

LAYERS = (Conv2d, nn.BatchNorm2d, ReLU)


class ConvReLU(nn.Module):
    """A convolution, the batch normalisation and the ReLU after it, as one kernel of cuDNN where it has one.

    It takes no part in a step: the weights are those of the moment it is made.
    """

    def __init__(self, convolution: Conv2d, normalisation: nn.BatchNorm2d, dtype: torch.dtype) -> None:
        super().__init__()
        weight, bias = fold(convolution, normalisation)
        self.alone = convolution.in_channels == 1
        if self.alone:
            weight = widened(weight)
        self.weight, self.bias = weight.to(dtype, memory_format=torch.channels_last), bias.to(dtype)
        padding = cast(tuple[int, ...], convolution.padding)
        self.geometry = (convolution.stride, padding, convolution.dilation, convolution.groups)

    def forward(self, feature: Tensor) -> Tensor:
        """What the three layers answer."""
        if self.alone:
            feature = widened(feature)
        feature = feature.to(self.weight.dtype, memory_format=torch.channels_last)
        try:
            found: Tensor = torch.cudnn_convolution_relu(feature, self.weight, self.bias, *self.geometry)
        except RuntimeError:  # a card, or a size, that cuDNN has no such kernel for
            return F.relu_(F.conv2d(feature, self.weight, self.bias, *self.geometry))
        return found


@torch.no_grad()
def fold(convolution: Conv2d, normalisation: nn.BatchNorm2d) -> tuple[Tensor, Tensor]:
    """Weight and bias of a convolution that answers what it and a normalisation in evaluation mode answer."""
    mean, variance = cast(Tensor, normalisation.running_mean), cast(Tensor, normalisation.running_var)
    scale = normalisation.weight * torch.rsqrt(variance + normalisation.eps)
    # An idle bias is 0, so that it can be added like any other.
    before = mean if convolution.bias is None else mean - convolution.bias
    return convolution.weight * scale[:, None, None, None], normalisation.bias - before * scale


@contextmanager
def folded(module: nn.Module, dtype: torch.dtype) -> Iterator[None]:
    """Inside, each convolution of ``module`` that a batch normalisation and a ReLU follow is one layer with them.

    Its weights then have other names: what reads or loads them has to wait.
    """
    blocks = [part for part in module.modules() if isinstance(part, nn.Sequential)]
    kept = [(block, list(block)) for block in blocks]
    for block, layers in kept:
        for place in range(len(layers) - 2):
            if all(isinstance(layers[place + i], kind) for i, kind in enumerate(LAYERS)):
                convolution, normalisation = cast(Conv2d, layers[place]), cast(nn.BatchNorm2d, layers[place + 1])
                block[place] = ConvReLU(convolution, normalisation, dtype)
                block[place + 1] = block[place + 2] = nn.Identity()
    try:
        yield
    finally:
        for block, layers in kept:
            for place, layer in enumerate(layers):
                block[place] = layer
