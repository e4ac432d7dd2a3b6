"""A trained network answers with its batch normalisations folded into the convolutions before them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mixseg.networks.layers import Conv2d, ReLU, widened

LAYERS = (Conv2d, nn.BatchNorm2d, ReLU)


class ConvReLU:
    """A convolution, the batch normalisation and the ReLU after it, as one kernel of cuDNN where it has one.

    The weights are those of the moment it is made.
    """

    def __init__(self, convolution: Conv2d, normalisation: nn.BatchNorm2d, dtype: torch.dtype) -> None:
        weight, bias = fold(convolution, normalisation)
        self.weight, self.bias = widened(weight).to(dtype, memory_format=torch.channels_last), bias.to(dtype)
        padding = cast(tuple[int, ...], convolution.padding)
        self.geometry = (convolution.stride, padding, convolution.dilation, convolution.groups)

    def __call__(self, feature: Tensor) -> Tensor:
        """What the three layers answer."""
        feature = widened(feature.to(self.weight.dtype)).contiguous(memory_format=torch.channels_last)
        try:
            found: Tensor = torch.cudnn_convolution_relu(feature, self.weight, self.bias, *self.geometry)
        except torch.OutOfMemoryError:
            raise
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
    """Inside, ``module`` computes each convolution that a batch normalisation and a ReLU follow as one with them.

    Its layers and their weights stay where they are. A block takes the weights that it has when it is first called.
    """
    blocks = [part for part in module.modules() if isinstance(part, nn.Sequential) and "forward" not in vars(part)]
    try:
        for block in blocks:
            block.forward = _Chain(block, dtype)  # type: ignore[method-assign]
        yield
    finally:
        for block in blocks:
            vars(block).pop("forward", None)


class _Chain:
    """The layers of a block one after the other, three in one where they can be."""

    def __init__(self, block: nn.Sequential, dtype: torch.dtype) -> None:
        self.layers, self.dtype = tuple(block), dtype

    def __call__(self, feature: Tensor) -> Tensor:
        """What the block answers."""
        for function in self.joined:
            feature = function(feature)
        return feature

    @cached_property
    def joined(self) -> list[Callable[[Tensor], Tensor]]:
        """Made when it is needed: a method may hold a network that does not answer."""
        found: list[Callable[[Tensor], Tensor]] = []
        rest = self.layers
        while rest:
            three = rest[: len(LAYERS)]
            if len(three) == len(LAYERS) and all(map(isinstance, three, LAYERS)):
                found.append(ConvReLU(cast(Conv2d, three[0]), cast(nn.BatchNorm2d, three[1]), self.dtype))
                rest = rest[len(LAYERS) :]
            else:
                found.append(rest[0])
                rest = rest[1:]
        return found
