"""What can be counted in one region of a label map: along each axis as slices, and where it touches others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

Region = NDArray[np.bool_]
Box = tuple[slice, ...]

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
        length: The longer side of the box round a component, the median over voxels, in mm; a voxel counts as its
            smaller side, so that thick slices seen from the side are not long.
        likeness: Intersection over union of neighbouring slices, over all of them; 0 without such a pair.
        roughness: How often the area rises to its maximum and falls again, from the first slice to the last: 1 for a
            smooth body.
        enclosed: Voxels beside unpainted ones that are painted all round in their slice, as a share of the voxels at
            the border.
        ends: The area of the first and of the last slice as a share of the largest one; 0 at the border of the image.
    """

    size: int
    mm: float
    painted: tuple[int, ...]
    inside: float
    width: int
    components: int
    thin: int
    length: float
    likeness: float
    roughness: float
    enclosed: float
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


def touches(ids: NDArray[np.int32], value: int, names: Mapping[int, str], box: Box) -> dict[str, float]:
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


def along(
    region: Region, axis: int, at_holes: Region, *, start: int, size: int, spacing: tuple[float, ...]
) -> AxisFacts:
    """A region as slices along one axis.

    Args:
        region: Cut out by the box round it.
        axis: Of the slices.
        at_holes: The same part of what is beside holes in them.
        start: The first slice of the box.
        size: How many slices the image has.
        spacing: In mm.
    """
    slices = np.moveaxis(region, axis, 0)
    mm = min(spacing[each] for each in range(3) if each != axis)
    areas = slices.sum(axis=(1, 2))
    inside = _inside(slices)
    labels, components = ndimage.label(slices, np.array([np.zeros((3, 3)), np.ones((3, 3)), np.zeros((3, 3))]))
    thick = np.unique(labels[inside])
    return AxisFacts(
        size=size,
        mm=spacing[axis],
        painted=tuple(int(at) for at in np.flatnonzero(areas) + start),
        inside=float(inside.sum() / areas.sum()),
        width=_width(slices),
        components=int(components),
        thin=int(components - len(thick)),
        length=_length(labels, mm),
        likeness=_likeness(slices, areas),
        roughness=float(np.abs(np.diff(areas, prepend=0, append=0)).sum() / (2 * areas.max())),
        enclosed=float((region & at_holes).sum() / max(1, (slices & ~inside).sum())),
        ends=(
            float(areas[0] / areas.max()) if start else 0.0,
            float(areas[-1] / areas.max()) if start + len(areas) < size else 0.0,
        ),
    )


def _inside(slices: Region) -> Region:
    """Voxels with four neighbours of their own."""
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


def _length(labels: NDArray[np.int32], mm: float) -> float:
    """Of the component in which the median voxel lies, by their lengths."""
    counts = np.bincount(labels.ravel())[1:]
    boxes = ndimage.find_objects(labels)
    lengths = np.array([max(side.stop - side.start for side in box[1:]) * mm for box in boxes])
    order = np.argsort(lengths)
    middle = np.searchsorted(np.cumsum(counts[order]), counts.sum() / 2)
    return float(lengths[order[min(middle, len(order) - 1)]])


def _likeness(slices: Region, areas: NDArray[np.integer]) -> float:
    common = (slices[:-1] & slices[1:]).sum(axis=(1, 2))
    pairs = (areas[:-1] > 0) & (areas[1:] > 0)
    union = (areas[:-1] + areas[1:] - common)[pairs].sum()
    return float(common[pairs].sum() / union) if union else 0.0


def at_holes(painted: Region) -> tuple[Region, ...]:
    """Along each axis, the voxels beside unpainted ones that are painted all round in their slice."""
    found = (np.moveaxis(_enclosed(np.moveaxis(painted, axis, 0)), 0, axis) for axis in range(3))
    return tuple(ndimage.binary_dilation(holes) if holes.any() else holes for holes in found)


def _enclosed(slices: Region) -> Region:
    """Unpainted voxels that no path in the slice leads from to its edge."""
    space = np.pad(~slices, ((0, 0), (1, 1), (1, 1)), constant_values=True)
    cross = ndimage.generate_binary_structure(2, 1)
    labels, count = ndimage.label(space, np.stack([np.zeros_like(cross), cross, np.zeros_like(cross)]))
    open_ones = np.zeros(count + 1, bool)
    open_ones[labels[:, 0, 0]] = True
    open_ones[0] = True
    found: Region = ~open_ones[labels[:, 1:-1, 1:-1]]
    return found
