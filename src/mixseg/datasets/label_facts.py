"""What can be counted in one label map, structure by structure: small, and kept while the maps themselves are let go.

``mixseg.datasets.evidence`` decides by these facts whether a structure is finished; nothing is decided here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from mixseg.datasets.labels import BACKGROUND_NAMES

Region = NDArray[np.bool_]

UNLABELED_NAMES = ("ignore", "unlabeled", "unlabelled", "unknown", "void")

STROKE_WORDS = frozenset({"scribble", "scribbles", "stroke", "strokes", "seed", "seeds", "partial", "sparse", "points"})
FINISHED_WORDS = frozenset({"final", "finished", "full", "complete", "completed", "dense", "gt", "groundtruth"})

WIDTHS = (3, 5, 7, 9, 11)
"""Sides of the squares that are fitted into a structure, in voxels. Brushes are up to 6 wide: 9 is beyond a stroke."""


@dataclass(frozen=True)
class AxisFacts:
    """One structure, seen as slices that lie along one axis.

    Attributes:
        size: How many slices the image has.
        mm: From one slice to the next.
        painted: The numbers of the slices on which something is painted.
        inside: The share of voxels whose four neighbours in the slice are of the structure.
        width: The side of the largest of ``WIDTHS`` that fits round half of the voxels; 1 if none does.
        pieces: Connected components of all slices.
        thin: How many of them have no voxel inside.
        length: The longer side of the box round a component, in mm: the median over voxels.
        overlap: How much of the smaller of two neighbouring slices lies on the other one; 0 without such a pair.
        ends: The area of the first and of the last slice as a share of the largest one; 0 at the border of the image.
    """

    size: int
    mm: float
    painted: tuple[int, ...]
    inside: float
    width: int
    pieces: int
    thin: int
    length: float
    overlap: float
    ends: tuple[float, float]

    @property
    def runs(self) -> list[int]:
        """The lengths of the runs of painted slices."""
        at = np.array(self.painted)
        starts = np.flatnonzero(np.diff(at, prepend=-2) > 1)
        return [int(length) for length in np.diff(starts, append=len(at))]

    @property
    def single(self) -> float:
        """The share of painted slices that have no painted neighbour; 0 where one slice is all there is."""
        return self.runs.count(1) / len(self.painted) if self.size > 1 else 0.0

    @property
    def step(self) -> int:
        """The distance of all neighbouring painted slices, but for one in five; 0 if there is none."""
        steps = np.diff(self.painted)
        often = int(np.bincount(steps).argmax()) if len(steps) else 0
        return often if len(steps) and (steps == often).mean() >= 0.8 else 0


@dataclass(frozen=True)
class StructureFacts:
    """One structure of one label map.

    Attributes:
        voxels: How many are painted.
        volume: In ml.
        extent: Of the box round it, in mm.
        fill: The share of this box that is painted.
        components: Connected in 3D, corners included.
        touches: By the name of another structure, the share of the border's voxels that touch it.
        axes: The same as slices along each axis.
        status: Slicer's ``Segmentation.Status``, or "".
    """

    voxels: int
    volume: float = 0.0
    extent: tuple[float, ...] = (0.0, 0.0, 0.0)
    fill: float = 0.0
    components: int = 0
    touches: Mapping[str, float] = field(default_factory=dict)
    axes: tuple[AxisFacts, ...] = ()
    status: str = ""


@dataclass(frozen=True)
class LabelFacts:
    """One label map.

    Attributes:
        file: Where it lies.
        shape: In voxels.
        spacing: In mm.
        structures: By name, those without a voxel too; without the background and what is named unlabeled.
        background: Whether a class or segment named background is painted.
        unlabeled: Whether one named unlabeled or ignore is painted.
        labeled: The share of all voxels that is painted, with the background.
        words: Those of the file's name that speak of strokes or of finished masks.
    """

    file: Path
    shape: tuple[int, ...]
    spacing: tuple[float, ...]
    structures: Mapping[str, StructureFacts]
    background: bool = False
    unlabeled: bool = False
    labeled: float = 0.0
    words: frozenset[str] = frozenset()


def measure(
    array: NDArray[np.generic],
    names: Mapping[int, str],
    *,
    file: Path,
    spacing: tuple[float, float, float],
    status: Mapping[str, str] | None = None,
) -> LabelFacts:
    """The facts of one label map.

    Args:
        array: Ids ``(I, J, K)``, 0 where nothing is painted; ``(I, J)`` is one slice.
        names: By id; an id that is painted and has no name is called by its number.
        file: For its name.
        spacing: In mm.
        status: Slicer's ``Segmentation.Status`` by the name of the structure.
    """
    status = status or {}
    ids = np.asarray(array).astype(np.int32, copy=False)
    ids = ids if ids.ndim == 3 else ids.reshape(*ids.shape, *(1,) * (3 - ids.ndim))
    boxes = _boxes(ids)
    names = {value: str(value) for value in boxes} | {value: name for value, name in names.items() if value}
    background = {value for value, name in names.items() if name.lower() in BACKGROUND_NAMES}
    unlabeled = {value for value, name in names.items() if name.lower() in UNLABELED_NAMES}
    own = {value: name for value, name in names.items() if value not in background | unlabeled}
    structures = {
        name: StructureFacts(0, status=status.get(name, ""))
        if value not in boxes
        else _structure(ids, value, own, boxes[value], spacing, status.get(name, ""))
        for value, name in own.items()
    }
    painted = ids != 0
    for value in unlabeled & set(boxes):
        painted &= ids != value
    return LabelFacts(
        Path(file),
        ids.shape,
        tuple(spacing),
        structures,
        background=bool(background & set(boxes)),
        unlabeled=bool(unlabeled & set(boxes)),
        labeled=float(painted.mean()) if painted.size else 0.0,
        words=frozenset(re.split(r"[^a-z]+", Path(file).name.lower())) & (STROKE_WORDS | FINISHED_WORDS),
    )


def _boxes(ids: NDArray[np.int32]) -> dict[int, tuple[slice, ...]]:
    """Of every id but 0, the box round its voxels."""
    found = [int(value) for value in np.unique(ids) if value]
    ranks = np.searchsorted(found, ids) + 1 if found else ids
    ranks = np.where(ids == 0, 0, ranks)
    return {value: box for value, box in zip(found, ndimage.find_objects(ranks), strict=False) if box is not None}


def _structure(
    ids: NDArray[np.int32],
    value: int,
    names: Mapping[int, str],
    box: tuple[slice, ...],
    spacing: tuple[float, float, float],
    status: str,
) -> StructureFacts:
    region = ids[box] == value
    voxels = int(region.sum())
    extent = tuple(float(size * mm) for size, mm in zip(region.shape, spacing, strict=True))
    return StructureFacts(
        voxels,
        volume=voxels * float(np.prod(spacing)) / 1000,
        extent=extent,
        fill=voxels / region.size,
        components=int(ndimage.label(region, np.ones((3, 3, 3)))[1]),
        touches=_touches(ids, value, names, box),
        axes=tuple(_along(region, axis, ids.shape[axis], box[axis], spacing) for axis in range(3)),
        status=status,
    )


def _touches(ids: NDArray[np.int32], value: int, names: Mapping[int, str], box: tuple[slice, ...]) -> dict[str, float]:
    """Of the voxels at the structure's border, the share that touches each of the others."""
    wide = tuple(slice(max(0, side.start - 1), side.stop + 1) for side in box)
    near = np.pad(ids[wide], 1, mode="edge")
    middle = near[1:-1, 1:-1, 1:-1]
    region = middle == value
    around = [
        np.take(near, range(start, start + middle.shape[axis]), axis)[_others(axis)]
        for axis in range(3)
        for start in (0, 2)
    ]
    border = region & np.logical_or.reduce([side != value for side in around])
    met = {int(other) for side in around for other in np.unique(side[border])} & set(names) - {value}
    total = int(border.sum())
    return {
        names[other]: int((border & np.logical_or.reduce([side == other for side in around])).sum()) / total
        for other in sorted(met)
    }


