"""A scan as training, validation and prediction hold it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mixseg.core.types import IGNORE, Bytes


@dataclass(frozen=True)
class Scan:
    """One scan on the training grid.

    Attributes:
        name: For messages and predictions.
        image: uint8, ``(slices, C, H, W)`` for training in 2D, ``(C, I, J, K)`` in 3D.
        full: uint8 class indices without the channel axis, or None.
        partial: The same with IGNORE where nothing is labelled, or None.
        mean: Of the grey values of each channel, for z-scores.
        std: Likewise.
        spacing: Voxel size in mm along the axes of the labels; None where it is unknown.
        beyond: Foreground of the full mask that lies beyond the grid, for scores (see ``data.crop.cut_off``), or None.
    """

    name: str
    image: Bytes
    full: Bytes | None = None
    partial: Bytes | None = None
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    spacing: tuple[float, ...] | None = None
    beyond: NDArray[np.int32] | None = None

    @property
    def channels(self) -> int:
        """How many there are."""
        return len(self.mean)

    @property
    def shows_foreground(self) -> bool:
        """Whether the full mask has a voxel above the background on this grid."""
        return self.full is not None and bool(((self.full > 0) & (self.full != IGNORE)).any())
