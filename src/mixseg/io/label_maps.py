"""Label maps from files: the ids that are stored, or the class indices that they mean."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mixseg.errors import MixsegError
from mixseg.io.volumes import as_source, read, segment_names
from mixseg.types import Source, Volume


def read_ids(source: Source | Path) -> Volume:
    """A label map as it is stored, with an integer type: nan and fractions are refused."""
    volume = read(source)
    array = volume.array
    path = as_source(source).path
    if array.dtype.kind in "ui":
        return volume
    if array.dtype.kind == "b":
        return Volume(array.astype(np.uint8), volume.affine, volume.spacing_known)
    if array.dtype.kind != "f":
        raise MixsegError(f"{path} holds {array.dtype} instead of label ids: export the mask again as integers.")
    values = array.astype(np.float64)
    if not np.isfinite(values).all():
        share = 1 - float(np.isfinite(values).mean())
        raise MixsegError(f"{path} holds nan or inf in {share:.3g} of its voxels: export the mask again as integers.")
    whole = np.rint(values)
    if (values != whole).any():
        wrong = float(values[values != whole][0])
        raise MixsegError(
            f"{path} holds {wrong:g}, which is no label id: export the mask again as integers, unsmoothed."
        )
    return Volume(whole.astype(np.int32), volume.affine, volume.spacing_known)


def read_labels(source: Source) -> Volume:
    """Class indices (uint8, IGNORE where unlabelled), translated by ``source.ids``."""
    if source.ids is None:
        raise ValueError(f"{source.path} is not a label source: it has no ids.")
    volume = read_ids(source)
    present, where = _compact(volume.array)
    unknown = [value for value in present if value not in source.ids]
    if unknown:
        names = segment_names(source.path)
        called = ", ".join(names.get(value, str(value)) for value in unknown[:8])
        raise MixsegError(
            f"{source.path} holds the undeclared label {called} (declared: {_listed(sorted(source.ids))}): "
            "declare it as a class, or say with --unlabelled or --background what it means."
        )
    table = np.array([source.ids[value] for value in present], dtype=np.uint8)
    return Volume(table[where], volume.affine, volume.spacing_known)


def count_ids(source: Source | Path) -> dict[int, int]:
    """Label id -> how many voxels hold it."""
    present, where = _compact(read_ids(source).array)
    return dict(zip(present, np.bincount(where.ravel(), minlength=len(present)).tolist(), strict=True))


def _compact(array: NDArray[np.generic]) -> tuple[list[int], NDArray[np.intp]]:
    """The values that occur, and for each voxel which of them it holds."""
    low, high = int(array.min(initial=0)), int(array.max(initial=0))
    if high - low > np.iinfo(np.uint16).max:
        values, where = np.unique(array, return_inverse=True)
        return [int(value) for value in values], where.reshape(array.shape)
    # Counting is an order of magnitude faster than sorting, and label ids are small.
    shifted = array.astype(np.intp) - low
    present = np.flatnonzero(np.bincount(shifted.ravel(), minlength=high - low + 1))
    table = np.zeros(high - low + 1, dtype=np.intp)
    table[present] = np.arange(len(present))
    return [int(value) + low for value in present], table[shifted]


def _listed(values: list[int]) -> str:
    return ", ".join(str(value) for value in values[:8]) + (", ..." if len(values) > 8 else "")
