"""A scan on its way to a batch: what its header says, its voxels as they are, and the scan as a run sees it.

``core.types.Case`` (files) -> ``Native`` (header and voxels) -> ``prepare.store.PreparedCase`` (an entry of the store)
-> ``Scan`` (what a run sees) -> ``core.types.Batch``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mixseg.core.errors import MixsegError
from mixseg.core.files import check_name
from mixseg.core.types import IGNORE, Bytes, Kind, Labels, unsearched

if TYPE_CHECKING:  # the store's entries hold a header, and a scan holds its entry
    from mixseg.data.prepare.store import PreparedCase
    from mixseg.datasets.formats import Geometry

VoxelIndices = NDArray[np.int32]
"""Voxels by class and index: rows of ``(class, *index)``."""


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

    @property
    def kind(self) -> Kind:
        """The strongest supervision that the files hold: see ``Case.kind``."""
        if self.has_full and not unsearched(self.annotated, self.classes):
            return "full"
        return "partial" if self.has_full or self.has_drawn else "unlabeled"


@dataclass(frozen=True, eq=False)
class Native:
    """A scan in 8 bits on its own grid: what files, archives and arrays become, before they reach the training grid.

    Attributes:
        header: What is known of it beside the voxels.
        image: ``(channels, I, J, K)`` uint8.
        low: Intensity that became 0, per channel.
        high: Intensity that became 255, per channel.
        full: ``(I, J, K)`` class indices, or None.
        drawn: ``(I, J, K)`` class indices and IGNORE, or None.
    """

    header: Header
    image: Bytes
    low: tuple[float, ...]
    high: tuple[float, ...]
    full: Labels | None = None
    drawn: Labels | None = None


@dataclass(frozen=True, eq=False)
class Scan:
    """One scan on the training grid, with the labels that a run may see and no others.

    Attributes:
        name: For messages and predictions.
        image: uint8, ``(slices, C, H, W)`` for training in 2D, ``(C, I, J, K)`` in 3D.
        full: uint8 class indices without the channel axis, or None.
        partial: The same with IGNORE where nothing is labelled, or None.
        mean: Of the grey values of each channel, for z-scores.
        std: Likewise.
        spacing: Voxel size in mm along the axes of the labels; None where it is unknown.
        cropped: Foreground of the full mask outside the grid, for scores: see ``data.resample``. Or None.
        case: How it came to this grid, and so the way back to its own; None for a scan that never was on another.
    """

    name: str
    image: Bytes
    full: Labels | None = None
    partial: Labels | None = None
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    spacing: tuple[float, ...] | None = None
    cropped: VoxelIndices | None = None
    case: PreparedCase | None = None

    @property
    def placed(self) -> PreparedCase:
        """How it came to this grid, where it did."""
        assert self.case is not None, f"{self.name} never was on another grid"
        return self.case

    @property
    def channels(self) -> int:
        """How many there are."""
        return len(self.mean)

    @property
    def shows_foreground(self) -> bool:
        """Whether the full mask has a voxel above the background on this grid."""
        return self.full is not None and bool(((self.full > 0) & (self.full != IGNORE)).any())


def check_headers(headers: Iterable[Header]) -> tuple[tuple[str, ...], int]:
    """The class names and the number of channels that all scans share.

    Raises:
        MixsegError: With the first scan that has others, or a name that another one has.
    """
    seen: dict[str, Header] = {}
    for header in headers:
        check_name("scan", header.id, header.source)
        if header.id in seen:
            raise MixsegError(
                f"Two scans are called {header.id} ({seen[header.id].source}, {header.source}): rename one.",
                "duplicate-scan",
                case=header.id,
            )
        first = next(iter(seen.values()), header)
        if header.classes != first.classes:
            raise MixsegError(
                f"{header.id} has the classes {', '.join(header.classes)}, and {first.id} has "
                f"{', '.join(first.classes)}: prepare them apart.",
                "classes-differ",
                case=header.id,
                other=first.id,
            )
        if header.channels != first.channels:
            raise MixsegError(
                f"{header.id} has {header.channels} channels, and {first.id} has {first.channels}: prepare them apart.",
                "channels-differ",
                case=header.id,
                other=first.id,
            )
        seen[header.id] = header
    if not seen:
        raise MixsegError("There is no scan to prepare: check the folder and the choice of cases.", "no-scans")
    first = next(iter(seen.values()))
    for name in first.classes:
        check_name("class", name, first.source)
    return first.classes, first.channels


FEW_SLICES = 32
"""Fewer than this cannot be halved four times, and are no volume."""


def middle_slices(scans: Sequence[Header | Geometry]) -> int:
    """How many slices a scan has, taking the median."""
    return int(np.median([scan.shape[2] for scan in scans]))


def middle_spacing(scans: Sequence[Header]) -> NDArray[np.float64]:
    """The median voxel size along each axis."""
    return np.asarray(np.median([scan.spacing for scan in scans], axis=0))


def spacing_unknown(scans: Sequence[Header]) -> bool:
    """Whether voxel sizes mean nothing: not in the files, or not meant."""
    return not all(scan.spacing_known for scan in scans) or spacing_not_meant(scans)


def spacing_not_meant(scans: Sequence[Header | Geometry]) -> bool:
    """Whether all claim 1 mm along every axis and have few slices: what a conversion that lost the size leaves.

    Nothing is lost if it is meant after all: distances in mm are then those in voxels.
    """
    return middle_slices(scans) < FEW_SLICES and all(scan.spacing == (1, 1, 1) for scan in scans)


def times(values: Iterable[Any], digits: str = ".4g") -> str:
    """``(256, 224)`` -> ``"256x224"``."""
    return "x".join(f"{float(value):{digits}}" for value in values)
