"""What is shown of a scan: planes through its structure, and of a volume many of its slices side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mixseg.core.types import IGNORE, Bytes
from mixseg.data.scan import Scan
from mixseg.inference.maps import Maps

Rank = Literal["worst", "best", "common"]

LONGEST_SIDE = 256
"""Larger planes are thinned out: the examples of a run stay below 2 MB."""
TILES, COLUMNS = 10, 5
MARGIN = 0.15
"""Of what is marked, kept round it."""
TILE_SIDE = 96
"""Pixels of a tile: larger ones are thinned out."""


class Choice(NamedTuple):
    """A scan to show."""

    part: str
    case: str
    rank: Rank
    dsc: float


@dataclass(frozen=True)
class Plane:
    """A cut through a scan.

    Attributes:
        axis: The array axis that it is perpendicular to.
        index: Where on that axis.
        step: Every how many-th voxel of the plane is kept.
        upright: Whether its second axis (feet to head in most volumes) points upwards in the picture.
        why: What is to be seen there.
        pixel: Width and height of a pixel in mm, or in any unit where the voxel size is unknown.
    """

    axis: int
    index: int
    step: int
    upright: bool
    why: str
    pixel: tuple[float, float] = (1.0, 1.0)

    def of(self, volume: Bytes) -> Bytes:
        """The plane of ``(S1, S2, S3)`` as a picture: its first axis to the right, its second downwards or upwards."""
        picture = np.moveaxis(volume, self.axis, 0)[self.index, :: self.step, :: self.step].T
        return np.ascontiguousarray(picture[::-1] if self.upright else picture)


@dataclass(frozen=True)
class Montage:
    """Pictures of equal size, each made of tiles.

    Attributes:
        indices: The slices along the last axis, row by row.
        columns: Tiles in a row.
        pixel: Width and height of a pixel in mm.
        image: Grey values 0 to 255, of the first channel.
        truth: Class indices or IGNORE.
        answer: Class indices that the method answers.
    """

    indices: tuple[int, ...]
    columns: int
    pixel: tuple[float, float]
    image: Bytes = field(repr=False)
    truth: Bytes = field(repr=False)
    answer: Bytes = field(repr=False)

    @property
    def tile(self) -> tuple[int, int]:
        """Height and width of a tile in pixels."""
        rows = math.ceil(len(self.indices) / self.columns)
        return self.image.shape[0] // rows, self.image.shape[1] // self.columns


@dataclass(frozen=True)
class Example:
    """One plane of one scan, as pictures of equal size.

    Attributes:
        case: Id of the scan.
        part: "val" or "test".
        rank: Whether it is one of the worst, of the best, or of those that all runs on the same scans have in common.
        dsc: Of the method's answer, the mean over classes.
        plane: Which one.
        image: Grey values 0 to 255, of the first channel.
        truth: Class indices or IGNORE.
        labels: Class indices of each output, the answer first.
        entropy: Of the answer: 0 is sure, 255 is all classes alike.
        foreground: Probability that the answer gives to anything but background, 255 is 1; of common scans alone.
        montage: Of a volume, many of its slices; with the first of its planes alone.
    """

    case: str
    part: str
    rank: Rank
    dsc: float
    plane: Plane
    image: Bytes = field(repr=False)
    truth: Bytes = field(repr=False)
    labels: Mapping[str, Bytes] = field(repr=False)
    entropy: Bytes = field(repr=False)
    foreground: Bytes | None = field(default=None, repr=False)
    montage: Montage | None = None


def planes(
    truth: Bytes, answer: Bytes, *, dims: int, rank: Rank, spacing: tuple[float, ...] | None = None
) -> list[Plane]:
    """Where to look at a scan: the slice with most of the structure and, of a bad scan, the one with most errors.

    A volume is cut in three planes through the structure's centre.
    """
    inside = (truth > 0) & (truth != IGNORE)
    if not inside.any():
        inside = answer > 0
    step = max(1, math.ceil(max(truth.shape[3 - dims :]) / LONGEST_SIDE))
    sides = spacing or (1.0, 1.0, 1.0)

    def plane(axis: int, index: int, why: str) -> Plane:
        width, height = (side for of, side in enumerate(sides) if of != axis)
        return Plane(axis, index, step, dims == 3 and axis != 2, why, (width, height))

    if dims == 3:
        places = np.argwhere(inside)
        centre = np.median(places, axis=0) if len(places) else (np.array(truth.shape) - 1) / 2
        return [plane(axis, int(centre[axis]), "through the centre") for axis in (2, 1, 0)]
    found = [plane(0, int(inside.sum(axis=(1, 2)).argmax()), "largest structure")]
    wrong = ((truth != answer) & (truth != IGNORE)).sum(axis=(1, 2))
    if rank == "worst" and wrong.max() > wrong[found[0].index]:
        found.append(plane(0, int(wrong.argmax()), "most errors"))
    return found


def cut(scan: Scan, found: Maps, choice: Choice, *, dims: int) -> list[Example]:
    """The planes to show of a scan; ``found`` holds its label maps and how sure the answer is."""
    assert scan.full is not None, "val and test scans have full masks"
    assert found.entropy is not None, "examples show it"
    grey = scan.image[:, 0] if dims == 2 else scan.image[0]
    answer = next(iter(found.labels.values()))
    foreground = found.foreground if choice.rank == "common" else None
    examples = [
        Example(
            case=choice.case,
            part=choice.part,
            rank=choice.rank,
            dsc=choice.dsc,
            plane=plane,
            image=plane.of(grey),
            truth=plane.of(scan.full),
            labels={name: plane.of(each) for name, each in found.labels.items()},
            entropy=plane.of(found.entropy),
            foreground=None if foreground is None else plane.of(foreground),
        )
        for plane in planes(scan.full, answer, dims=dims, rank=choice.rank, spacing=scan.spacing)
    ]
    if dims == 3 and choice.rank != "common":
        examples[0] = replace(examples[0], montage=lay_out(grey, scan.full, answer, scan.spacing or (1.0, 1.0, 1.0)))
    return examples


def lay_out(grey: Bytes, truth: Bytes, answer: Bytes, spacing: tuple[float, ...]) -> Montage:
    """Slices ``(I, J)`` of volumes ``(I, J, K)``, evenly spread over those in which anything is marked."""
    marked = ((truth > 0) & (truth != IGNORE)) | (answer > 0)
    if not marked.any():
        marked = np.ones(truth.shape, bool)
    across, down, along = (np.flatnonzero(marked.any(axis=others)) for others in ((1, 2), (0, 2), (0, 1)))
    step = max(1, math.ceil(max(np.ptp(across), np.ptp(down)) / TILE_SIDE))
    window = (_widened(across, truth.shape[0], step), _widened(down, truth.shape[1], step))
    places = np.linspace(along[0], along[-1], TILES).round().astype(int)
    indices = tuple(int(place) for place in dict.fromkeys(places.tolist()))
    columns = min(COLUMNS, len(indices))
    tiled = (_tiled(volume, window, indices, columns) for volume in (grey, truth, answer))
    return Montage(indices, columns, (spacing[0], spacing[1]), *tiled)


def _widened(places: NDArray[np.intp], size: int, step: int) -> slice:
    margin = max(2, round(MARGIN * np.ptp(places)))
    return slice(max(0, int(places[0]) - margin), min(size, int(places[-1]) + 1 + margin), step)


def _tiled(volume: Bytes, window: tuple[slice, slice], indices: tuple[int, ...], columns: int) -> Bytes:
    """Tiles with the first axis to the right and the second downwards; those that are missing in a row are 0."""
    tiles = [volume[window][..., index].T for index in indices]
    tiles += [np.zeros_like(tiles[0])] * (-len(tiles) % columns)
    rows = [np.concatenate(tiles[start : start + columns], axis=1) for start in range(0, len(tiles), columns)]
    return np.ascontiguousarray(np.concatenate(rows))
