"""An endless, seeded stream of batches, held and augmented on the training device.

What a step sees is a function of the seed and of the step's number alone. So a run that was killed goes on with
exactly the batches that it would have seen, and a batch that broke a loss can be named afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from mixseg.core.errors import MixsegError
from mixseg.core.types import KINDS, Batch, Kind, Part
from mixseg.data.augment import NONE, Augmentation, apply, draw
from mixseg.data.intensity import normalise
from mixseg.data.samplers import PatchStream, Rows, SliceStream, sent
from mixseg.data.scan import Scan


class Feed:
    """``feed(step)`` is the batch of that step, normalised and augmented."""

    def __init__(
        self,
        scans: Mapping[Kind, Sequence[Scan]],
        sizes: Mapping[Kind, int],
        *,
        grid: tuple[int, ...],
        seed: int,
        intensity: Literal["unit", "zscore"] = "unit",
        augmentation: Augmentation,
        device: torch.device,
        rank: int = 0,
        world: int = 1,
        compiled: bool = False,
    ) -> None:
        self.grid, self.seed, self.intensity, self.augmentation = grid, seed, intensity, augmentation
        self.device, self.rank, self.share = device, rank, slice(rank, None, world)
        self.generator = torch.Generator(device)
        # Of volumes it takes a minute to compile, for a few milliseconds of a host that waits for the GPU anyway.
        self.compiled = compiled and len(grid) == 2
        self.spacing = common_spacing([scan for of_kind in scans.values() for scan in of_kind], axes=len(grid))
        self.streams: dict[Kind, SliceStream | PatchStream] = {}
        home = home_of([scan for of_kind in scans.values() for scan in of_kind], device)
        for kind in KINDS:
            if not sizes.get(kind) or not scans.get(kind):
                continue
            check_share(kind, sizes[kind], world)
            if len(grid) == 2:
                self.streams[kind] = SliceStream(kind, scans[kind], sizes[kind], seed=seed, device=home)
            else:
                self.streams[kind] = PatchStream(kind, scans[kind], sizes[kind], patch=grid, seed=seed, device=home)
        self.channels = next(scan.channels for of_kind in scans.values() for scan in of_kind)

    def __call__(self, step: int) -> Batch:
        """What step ``step`` trains on."""
        return Batch(*(self._part(kind, step) for kind in KINDS))

    def names(self, step: int) -> list[str]:
        """The slices or patches of a step, for messages."""
        return [name for stream in self.streams.values() for name in stream.names(step)]

    def labelled_share(self, steps: Iterable[int]) -> float | None:
        """Of the patches of partly labelled volumes in ``steps``, how many hold a label; None where there are none."""
        stream = self.streams.get("partial")
        return stream.labelled_share(steps) if isinstance(stream, PatchStream) else None

    @cached_property
    def _apply(self) -> Callable[..., tuple[Tensor, tuple[Tensor, ...]]]:
        """As late as can be: the compiler takes a second to import."""
        return torch.compile(apply, dynamic=False) if self.compiled else apply

    def _part(self, kind: Kind, step: int) -> Part:
        if kind not in self.streams:
            none = torch.empty((0, *self.grid), dtype=torch.uint8, device=self.device)
            return Part(torch.empty((0, self.channels, *self.grid), device=self.device), none, none)
        rows = Rows(*(sent(tensor, self.device) for tensor in self.streams[kind].rows(step, self.share)))
        image = normalise(rows.image, rows.mean, rows.std, self.intensity)
        if self.augmentation == NONE:
            return Part(image, rows.full, rows.partial)
        self.generator.manual_seed(_mixed(self.seed, KINDS.index(kind), step, self.rank))
        draws = draw(image, self.augmentation, self.generator)
        labels = (rows.full, rows.partial)
        image, (full, partial) = self._apply(image, labels, draws, self.augmentation, spacing=self.spacing)
        return Part(image, full, partial)


def check_share(kind: Kind, rows: int, world: int) -> None:
    """Nothing, or one sentence about rows of which not every process gets as many."""
    if rows % world:
        raise MixsegError(f"{rows} {kind} images a step cannot be shared by {world} processes: change batch.")


def common_spacing(scans: Sequence[Scan], *, axes: int) -> tuple[float, ...] | None:
    """Voxel sizes along the last ``axes`` relative to the smallest, the median over the scans that know theirs.

    In hundredths: what is compiled for one data set then serves a similar one.
    """
    known = [scan.spacing[-axes:] for scan in scans if scan.spacing is not None]
    if not known:
        return None
    middle = np.median(known, axis=0)
    return tuple(round(float(size), 2) for size in middle / middle.min())


def home_of(scans: Sequence[Scan], device: torch.device) -> torch.device:
    """Where the scans are held: on the device if image and labels fill at most half of what is free there."""
    if device.type != "cuda":
        return device
    free, _ = torch.cuda.mem_get_info(device)
    needed = sum(scan.image.nbytes * (1 + 2 / scan.channels) for scan in scans)
    return device if needed < free / 2 else torch.device("cpu")


def _mixed(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)
