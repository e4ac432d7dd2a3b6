"""Where the windows of a volume lie, how much each voxel of one counts, and how much memory they need."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from mixseg.config import Config

WINDOWS_AT_ONCE = 4
FLOAT = 4
"""Bytes of one."""


@dataclass(frozen=True)
class Windows:
    """How a volume is covered.

    Attributes:
        patch: Size of a window.
        stride: Voxels from one window to the next, at most a patch; None is half a patch.
        weights: "gaussian" lets the middle of a window count more than its rim; "uniform" all of it alike.
    """

    patch: tuple[int, ...]
    stride: tuple[int, ...] | None = None
    weights: Literal["gaussian", "uniform"] = "gaussian"

    @staticmethod
    def of(config: Config) -> Windows | None:
        """Those of a run's predictions; None where it predicts slices."""
        return Windows(config.patch, config.stride, config.window) if config.dims == 3 else None

    def starts(self, size: Sequence[int]) -> list[list[int]]:
        """Where windows begin along each axis; they leave no gap, and the last one ends with the volume."""
        steps = self.stride or tuple(max(1, side // 2) for side in self.patch)
        return [
            sorted({*range(0, have - side, min(step, side)), have - side})
            for have, side, step in zip(size, self.patch, steps, strict=True)
        ]

    def slab_axis(self, size: Sequence[int]) -> int:
        """The axis along which a slab as thick as a window is the smallest share of the volume."""
        return max(range(len(size)), key=lambda axis: size[axis] / self.patch[axis])

    def batches(self, starts: Sequence[Sequence[int]]) -> Iterator[list[tuple[int, ...]]]:
        """The corners of the windows that begin at ``starts``, some at a time."""
        corners = itertools.product(*starts)
        while some := list(itertools.islice(corners, WINDOWS_AT_ONCE)):
            yield some

    def weight(self, like: Tensor) -> Tensor:
        """How much each voxel of a window counts, ``(*patch)``."""
        weight = torch.ones(self.patch, dtype=like.dtype, device=like.device)
        if self.weights == "uniform":
            return weight
        for axis, side in enumerate(self.patch):
            distance = torch.arange(side, dtype=like.dtype, device=like.device) - (side - 1) / 2
            shape = [-1 if other == axis else 1 for other in range(len(self.patch))]
            weight = weight * torch.exp(-(distance**2) / (2 * (side / 8) ** 2)).view(shape)
        # A voxel that one window alone sees, at its rim, must not be lost in rounding.
        return weight.clamp(min=1e-3)

    def plan(
        self, size: Sequence[int], *, channels: int, classes: int, outputs: int, probabilities: bool = False
    ) -> str:
        """What predicting a volume takes, in a sentence: said before it starts.

        Args:
            size: Of the volume.
            channels: Of its image.
            classes: Of the labels, the background included.
            outputs: How many of the method's are wanted.
            probabilities: Whether those of the whole volume are kept.
        """
        wide = [max(pair) for pair in zip(size, self.patch, strict=True)]
        axis = self.slab_axis(wide)
        voxels = math.prod(wide)
        slab = voxels // wide[axis] * self.patch[axis]
        sums = FLOAT * slab * (outputs * classes + 2)  # the weights' sum, and one map that is being moved
        kept = outputs * voxels * (FLOAT * classes if probabilities else 1)
        count = math.prod(map(len, self.starts(wide)))
        total = channels * voxels + sums + kept
        memory = f"{total / 1e9:.1f} GB" if total >= 1e8 else f"{total / 1e6:.1f} MB"
        return f"{_by(size)} voxels: {count} windows of {_by(self.patch)}, {memory} beside the network's own."


def _by(size: Sequence[int]) -> str:
    return " x ".join(map(str, size))