def _others(axis: int) -> tuple[slice, ...]:
    return tuple(slice(None) if each == axis else slice(1, -1) for each in range(3))


def _along(region: Region, axis: int, size: int, side: slice, spacing: tuple[float, float, float]) -> AxisFacts:
    slices = np.moveaxis(region, axis, 0)
    mm = [spacing[each] for each in range(3) if each != axis]
    areas = slices.sum(axis=(1, 2))
    inside = _inside(slices)
    labels, pieces = ndimage.label(slices, np.array([np.zeros((3, 3)), np.ones((3, 3)), np.zeros((3, 3))]))
    thick = np.unique(labels[inside])
    return AxisFacts(
        size=size,
        mm=spacing[axis],
        painted=tuple(int(at) for at in np.flatnonzero(areas) + side.start),
        inside=float(inside.sum() / areas.sum()),
        width=_width(slices),
        pieces=int(pieces),
        thin=int(pieces - len(thick)),
        length=_length(labels, mm),
        overlap=_overlap(slices, areas),
        ends=(
            float(areas[0] / areas.max()) if side.start else 0.0,
            float(areas[-1] / areas.max()) if side.stop < size else 0.0,
        ),
    )


def _inside(slices: Region) -> Region:
    """Voxels with four neighbours of their own; what lies beyond the box's edge is none, beyond the image's unknown."""
    padded = np.pad(slices, ((0, 0), (1, 1), (1, 1)))
    found: Region = slices & padded[:, :-2, 1:-1] & padded[:, 2:, 1:-1] & padded[:, 1:-1, :-2] & padded[:, 1:-1, 2:]
    return found


def _width(slices: Region) -> int:
    """The largest of ``WIDTHS`` by which the slices can be opened with half of the voxels left."""
    half = slices.sum() / 2
    pixels = np.pad(slices, ((0, 0), (1, 1), (1, 1))).astype(np.uint8)
    widest = 1
    for width in WIDTHS:
        opened = pixels
        for filter1d in (ndimage.minimum_filter1d, ndimage.maximum_filter1d):
            for axis in (1, 2):
                opened = filter1d(opened, width, axis=axis, mode="constant")
        if opened.sum() < half:
            break
        widest = width
    return widest


def _length(labels: NDArray[np.int32], mm: list[float]) -> float:
    """Of the component in which the median voxel lies, by their lengths."""
    counts = np.bincount(labels.ravel())[1:]
    boxes = ndimage.find_objects(labels)
    lengths = np.array([max((box[k + 1].stop - box[k + 1].start) * mm[k] for k in range(2)) for box in boxes])
    order = np.argsort(lengths)
    middle = np.searchsorted(np.cumsum(counts[order]), counts.sum() / 2)
    return float(lengths[order[min(middle, len(order) - 1)]])


def _overlap(slices: Region, areas: NDArray[np.integer]) -> float:
    smaller = np.minimum(areas[:-1], areas[1:]).sum()
    return float((slices[:-1] & slices[1:]).sum() / smaller) if smaller else 0.0
