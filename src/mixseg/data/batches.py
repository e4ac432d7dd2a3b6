"""An endless, seeded stream of batches, drawn, held and augmented on the training device.

What a step sees is a function of the seed and of the step's number alone. So a run that was killed goes on with
exactly the batches that it would have seen, and a batch that broke a loss can be named afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mixseg.core.errors import MixsegError
from mixseg.core.types import IGNORE, KINDS, Batch, Kind, Labels, Part
from mixseg.data.augment import NONE, Augmentation, apply, draw
from mixseg.data.intensity import normalise
from mixseg.data.padding import widen_image, widen_labels
from mixseg.data.scan import Scan

STEPS_AHEAD = 64
LABELLED_PATCHES = 0.5
"""How often a patch of a partly labelled volume is drawn round a labelled voxel; the others fall anywhere."""


class Rows(NamedTuple):
    """What a stream draws for one step, before normalisation and augmentation."""

    image: Tensor
    full: Tensor
    partial: Tensor
    mean: Tensor
    std: Tensor


@lru_cache(maxsize=8)
def _permutation(seed: int, kind: int, epoch: int, count: int) -> NDArray[np.int64]:
    return np.random.default_rng([seed, kind, epoch]).permutation(count)


class Stream:
    """The order in which the rows of one kind are drawn: shuffled passes, the rest of each dropped."""

    def __init__(self, kind: Kind, count: int, size: int, seed: int) -> None:
        self.kind, self.count, self.size, self.seed = KINDS.index(kind), count, size, seed

    def order(self, step: int) -> NDArray[np.int64]:
        """Which items step ``step`` draws."""
        if self.count < self.size:  # fewer than a batch: several passes make one
            passes = [_permutation(self.seed, self.kind, step * self.size + i, self.count) for i in range(self.size)]
            return np.concatenate(passes)[: self.size]
        epoch, position = divmod(step, self.count // self.size)
        order = _permutation(self.seed, self.kind, epoch, self.count)
        return order[position * self.size : (position + 1) * self.size]


class SliceStream(Stream):
    """Slices of one kind of scan, all in one array on the device.

    The order is sent there for many steps at once: a step then asks nothing of the host.
    """

    def __init__(self, kind: Kind, scans: Sequence[Scan], size: int, *, seed: int, device: torch.device) -> None:
        super().__init__(kind, sum(len(scan.image) for scan in scans), size, seed)
        self.slices = [f"{scan.name} slice {i}" for scan in scans for i in range(len(scan.image))]
        self.image = torch.from_numpy(np.concatenate([scan.image for scan in scans])).to(device)
        self.full, self.partial = (
            torch.from_numpy(np.concatenate([_labels(scan, which, (0, 2, 3)) for scan in scans])).to(device)
            for which in ("full", "partial")
        )
        self.first, self.ahead = -1, torch.empty(0)
        lengths = torch.tensor([len(scan.image) for scan in scans])
        self.mean, self.std = (
            torch.tensor([getattr(scan, which) for scan in scans]).repeat_interleave(lengths, dim=0).to(device)
            for which in ("mean", "std")
        )

    def rows(self, step: int, share: slice) -> Rows:
        """The rows of ``step``, or this process's share of them."""
        first = step - step % STEPS_AHEAD
        if first != self.first:
            orders = np.stack([self.order(first + i) for i in range(STEPS_AHEAD)])
            self.first, self.ahead = first, sent(torch.from_numpy(orders), self.image.device)
        at = self.ahead[step - first][share]
        held = (self.image, self.full, self.partial, self.mean, self.std)
        return Rows(*(tensor.index_select(0, at) for tensor in held))

    def names(self, step: int) -> list[str]:
        """The slices of ``step``."""
        return [self.slices[i] for i in self.order(step)]


