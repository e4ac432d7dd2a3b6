"""What can be counted in one label map, structure by structure: small, and kept while the maps themselves are let go.

``mixseg.datasets.evidence`` decides by these facts whether a structure is finished; nothing is decided here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from mixseg.datasets.label_shapes import AxisFacts, Box, Region, along, at_holes, touches
from mixseg.datasets.labels import BACKGROUND_NAMES

UNLABELED_NAMES = ("ignore", "unlabeled", "unlabelled", "unknown", "void")

STROKE_WORDS = frozenset({"scribble", "scribbles", "stroke", "strokes", "seed", "seeds", "partial", "sparse", "points"})
FINISHED_WORDS = frozenset({"final", "finished", "full", "complete", "completed", "dense", "gt", "groundtruth"})


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
        whole: All of them as if they were one.
        background: Whether a class or segment named background is painted.
        unlabeled: Whether one named unlabeled or ignore is painted.
        labeled: The share of all voxels that is painted, with the background.
        words: Those of the file's name that speak of strokes or of finished masks.
    """

    file: Path
    shape: tuple[int, ...]
    spacing: tuple[float, ...]
    structures: Mapping[str, StructureFacts]
    whole: StructureFacts
    background: bool = False
    unlabeled: bool = False
    labeled: float = 0.0
    words: frozenset[str] = frozenset()


def measure(
    array: NDArray[np.generic],
    names: Mapping[int, str],
    *,
    file: Path,
    spacing: tuple[float, ...],
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
    whole = np.asarray(array)
    whole = whole.reshape(*whole.shape, *(1,) * (3 - whole.ndim))
    # A size that a header does not know counts as one: only proportions are taken from it.
    spacing = tuple(float(mm) if np.isfinite(mm) and mm > 0 else 1.0 for mm in spacing)
    box = _box(whole != 0)
    ids = whole[box].astype(np.int32)
    found = {int(value) for value in np.unique(ids) if value}
    names = {value: str(value) for value in found} | {value: name for value, name in names.items() if value}
    special = {value: name.lower() for value, name in names.items()}
    background = {value for value, name in special.items() if name in BACKGROUND_NAMES}
    unlabeled = {value for value, name in special.items() if name in UNLABELED_NAMES}
    own = {value: name for value, name in names.items() if value not in background | unlabeled}
    ids = _merged(ids, own)
    painted = np.isin(ids, list(own))
    canvas = _Canvas(ids, own, tuple(side.start for side in box), whole.shape, spacing, at_holes(painted))
    return LabelFacts(
        Path(file),
        whole.shape,
        spacing,
        canvas.structures(status or {}),
        canvas.whole(painted),
        background=bool(background & found),
        unlabeled=bool(unlabeled & found),
        labeled=float(np.isin(ids, [*own, *background]).sum() / max(1, whole.size)),
        words=frozenset(re.split(r"[^a-z]+", Path(file).name.lower())) & (STROKE_WORDS | FINISHED_WORDS),
    )


def _box(painted: Region) -> Box:
    """The box round what is painted, and a voxel more on each side where there is one."""
    found = ndimage.find_objects(painted.astype(np.int8), 1)[0] or (slice(0, 0),) * 3
    return tuple(slice(max(0, side.start - 1), side.stop + 1) for side in found)


def _merged(ids: NDArray[np.int32], names: Mapping[int, str]) -> NDArray[np.int32]:
    """One id for each name: two segments that are called alike are one structure."""
    first: dict[str, int] = {}
    for value, name in names.items():
        first.setdefault(name, value)
    for value, name in names.items():
        if first[name] != value:
            ids = np.where(ids == value, np.int32(first[name]), ids)
    return ids


@dataclass(frozen=True)
class _Canvas:
    """The map while it is measured.

    Attributes:
        ids: The part in which anything is painted.
        names: By id.
        start: Where that part begins in the image.
        shape: Of the image.
        spacing: In mm.
        at_holes: Along each axis, the voxels beside unpainted ones that are painted all round.
    """

    ids: NDArray[np.int32]
    names: Mapping[int, str]
    start: tuple[int, ...]
    shape: tuple[int, ...]
    spacing: tuple[float, ...]
    at_holes: tuple[Region, ...]

    def structures(self, status: Mapping[str, str]) -> dict[str, StructureFacts]:
        """Of each name."""
        values = sorted(self.names)
        ranks = np.zeros_like(self.ids)
        for rank, value in enumerate(values, 1):
            ranks[self.ids == value] = rank
        boxes = dict(zip(values, ndimage.find_objects(ranks, len(values)), strict=True))
        empty = {name: StructureFacts(0, status=status.get(name, "")) for name in self.names.values()}
        return empty | {
            self.names[value]: _structure(self, value, box, status.get(self.names[value], ""))
            for value, box in boxes.items()
            if box is not None
        }

    def whole(self, painted: Region) -> StructureFacts:
        """Of all names together."""
        found = ndimage.find_objects(painted.astype(np.int8), 1)[0]
        return _facts(self, painted[found], found) if found else StructureFacts(0)


def _structure(canvas: _Canvas, value: int, box: Box, status: str) -> StructureFacts:
    found = _facts(canvas, canvas.ids[box] == value, box)
    return replace(found, touches=touches(canvas.ids, value, canvas.names, box), status=status)


def _facts(canvas: _Canvas, region: Region, box: Box) -> StructureFacts:
    voxels, spacing = int(region.sum()), canvas.spacing
    extent = tuple(float(size * mm) for size, mm in zip(region.shape, spacing, strict=True))
    return StructureFacts(
        voxels,
        volume=voxels * float(np.prod(spacing)) / 1000,
        extent=extent,
        fill=voxels / region.size,
        components=int(ndimage.label(region, np.ones((3, 3, 3)))[1]),
        axes=tuple(
            along(
                region,
                axis,
                canvas.at_holes[axis][box],
                start=canvas.start[axis] + box[axis].start,
                size=canvas.shape[axis],
                spacing=spacing,
            )
            for axis in range(3)
        ),
    )
