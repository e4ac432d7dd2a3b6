"""The convolutions of all networks: torch's own, but for what suits a GPU."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

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
