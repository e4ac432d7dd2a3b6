"""One scan -> what its files hold, what is wrong with them, and a slice to look at."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mixseg.core.types import IGNORE, Case, Labels, Volume
from mixseg.data.intensity import FAINT, to_8_bits
from mixseg.datasets import contents, formats
from mixseg.datasets.labels import thin


@dataclass(frozen=True)
class LabelMap:
    """What one label map holds.

    Attributes:
        counts: Class index -> voxels; unlabeled ones are not counted.
        voxels: All voxels of the scan.
        thin: Whether everything in it is lines, as strokes are.
    """

    counts: Mapping[int, int]
    voxels: int
    thin: bool

    @property
    def labelled(self) -> int:
        """How many voxels have a class."""
        return sum(self.counts.values())

    @property
    def empty(self) -> bool:
        """Whether no structure occurs in it."""
        return not any(count for index, count in self.counts.items() if index)


@dataclass(frozen=True)
class Preview:
    """The slice along the last axis that shows most, turned so that the patient's front or head is up.

    A picture for the page, and no step of a scan's way to a batch: nothing goes on from here.

    Attributes:
        image: ``(H, W)`` grey values.
        full: ``(H, W)`` class indices, or None.
        partial: ``(H, W)`` class indices or IGNORE, or None.
        aspect: Height of a pixel over its width.
        index: Which slice it is.
    """

    image: NDArray[np.float32]
    full: Labels | None
    partial: Labels | None
    aspect: float
    index: int


@dataclass(frozen=True)
class ScanReport:
    """What was found in the files of one case.

    Attributes:
        case: The case.
        problems: One sentence each; if there are any, the rest may be unknown.
        place: Size and voxel size.
        full: What the full mask holds.
        partial: What the partial labels hold.
        contradicting: Partly labelled voxels whose class is not that of the full mask.
        digest: Of the image's voxels: the same for the same scan.
        flat: Whether all voxels of the image are equal.
        faint: Whether they are nearly so in 256 grey values.
        preview: A slice, where one was asked for.
    """

    case: Case
    problems: tuple[str, ...] = ()
    geometry: formats.Geometry | None = None
    full: LabelMap | None = None
    partial: LabelMap | None = None
    contradicting: int = 0
    digest: str = ""
    flat: bool = False
    faint: bool = False
    preview: Preview | None = None


def inspect_scan(case: Case, *, preview: bool = False) -> ScanReport:
    """Read every file of ``case``."""
    problems, image, *maps = contents(case)
    if problems or image is None:
        return ScanReport(case, tuple(problems))
    full, partial = (None if of is None else of.array.astype(np.uint8, copy=False) for of in maps)
    contradicting = 0
    if full is not None and partial is not None:
        contradicting = int(((partial != IGNORE) & (full != IGNORE) & (partial != full)).sum())
    return ScanReport(
        case,
        geometry=formats.Geometry.of(image),
        full=None if full is None else _summary(full),
        partial=None if partial is None else _summary(partial),
        contradicting=contradicting,
        digest=hashlib.blake2b(np.ascontiguousarray(image.array).tobytes(), digest_size=16).hexdigest(),
        flat=bool((image.array == image.array.flat[0]).all()),
        faint=bool(to_8_bits(image.array)[0].std() < FAINT),
        preview=_preview(image, full, partial) if preview else None,
    )


def _summary(labels: Labels) -> LabelMap:
    counts = np.bincount(labels.ravel(), minlength=IGNORE + 1)
    found = {int(index): int(counts[index]) for index in np.flatnonzero(counts[:IGNORE])}
    return LabelMap(found, labels.size, thin=thin(labels))


def _preview(image: Volume, full: Labels | None, partial: Labels | None) -> Preview:
    index = _telling_slice(image, full, partial)
    upright = [_upright(one[..., index], image.affine) for one in (image.array, full, partial) if one is not None]
    rest = iter(upright[1:])
    return Preview(
        image=upright[0].astype(np.float32),
        full=None if full is None else next(rest).astype(np.uint8),
        partial=None if partial is None else next(rest).astype(np.uint8),
        aspect=image.spacing[1] / image.spacing[0],
        index=index,
    )


def _telling_slice(image: Volume, full: Labels | None, partial: Labels | None) -> int:
    """The slice with most structure in the full mask, else with most partial labels, else the middle one."""
    shown = [] if full is None else [(full != 0) & (full != IGNORE)]
    shown += [] if partial is None else [partial != IGNORE]
    amounts = (region.sum(axis=(0, 1)) for region in shown)
    return next((int(amount.argmax()) for amount in amounts if amount.any()), int(image.array.shape[2]) // 2)


def _upright(plane: NDArray[np.generic], affine: NDArray[np.float64]) -> NDArray[np.generic]:
    """``(I, J)`` as rows and columns of a picture: front or head up, the patient's right on the left."""
    across, down = affine[:3, 0], affine[:3, 1]
    picture = plane.T
    if down[np.abs(down).argmax()] > 0:  # j runs towards the front, the head or the right
        picture = picture[::-1]
    if across[np.abs(across).argmax()] > 0:
        picture = picture[:, ::-1]
    return picture
