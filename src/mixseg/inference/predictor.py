"""What a trained method answers for one scan: on the training grid, or on the grid of the scan's own file.

Probabilities come piece by piece, and what is wanted of them is taken before the next piece: so memory grows with the
label maps, one byte a voxel, and not with the number of classes times the volume.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, get_args

import numpy as np
import torch
from lightning_fabric import Fabric
from numpy.typing import NDArray
from scipy import ndimage
from torch import Tensor

from mixseg.core.errors import MixsegError, known
from mixseg.core.types import Branch, Bytes, Device, Labels
from mixseg.data.prepare.build import digest
from mixseg.data.prepare.grid import scan_on_grid
from mixseg.data.prepare.store import PreparedCase
from mixseg.data.resample import probabilities_to_source, to_source
from mixseg.data.scan import Native, Scan
from mixseg.inference.origin import NOWHERE, Origin
from mixseg.inference.sliding_window import Forward, Grey, OnProgress, Windows, predict_slabs, predict_slices
from mixseg.methods import Method
from mixseg.methods.outputs import short_name
from mixseg.runs.build import evaluating, load, speed_up
from mixseg.runs.checkpoint import weights_hash
from mixseg.runs.config import Config, to_dict
from mixseg.runs.device import Hardware, make_fabric, settle_precision
from mixseg.runs.folder import RunFolder
from mixseg.runs.model_file import ModelFile


class Slab(NamedTuple):
    """A part of a scan.

    Attributes:
        place: Where it lies on the grid of the labels: ``(slices, H, W)`` or ``(I, J, K)``.
        probs: ``(classes, *S)`` of each output; not to be used any more once the next piece is asked for.
    """

    at: tuple[slice, ...]
    probs: dict[str, Tensor]


class Maps(NamedTuple):
    """What is kept of a scan's probabilities.

    Attributes:
        labels: Class indices of each output on the grid of the labels, the answer first.
        entropy: Of the answer, 0 is sure and 255 is all classes alike; None if it was not asked for.
        foreground: Probability that the answer gives to anything but background, 255 is 1; likewise.
    """

    labels: dict[str, Labels]
    entropy: Bytes | None = None
    foreground: Bytes | None = None


def slabs(
    forward: Forward, scan: Scan, windows: Windows | None, *, on_progress: OnProgress | None = None
) -> Iterator[Slab]:
    """The probabilities of a scan, from its first slice to its last; without ``windows``, slice by slice."""
    device = next(forward.method.parameters()).device
    image = torch.from_numpy(scan.image).to(device)
    mean, std = (torch.tensor(value, device=device) for value in (scan.mean, scan.std))
    if windows is not None:
        for at, found in predict_slabs(forward, Grey(image, mean, std), windows, on_progress=on_progress):
            yield Slab(at, found)
        return
    rows = (len(image), -1)
    grey = Grey(image, mean.expand(rows), std.expand(rows))
    for some, found in predict_slices(forward, grey, on_progress=on_progress):
        yield Slab((some,), {name: probs.movedim(1, 0) for name, probs in found.items()})


def maps(found: Iterable[Slab], grid: tuple[int, ...], *, confidence: bool = False) -> Maps:
    """The label maps of the outputs, and on request how sure the answer is."""
    labels: dict[str, Labels] = {}
    entropy, foreground = (np.empty(grid, np.uint8) if confidence else None for _ in range(2))
    for at, by_output in found:
        for name, probs in by_output.items():
            labels.setdefault(name, np.empty(grid, np.uint8))[at] = argmax(probs, dim=0).cpu().numpy()
        answer = next(iter(by_output.values())).float()
        if entropy is not None:
            entropy[at] = _eight_bits(torch.special.entr(answer).sum(dim=0) / math.log(max(2, len(answer))))
        if foreground is not None:
            foreground[at] = _eight_bits(1 - answer[0])
    return Maps(labels, entropy, foreground)


def probabilities(found: Iterable[Slab], grid: tuple[int, ...]) -> dict[str, Tensor]:
    """The class probabilities ``(classes, *grid)`` of each output: a float for each class, output and voxel."""
    whole: dict[str, Tensor] = {}
    for at, by_output in found:
        for name, probs in by_output.items():
            if name not in whole:
                whole[name] = torch.empty((len(probs), *grid), dtype=probs.dtype)
            whole[name][:, *at] = probs.cpu()
    return whole


def _eight_bits(share: Tensor) -> Bytes:
    """Values from 0 to 1 as 0 to 255."""
    return (255 * share.clamp(0, 1)).round().to(torch.uint8).cpu().numpy()


def argmax(probs: Tensor, dim: int) -> Tensor:
    """The class with the highest probability along ``dim``, the first of equals, in bytes.

    What ``argmax`` finds. Class by class, since an axis of a few classes is what torch's reductions are slowest at: a
    twentieth of the time on a CPU.
    """
    best, *others = probs.unbind(dim)
    found = torch.zeros(best.shape, dtype=torch.uint8, device=best.device)
    for index, one in enumerate(others, start=1):
        found.masked_fill_(one > best, index)
        best = torch.maximum(best, one)
    return found


SINGLE_COMPONENT = 0.98
"""Share of a structure that its largest component has at least, in every mask, for it to count as one component."""


def keep_largest_component(labels: Labels, indices: Iterable[int]) -> Labels:
    """A copy of a label map ``(I, J, K)`` in which each of these classes keeps its largest connected component.

    What is dropped becomes background. Voxels that touch by a corner are connected.
    """
    kept = labels.copy()
    for index in indices:
        mask = labels == index
        kept[mask & ~_largest(mask)] = 0
    return kept


def single_component(masks: Iterable[Labels], classes: int) -> tuple[int, ...]:
    """The classes 1 to ``classes`` - 1 that are one component in every one of these label maps which shows them."""
    seen: set[int] = set()
    scattered: set[int] = set()
    for labels in masks:
        for index in range(1, classes):
            mask = labels == index
            if index in scattered or not mask.any():
                continue
            seen.add(index)
            if _largest(mask).sum() < SINGLE_COMPONENT * mask.sum():
                scattered.add(index)
    return tuple(sorted(seen - scattered))


def _largest(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    slabs, count = ndimage.label(mask, structure=np.ones([3] * mask.ndim))
    if count < 2:
        return mask
    return np.asarray(slabs == 1 + np.bincount(slabs.ravel())[1:].argmax())


MOST_PROBABILITIES = 2e9
"""Bytes on the grid of the source: bringing more of them back from another grid would take several times that."""


@dataclass(frozen=True)
class Predictor:
    """A method that answers.

    Attributes:
        method: On the device of ``fabric``.
        config: Of its run.
        fabric: Where it computes.
        classes: Names by class index, the background first.
        channels: Of the images.
        origin: Of its answer, where its weights were loaded from a run.
        output: The one that users get, if not the method's own answer.
    """

    method: Method
    config: Config
    fabric: Fabric
    classes: Sequence[str]
    channels: int
    origin: Origin = NOWHERE
    output: str = ""

    @staticmethod
    def of(
        run: RunFolder | ModelFile,
        *,
        device: Device = "auto",
        checkpoint: str | None = None,
        branch: Branch | None = None,
        config: Config | None = None,
    ) -> Predictor:
        """That of a run.

        Args:
            run: A run with weights, or the model of one.
            device: Where to compute.
            checkpoint: Which weights; None is the best ones if there are any, else the last ones.
            branch: Which of two answers; None is the method's own.
            config: Its config with other windows, if not as it is.
        """
        if branch:
            known("branch", branch, get_args(Branch))
        if checkpoint:
            known("checkpoint", checkpoint, ("best", "last"))
        facts = run.facts
        precision = settle_precision(run.config.runtime.precision, device, dims=run.config.data.dims)
        fabric = make_fabric(Hardware(device), precision)
        classes, channels = tuple(facts["classes"]), int(facts["channels"])
        method, chosen, step = load(run, channels=channels, classes=len(classes), checkpoint=checkpoint)
        named = {short_name(output, method.outputs): output for output in method.outputs}
        if branch and len(named) == 1:
            raise MixsegError(
                f"{run.path} was trained by {run.config.method.name}, which has one answer: name no branch.",
                "no-branches",
                folder=run.path,
            )
        config, output = config or run.config, named[branch] if branch else method.outputs[0]
        origin = Origin(weights_hash(method), digest(to_dict(config)), chosen, step, output)
        speed_up(method, run.config.changed(compile=False), fabric)
        return Predictor(method.to(fabric.device), config, fabric, classes, channels, origin, output)

    @property
    def answer(self) -> str:
        """The output that users get."""
        return self.output or self.method.outputs[0]

    def prepare(self, native: Native) -> Scan:
        """An image on the training grid, as the store has those that were trained on, with the way back to its own.

        Raises:
            MixsegError: If it has other channels than those.
        """
        if native.header.channels != self.channels:
            raise MixsegError(
                f"{native.header.source} has {native.header.channels} channels, and the run was trained on "
                f"{self.channels}: give the images that it was trained on, CASE_0000, CASE_0001, ... for several "
                "channels.",
                "channels-differ",
                file=native.header.source,
                channels=native.header.channels,
                expected=self.channels,
            )
        options = replace(self.config.data.prepare_options, target=None)
        return scan_on_grid(native, options)

    def maps(
        self,
        scan: Scan,
        *,
        outputs: Collection[str] = (),
        confidence: bool = False,
        on_progress: OnProgress | None = None,
    ) -> Maps:
        """The label maps of a scan on the training grid, and on request how sure the answer is.

        Args:
            scan: On the training grid.
            outputs: Those that are wanted; all of the method's if none are named.
            confidence: Whether entropy and foreground are wanted too.
            on_progress: Is given how far it is.
        """
        with evaluating(self.method, self.fabric):
            found = maps(self._slabs(scan, outputs, on_progress), self._grid(scan), confidence=confidence)
        largest = self.config.inference.largest or ()
        labels = {name: keep_largest_component(guess, largest) for name, guess in found.labels.items()}
        return found._replace(labels=labels)

    def probabilities(
        self, scan: Scan, *, outputs: Collection[str] = (), on_progress: OnProgress | None = None
    ) -> dict[str, torch.Tensor]:
        """The class probabilities ``(classes, *grid)`` of each output; arguments as for ``maps``.

        On the CPU, and all of them: a float for each class and voxel of every output. Where label maps will do, take
        those.
        """
        with evaluating(self.method, self.fabric):
            return probabilities(self._slabs(scan, outputs, on_progress), self._grid(scan))

    def on_source(
        self, scan: Scan, *, outputs: Collection[str] = (), on_progress: OnProgress | None = None
    ) -> dict[str, Labels]:
        """The label map of each output on the ``(I, J, K)`` grid of the source image; arguments as for ``maps``."""
        outputs, case = outputs or self.method.outputs, scan.placed
        if not self.comes_back_by_probabilities(case, outputs):
            found = self.maps(scan, outputs=outputs, on_progress=on_progress)
            return {name: to_source(labels, case) for name, labels in found.labels.items()}
        probs = self.probabilities_on_source(scan, outputs=outputs, on_progress=on_progress)
        return {name: self.decided(of) for name, of in probs.items()}

    def probabilities_on_source(
        self, scan: Scan, *, outputs: Collection[str] = (), on_progress: OnProgress | None = None
    ) -> dict[str, NDArray[np.float32]]:
        """The class probabilities ``(classes, I, J, K)`` on the grid of the source image; arguments as for ``maps``."""
        probs = self.probabilities(scan, outputs=outputs, on_progress=on_progress)
        case = scan.placed
        return {name: probabilities_to_source(of.float().numpy(), case) for name, of in probs.items()}

    def comes_back_by_probabilities(self, case: PreparedCase, outputs: Collection[str]) -> bool:
        """Whether a scan was resampled: its probabilities have smoother borders on its own grid than its labels have.

        Not if those of so many outputs would fill the memory.
        """
        slices, *plane = case.shape
        grid = case.shape if case.dims == 3 else (*(case.field or plane), slices)
        size = 4 * len(self.classes) * len(outputs) * math.prod(case.header.shape)
        return grid != case.header.shape and size <= MOST_PROBABILITIES

    def decided(self, probs: NDArray[np.float32]) -> Labels:
        """The label map of the probabilities ``(classes, *S)`` of a whole scan, as ``maps`` makes it."""
        return keep_largest_component(
            argmax(torch.from_numpy(probs), dim=0).numpy(), self.config.inference.largest or ()
        )

    def memory_plan(self, scan: Scan, *, outputs: int, probabilities: bool = False) -> str:
        """What predicting a volume takes, in a sentence; nothing for slices, which take little."""
        windows = Windows.of(self.config)
        if windows is None:
            return ""
        sizes = {"channels": scan.channels, "classes": len(self.classes), "outputs": outputs}
        return windows.plan(self._grid(scan), **sizes, probabilities=probabilities)

    def _grid(self, scan: Scan) -> tuple[int, ...]:
        """The size of a scan's label maps."""
        axes = (0, 2, 3) if self.config.data.dims == 2 else (1, 2, 3)
        return tuple(scan.image.shape[axis] for axis in axes)

    def _slabs(self, scan: Scan, outputs: Collection[str], on_progress: OnProgress | None) -> Iterator[Slab]:
        return slabs(
            Forward(self.method, self.config.data.intensity, outputs),
            scan,
            Windows.of(self.config),
            on_progress=on_progress,
        )