class PatchStream(Stream):
    """Random patches of one kind of volume, each volume on the device."""

    def __init__(
        self, kind: Kind, scans: Sequence[Scan], size: int, *, patch: tuple[int, ...], seed: int, device: torch.device
    ) -> None:
        super().__init__(kind, len(scans), size, seed)
        self.patch, self.scans = patch, scans
        self.volumes = [self._on(device, scan) for scan in scans]
        self.mean = torch.tensor([scan.mean for scan in scans], device=device)
        self.std = torch.tensor([scan.std for scan in scans], device=device)
        self.shapes = [tuple(full.shape) for _, full, _ in self.volumes]
        # Coordinates in the widened volume; a few thousand are as good as all of them.
        self.labelled = [_some(partial.cpu().numpy() != IGNORE, seed) for _, _, partial in self.volumes]
        self.guided = kind == "partial"

    def _on(self, device: torch.device, scan: Scan) -> tuple[Tensor, Tensor, Tensor]:
        """Image and labels, widened where the volume is smaller than a patch."""
        arrays = (scan.image, _labels(scan, "full", (1, 2, 3)), _labels(scan, "partial", (1, 2, 3)))
        image, full, partial = (torch.from_numpy(np.ascontiguousarray(array)).to(device) for array in arrays)
        return widen_image(image, self.patch), widen_labels(full, self.patch), widen_labels(partial, self.patch)

    def corners(self, step: int) -> list[tuple[int, tuple[int, ...]]]:
        """The volume and the corner of each patch of ``step``."""
        rng = np.random.default_rng([self.seed, self.kind, step, 1])
        corners = []
        for index in self.order(step):
            room = np.array(self.shapes[index]) - np.array(self.patch)
            corner = rng.integers(0, room + 1)
            if self.guided and len(self.labelled[index]) and rng.random() < LABELLED_PATCHES:
                inside = rng.integers(0, np.array(self.patch))
                corner = np.clip(self.labelled[index][rng.integers(len(self.labelled[index]))] - inside, 0, room)
            corners.append((int(index), tuple(int(c) for c in corner)))
        return corners

    def rows(self, step: int, share: slice) -> Rows:
        """The patches of ``step``, or this process's share of them."""
        chosen = self.corners(step)[share]
        at = [index for index, _ in chosen]
        boxes = [self._box(corner) for _, corner in chosen]
        image = torch.stack([self.volumes[i][0][:, *box] for i, box in zip(at, boxes, strict=True)])
        full, partial = (
            torch.stack([self.volumes[i][which][box] for i, box in zip(at, boxes, strict=True)]) for which in (1, 2)
        )
        # Not values[at]: a list of indices would be sent to the device, and waited for.
        mean, std = (torch.stack([values[i] for i in at]) for values in (self.mean, self.std))
        return Rows(image, full, partial, mean, std)

    def labelled_share(self, steps: Iterable[int]) -> float:
        """The share of the patches of ``steps`` that hold a partial label: what the weak term learns anything from.

        Found from where they are cut, so that it is the same for a run that was killed and went on.
        """
        drawn = [patch for step in steps for patch in self.corners(step)]
        holds = [(self.volumes[index][2][self._box(corner)] != IGNORE).any() for index, corner in drawn]
        return float(torch.stack(holds).float().mean()) if holds else math.nan

    def _box(self, corner: tuple[int, ...]) -> tuple[slice, ...]:
        return tuple(slice(c, c + p) for c, p in zip(corner, self.patch, strict=True))

    def names(self, step: int) -> list[str]:
        """The patches of ``step``."""
        return [f"{self.scans[i].name} at {corner}" for i, corner in self.corners(step)]


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """``tensor`` on ``device``; the host does not wait for it to arrive there."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def _labels(scan: Scan, which: Literal["full", "partial"], axes: tuple[int, ...]) -> Labels:
    """The labels, or IGNORE everywhere; ``axes`` are those of the image that labels have."""
    labels = scan.full if which == "full" else scan.partial
    return np.full([scan.image.shape[axis] for axis in axes], IGNORE, np.uint8) if labels is None else labels


def _some(mask: NDArray[np.bool_], seed: int, most: int = 4096) -> NDArray[np.int64]:
    places = np.argwhere(mask)
    if len(places) <= most:
        return places
    return places[np.random.default_rng(seed).choice(len(places), most, replace=False)]


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
        raise MixsegError(
            f"{rows} {kind} images a step cannot be shared by {world} processes: change batch.",
            "batch-not-divisible",
            kind=kind,
            rows=rows,
            processes=world,
        )


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
