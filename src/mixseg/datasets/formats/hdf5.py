"""Named arrays in HDF5 files, as the semi-supervised benchmarks ship them: no geometry, unless we wrote the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from mixseg.core.errors import MixsegError
from mixseg.core.types import Volume
from mixseg.datasets.formats.base import TRANSPOSED
from mixseg.datasets.formats.geometry import Geometry


def read(path: Path, key: str = "") -> Volume:
    """The array called ``key``; without a key, the array called "image" or the only one."""
    with h5py.File(path, "r") as file:
        node, transposed = _node(file, key, path)
        place = _geometry(node, transposed=transposed, path=path)
        array = node[()]
    return Volume((array.T if transposed else array).reshape(place.shape), place.affine, place.spacing_known)


def geometry(path: Path, key: str = "") -> Geometry:
    """The geometry, without reading the voxels."""
    with h5py.File(path, "r") as file:
        node, transposed = _node(file, key, path)
        return _geometry(node, transposed=transposed, path=path)


def keys(path: Path) -> tuple[str, ...]:
    """The names of the arrays."""
    with h5py.File(path, "r") as file:
        return tuple(sorted(name for name in file if isinstance(file[name], h5py.Dataset)))


def write(path: Path, array: NDArray[np.generic], place: Geometry, key: str) -> None:
    """Write one compressed array; its affine, where known, is an attribute."""
    # Since HDF5 1.10 (2016) a file has checksums of all but the arrays, and of these where they are compressed.
    with h5py.File(path, "w", libver="v110") as file:
        node = file.create_dataset(key or "image", data=array, compression="gzip", compression_opts=1)
        if place.spacing_known:
            node.attrs["affine"] = place.affine


def _node(file: Any, key: str, path: Path) -> tuple[Any, bool]:  # noqa: ANN401 - h5py has no types
    arrays = [name for name in file if isinstance(file[name], h5py.Dataset)]
    transposed = key.endswith(TRANSPOSED) and key not in arrays
    name = key.removesuffix(TRANSPOSED) if transposed else key
    if not name:
        name = arrays[0] if len(arrays) == 1 else "image"
    if name not in arrays:
        raise MixsegError(
            f"{path} holds no array '{name}' (it holds {', '.join(arrays) or 'none'}): name one of these.",
            "array-missing",
            file=path,
            array=name,
        )
    return file[name], transposed


def _geometry(node: Any, *, transposed: bool, path: Path) -> Geometry:  # noqa: ANN401 - h5py has no types
    shape = tuple(int(size) for size in node.shape)
    if len(shape) not in (2, 3):
        raise MixsegError(
            f"Array '{node.name}' of {path} has {len(shape)} axes: save 2D slices or 3D scans.",
            "wrong-axes",
            file=path,
            array=node.name,
            axes=len(shape),
        )
    i, j, k = (*(shape[::-1] if transposed else shape), 1)[:3]
    if "affine" in node.attrs:
        return Geometry((i, j, k), np.asarray(node.attrs["affine"], dtype=np.float64))
    return Geometry((i, j, k), np.eye(4), spacing_known=False)
