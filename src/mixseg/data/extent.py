"""How large scans are, from their headers alone: what a plan knows of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

FEW_SLICES = 32
"""Fewer than this cannot be halved four times, and are no volume."""


class Extent(NamedTuple):
    """Voxels of a scan and their size in mm along each axis, and whether that size is known at all."""

    shape: tuple[int, int, int]
    spacing: tuple[float, float, float]
    spacing_known: bool = True


def middle_slices(scans: Sequence[Extent]) -> int:
    """How many slices a scan has, taking the median."""
    return int(np.median([scan.shape[2] for scan in scans]))


def middle_spacing(scans: Sequence[Extent]) -> NDArray[np.float64]:
    """The median voxel size along each axis."""
    return np.asarray(np.median([scan.spacing for scan in scans], axis=0))


def lost(scans: Sequence[Extent]) -> bool:
    """Whether voxel sizes mean nothing: not in the files, or not meant."""
    return not all(scan.spacing_known for scan in scans) or not_meant(scans)


def not_meant(scans: Sequence[Extent]) -> bool:
    """Whether all claim 1 mm along every axis and have few slices: what a conversion that lost the size leaves.

    Nothing is lost if it is meant after all: distances in mm are then those in voxels.
    """
    return middle_slices(scans) < FEW_SLICES and all(scan.spacing == (1, 1, 1) for scan in scans)


def times(values: Iterable[Any], digits: str = ".4g") -> str:
    """``(256, 224)`` -> ``"256x224"``."""
    return "x".join(f"{float(value):{digits}}" for value in values)
