"""Slices of a volume side by side, cut to what is marked: the whole course of a structure at one glance."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mixseg.core.types import IGNORE, Bytes

TILES, COLUMNS = 10, 5
MARGIN = 0.15
"""Of what is marked, kept round it."""
LONGEST_SIDE = 96
"""Pixels of a tile: larger ones are thinned out."""


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


def lay_out(grey: Bytes, truth: Bytes, answer: Bytes, spacing: tuple[float, ...]) -> Montage:
    """Slices ``(I, J)`` of volumes ``(I, J, K)``, evenly spread over those in which anything is marked."""
    marked = ((truth > 0) & (truth != IGNORE)) | (answer > 0)
    if not marked.any():
        marked = np.ones(truth.shape, bool)
    across, down, along = (np.flatnonzero(marked.any(axis=others)) for others in ((1, 2), (0, 2), (0, 1)))
    step = max(1, math.ceil(max(np.ptp(across), np.ptp(down)) / LONGEST_SIDE))
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
