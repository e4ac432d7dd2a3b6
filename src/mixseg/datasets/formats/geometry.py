"""Where an array lies in space, and whether two arrays lie in the same place."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mixseg.core.types import Volume

SPACING_TOLERANCE = 1e-3
"""Largest relative difference of a voxel size: formats round at 1e-7, another scan's spacing is off by far more."""

POSITION_TOLERANCE = 0.1
"""Largest distance between the same corner of two grids, in voxels: what a label may be misplaced by without harm."""


class Geometry(NamedTuple):
    """What a header says of an array: see ``Volume`` for the meaning of each field."""

    shape: tuple[int, int, int]
    affine: NDArray[np.float64]
    spacing_known: bool = True

    @property
    def spacing(self) -> tuple[float, float, float]:
        """Voxel size in mm along each array axis."""
        i, j, k = np.linalg.norm(self.affine[:3, :3], axis=0)
        return float(i), float(j), float(k)

    @property
    def orientation(self) -> str:
        """Where the axes of the array point, each direction once: "LPS" is to the left, the back and the head."""
        import nibabel  # here, as it takes a fifth of a second

        nib: Any = nibabel  # its functions have no types
        return "".join(nib.aff2axcodes(self.affine))

    @classmethod
    def of(cls, place: Volume | Geometry) -> Geometry:
        """The geometry of a volume in memory, or what is one already."""
        if isinstance(place, Geometry):
            return place
        i, j, k = place.array.shape
        return cls((i, j, k), place.affine, place.spacing_known)


def same_geometry(first: Volume | Geometry, second: Volume | Geometry) -> str:
    """The clause that says how two grids differ, or "" if they are the same within the tolerances.

    Header noise (1e-8) passes, another spacing (1 %) does not. Where a format holds no voxel size, only sizes count.
    """
    a, b = Geometry.of(first), Geometry.of(second)
    if a.shape != b.shape:
        return f"the sizes are {_by(a.shape)} and {_by(b.shape)} voxels"
    if not (a.spacing_known and b.spacing_known):
        return ""
    if not np.allclose(a.spacing, b.spacing, rtol=SPACING_TOLERANCE, atol=0):
        return f"the spacings are {_by(a.spacing)} and {_by(b.spacing)} mm"
    shift = max(float(np.linalg.norm((a.affine - b.affine) @ corner)) for corner in _corners(a.shape))
    if shift > POSITION_TOLERANCE * min(a.spacing):
        return f"they lie up to {shift:.3g} mm apart (origin or direction differ)"
    return ""


def _corners(shape: tuple[int, int, int]) -> list[NDArray[np.float64]]:
    return [np.array([*corner, 1.0]) for corner in product(*((0, size - 1) for size in shape))]


def _by(numbers: tuple[float, ...]) -> str:
    return " x ".join(f"{number:.6g}" for number in numbers)
