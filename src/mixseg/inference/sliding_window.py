"""How a network is asked: slices some at a time, volumes window by window.

Where the windows of a volume lie, how much each voxel of one counts, and how much memory they need.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from mixseg.data.intensity import normalise
from mixseg.data.padding import inside, widen_image
from mixseg.methods import Method
from mixseg.runs.config import Config

WINDOWS_AT_ONCE = 4
SLICES_AT_ONCE = 32
FLOAT = 4
"""Bytes of one."""

Box = tuple[slice, ...]
OnProgress = Callable[[int, int], None]
"""Is given how many windows or slices of a scan are done, and how many there are."""


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
        data, how = config.data, config.inference
        return Windows(data.patch, how.stride, how.window) if data.dims == 3 else None

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


class Grey(NamedTuple):
    """Grey values on the device, and what a network's z-scores of them are made with.

    Attributes:
        image: ``(N, C, H, W)`` slices or one volume ``(C, *S)``, 0 to 255.
        mean: Of the grey values of each channel, ``(N, C)`` or ``(C,)``.
        std: Likewise.
    """

    image: Tensor
    mean: Tensor
    std: Tensor


@dataclass(frozen=True)
class Forward:
    """A method as a prediction calls it: grey values in, probabilities out.

    Attributes:
        method: In evaluation mode.
        intensity: What its network is fed.
        outputs: Those that are wanted; all of the method's if none are named.
    """

    method: Method
    intensity: Literal["unit", "zscore"]
    outputs: Collection[str] = ()

    def __call__(self, grey: Grey) -> dict[str, Tensor]:
        """Probabilities ``(n, classes, *S)`` of each output for ``(n, C, *S)``."""
        fed = normalise(*grey, self.intensity)
        return self.method.predict(fed.to(next(self.method.parameters()).dtype), self.outputs)


def predict_slices(
    forward: Forward, slices: Grey, *, on_progress: OnProgress | None = None
) -> Iterator[tuple[slice, dict[str, Tensor]]]:
    """Probabilities ``(n, classes, H, W)`` of each output, for some of the slices at a time."""
    count = len(slices.image)
    for start in range(0, count, SLICES_AT_ONCE):
        some = slice(start, min(start + SLICES_AT_ONCE, count))
        yield some, forward(Grey(*(each[some] for each in slices)))
        if on_progress is not None:
            on_progress(some.stop, count)


def predict_slabs(
    forward: Forward, volume: Grey, windows: Windows, *, on_progress: OnProgress | None = None
) -> Iterator[tuple[Box, dict[str, Tensor]]]:
    """Probabilities ``(classes, *S)`` of each output, averaged over windows, and where in the volume they lie.

    They come in order along one axis and are overwritten when the next ones are asked for.

    Args:
        forward: The method.
        volume: Larger or smaller than a window.
        windows: How they cover the volume.
        on_progress: Is given how far it is.
    """
    own = volume.image.shape[1:]
    wide = widen_image(volume.image, windows.patch)
    # Along an axis that was widened there is one slab, and along any other a slice of the volume holds all of a slab.
    size, within = wide.shape[1:], inside(own, windows.patch)
    axis, starts = windows.slab_axis(size), windows.starts(size)
    sums = Sums(windows, size, axis)
    done, count = 0, math.prod(map(len, starts))
    for start, end in itertools.pairwise([*starts[axis], size[axis]]):
        here = [[start] if of == axis else places for of, places in enumerate(starts)]
        for corners in windows.batches(here):
            some = torch.stack([wide[:, *_box(corner, windows.patch)] for corner in corners])
            rows = (len(corners), -1)
            sums.add(forward(Grey(some, volume.mean.expand(rows), volume.std.expand(rows))), corners)
            done += len(corners)
            if on_progress is not None:
                on_progress(done, count)
        at = tuple(slice(start, min(end, side)) if of == axis else slice(0, side) for of, side in enumerate(own))
        yield at, {name: probs[:, *within] for name, probs in sums.means(end - start).items()}
        sums.move_on(end - start)


class Sums:
    """Weighted sums of what windows say, for a slab as thick as a window."""

    def __init__(self, windows: Windows, size: Sequence[int], axis: int) -> None:
        self.windows, self.axis = windows, axis
        self.slab = tuple(windows.patch[axis] if of == axis else side for of, side in enumerate(size))
        self.by_output: dict[str, Tensor] = {}

    def add(self, found: dict[str, Tensor], corners: Sequence[tuple[int, ...]]) -> None:
        """What the windows at ``corners``, which all begin where the slab does, say: ``(n, classes, *patch)`` each."""
        if not self.by_output:
            some = next(iter(found.values()))
            self.weight = self.windows.weight(some)
            self.total = torch.zeros((1, *self.slab), dtype=some.dtype, device=some.device)
            self.by_output = {
                name: torch.zeros((probs.shape[1], *self.slab), dtype=probs.dtype, device=probs.device)
                for name, probs in found.items()
            }
        for number, corner in enumerate(corners):
            box = _box([0 if of == self.axis else c for of, c in enumerate(corner)], self.windows.patch)
            self.total[:, *box] += self.weight
            for name, probs in found.items():
                self.by_output[name][:, *box].addcmul_(probs[number], self.weight)

    def means(self, thickness: int) -> dict[str, Tensor]:
        """The first ``thickness`` voxels of the slab, which no further window touches, as means, in place."""
        total = self.total.narrow(self.axis + 1, 0, thickness)
        return {name: sums.narrow(self.axis + 1, 0, thickness).div_(total) for name, sums in self.by_output.items()}

    def move_on(self, thickness: int) -> None:
        """Leave the first ``thickness`` voxels behind."""
        keep = self.slab[self.axis] - thickness
        for sums in (self.total, *self.by_output.values()):
            for one in sums:  # one class at a time, so that the copy is small
                one.narrow(self.axis, 0, keep).copy_(one.narrow(self.axis, thickness, keep).clone())
                one.narrow(self.axis, keep, thickness).zero_()


def _box(corner: Sequence[int], patch: Sequence[int]) -> Box:
    return tuple(slice(c, c + p) for c, p in zip(corner, patch, strict=True))
