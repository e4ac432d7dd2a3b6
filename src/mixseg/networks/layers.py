"""The layers that the networks are made of, in 2D and 3D alike, and how their weights begin."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mixseg.networks.base import Norm, Spec
from mixseg.networks.instance_norm import InstanceNorm

ALIGNED = 8
"""Channels that tensor cores take at once."""


class Conv2d(nn.Conv2d):
    """Torch's own, but for ``idle``: its bias is then left out, and has to be 0 (``fold_idle_biases``)."""

    idle = False

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:  # noqa: A002
        if not input.is_cpu:
            input, weight = widened(input), widened(weight)  # noqa: A001
        found: Tensor = super()._conv_forward(input, weight, None if self.idle else bias)
        return found


class Conv3d(nn.Conv3d):
    """The same for volumes."""

    idle = False

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:  # noqa: A002
        found: Tensor = super()._conv_forward(input, weight, None if self.idle else bias)
        return found


def widened(tensor: Tensor) -> Tensor:
    """An image or a weight of one channel with channels of zeros after it, which change no result; others as they are.

    A single channel has no order of memory: torch takes it for channels first, and so computes the finest map of the
    network in that order, between others that are channels last, and turns it round in either direction.
    """
    return F.pad(tensor, (0, 0, 0, 0, 0, ALIGNED - 1)) if tensor.shape[1] == 1 else tensor


class ReLU(nn.Module):
    """``max(x, 0)``; of what is nan, nan.

    Torch takes the gradient from the sign of the output. A compiler would have to read that map again, beside the input
    of the normalisation before it, which it reads anyway and which has the same sign in it: so there the sign is the
    input's.
    """

    def forward(self, feature: Tensor) -> Tensor:
        """In place where nothing is compiled."""
        if torch.compiler.is_compiling():
            return torch.where(feature <= 0, 0.0, feature)
        return F.relu_(feature)


CONV: dict[int, type[nn.Conv2d | nn.Conv3d]] = {2: Conv2d, 3: Conv3d}
TRANSPOSED: dict[int, type[nn.ConvTranspose2d | nn.ConvTranspose3d]] = {2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}
BATCH_NORM: dict[int, type[nn.BatchNorm2d | nn.BatchNorm3d]] = {2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
MAX_POOL: dict[int, type[nn.MaxPool2d | nn.MaxPool3d]] = {2: nn.MaxPool2d, 3: nn.MaxPool3d}
CHANNEL_DROPOUT: dict[int, type[nn.Dropout2d | nn.Dropout3d]] = {2: nn.Dropout2d, 3: nn.Dropout3d}

GROUPS = 8
"""Groups of a group normalisation; fewer where the channels do not divide by it."""

# Every convolution keeps its bias, though a normalisation follows it: the paper's parameter counts include them.
CONVOLUTIONS = (nn.Conv2d, nn.Conv3d, nn.ConvTranspose2d, nn.ConvTranspose3d)
NORMALISATIONS = (nn.BatchNorm2d, nn.BatchNorm3d, InstanceNorm, nn.GroupNorm)


@dataclass(frozen=True)
class Layers:
    """The layers of one network: of one dimension, with one kind of normalisation."""

    dims: int
    norm: Norm

    def normalisation(self, channels: int) -> nn.Module:
        """A normalisation with a scale and a shift per channel, or the identity."""
        if self.norm == "batch":
            return BATCH_NORM[self.dims](channels)
        if self.norm == "instance":
            return InstanceNorm(channels)
        if self.norm == "group":
            return nn.GroupNorm(math.gcd(GROUPS, channels), channels)
        return nn.Identity()

    def conv(self, inputs: int, outputs: int, *, kernel: int = 3, padding: int = 1) -> list[nn.Module]:
        """Convolution, normalisation, ReLU."""
        return self._activated(CONV[self.dims](inputs, outputs, kernel, padding=padding), outputs)

    def down(self, inputs: int, outputs: int) -> list[nn.Module]:
        """A convolution that halves the resolution, normalisation, ReLU."""
        return self._activated(CONV[self.dims](inputs, outputs, 2, stride=2), outputs)

    def up(self, inputs: int, outputs: int) -> nn.Module:
        """A transposed convolution that doubles the resolution, by itself."""
        return TRANSPOSED[self.dims](inputs, outputs, 2, stride=2)

    def activated_up(self, inputs: int, outputs: int) -> list[nn.Module]:
        """A transposed convolution that doubles the resolution, normalisation, ReLU."""
        return self._activated(self.up(inputs, outputs), outputs)

    def pool(self) -> nn.Module:
        """A maximum over blocks of two voxels a side."""
        return MAX_POOL[self.dims](2)

    def channel_dropout(self, rate: float) -> nn.Module:
        """A dropout of whole channels."""
        return CHANNEL_DROPOUT[self.dims](rate)

    def head(self, inputs: int, classes: int) -> nn.Module:
        """Features -> logits, voxel by voxel."""
        return CONV[self.dims](inputs, classes, 1)

    def deep_heads(self, spec: Spec) -> nn.ModuleList:
        """A head for each coarser level that is to learn the masks too, from the finest of them on."""
        return nn.ModuleList(self.head(spec.channels[level], spec.classes) for level in range(1, spec.deep + 1))

    def _activated(self, convolution: nn.Module, outputs: int) -> list[nn.Module]:
        return [convolution, self.normalisation(outputs), ReLU()]


def initialise(network: nn.Module) -> None:
    """Draw the first weights as the authors do."""
    for module in network.modules():
        if isinstance(module, CONVOLUTIONS):
            nn.init.xavier_normal_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, NORMALISATIONS):
            nn.init.normal_(module.weight, 1.0, 0.02)
            nn.init.zeros_(module.bias)
