"""A scan in 8 bits on its own grid: what files and archives both become, before the training grid is made from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mixseg.core.errors import MixsegError
from mixseg.core.files import check_name
from mixseg.core.types import Labels


@dataclass(frozen=True)
class Header:
    """What is known of a scan before its voxels are read.

    Attributes:
        id: See Case, as for the next five.
        patient: Whose scan it is.
        frame: Which of the patient's scans.
        classes: Names by class index.
        annotated: The classes that the annotator looked for, or None.
        split: The part of the split that its folder says, or "".
        channels: How many images it has.
        shape: ``(I, J, K)``.
        affine: Voxel indices to mm, RAS+, four rows.
        spacing: Voxel size in mm along each axis.
        spacing_known: False where the format holds no voxel size.
        source: The name of the (first) image file.
        has_full: Whether there is a full mask.
        has_drawn: Whether there is a partial mask.
        fingerprint: Changes when a file of it does.
    """

    id: str
    patient: str
    frame: str
    classes: tuple[str, ...]
    annotated: tuple[str, ...] | None
    split: str
    channels: int
    shape: tuple[int, int, int]
    affine: tuple[tuple[float, ...], ...]
    spacing: tuple[float, float, float]
    spacing_known: bool
    source: str
    has_full: bool
    has_drawn: bool
    fingerprint: str


@dataclass(frozen=True)
class Native:
    """The voxels of one scan.

    Attributes:
        image: ``(channels, I, J, K)`` uint8.
        low: Intensity that became 0, per channel.
        high: Intensity that became 255, per channel.
        full: ``(I, J, K)`` class indices, or None.
        drawn: ``(I, J, K)`` class indices and IGNORE, or None.
    """

    image: NDArray[np.uint8]
    low: tuple[float, ...]
    high: tuple[float, ...]
    full: Labels | None
    drawn: Labels | None


def check_headers(headers: Iterable[Header]) -> tuple[tuple[str, ...], int]:
    """The class names and the number of channels that all scans share; an error names the first that differs."""
    seen: dict[str, Header] = {}
    for header in headers:
        check_name("scan", header.id, header.source)
        if header.id in seen:
            raise MixsegError(
                f"Two scans are called {header.id} ({seen[header.id].source}, {header.source}): rename one."
            )
        first = next(iter(seen.values()), header)
        if header.classes != first.classes:
            raise MixsegError(
                f"{header.id} has the classes {', '.join(header.classes)}, and {first.id} has "
                f"{', '.join(first.classes)}: prepare them apart."
            )
        if header.channels != first.channels:
            raise MixsegError(
                f"{header.id} has {header.channels} channels, and {first.id} has {first.channels}: prepare them apart."
            )
        seen[header.id] = header
    if not seen:
        raise MixsegError("There is no scan to prepare: check the folder and the choice of cases.")
    first = next(iter(seen.values()))
    for name in first.classes:
        check_name("class", name, first.source)
    return first.classes, first.channels


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
