"""Label maps from files: the ids that are stored, or the class indices that they mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mixseg.core.errors import MixsegError, listed
from mixseg.core.types import Layer, Source, Volume
from mixseg.datasets.formats.base import SEGMENTS, suffix
from mixseg.datasets.formats.geometry import Geometry, same_geometry
from mixseg.datasets.formats.volumes import (
    as_source,
    not_finite,
    read,
    read_geometry,
    read_painted,
    segment_names,
)

WIDE = 2**16
"""A range of ids from which on a table with a place for each is larger than a slice."""

ROUNDING = 1e-4
"""How far from a whole number an id may be: a scale in the header, such as 1/255, is rounded to single precision."""


def read_ids(source: Source | Path) -> Volume:
    """A label map as it is stored, with an integer type: nan and fractions are refused."""
    if isinstance(source, Source) and source.layers:
        return compose(source.layers)
    volume = read(source)
    array = volume.array
    path = as_source(source).path
    if array.dtype.kind in "ui":
        return volume
    if array.dtype.kind == "b":
        return Volume(array.astype(np.uint8), volume.affine, volume.spacing_known)
    if array.dtype.kind != "f":
        raise MixsegError(
            f"{path} holds {array.dtype} instead of label ids: export the mask again as integers.",
            "not-label-ids",
            file=path,
            dtype=str(array.dtype),
        )
    where = not_finite(array)
    if where:
        raise MixsegError(
            f"{path} holds nan or inf in {where} voxels: export the mask again as integers.", "not-finite", file=path
        )
    values = array.astype(np.float64)
    whole = np.rint(values)
    fraction = np.abs(values - whole) > ROUNDING
    if fraction.any():
        raise MixsegError(
            f"{path} holds {array[fraction][0]!s}, which is no label id: "
            "export the mask again as integers, unsmoothed.",
            "not-label-ids",
            file=path,
            value=float(array[fraction][0]),
        )
    return Volume(whole.astype(np.int32), volume.affine, volume.spacing_known)


def compose(layers: Sequence[Layer]) -> Volume:
    """One label map from structures: 1 where the first of them is, 2 where the second is and not the first, ...

    Raises:
        MixsegError: A file cannot be read, or lies elsewhere than the first.
    """
    uses = Counter(layer.file for layer in layers)
    opened: dict[Path, tuple[Geometry, Callable[[int], NDArray[np.bool_]]]] = {}
    result, place = np.empty(0), None
    for number, layer in reversed(list(enumerate(layers, start=1))):
        here, where = opened.pop(layer.file) if layer.file in opened else _structures(layer)
        if uses[layer.file] > 1:  # a file of one structure, of which there may be a hundred, is not kept
            opened[layer.file] = here, where
        if place is None:
            place, result = here, np.zeros(here.shape, np.uint16)
        elif difference := same_geometry(place, here):
            raise MixsegError(
                f"{layer.file} and {layers[-1].file} are structures of one scan and do not cover each other, "
                f"{difference}: export them on one grid.",
                "geometry-differs",
                file=layer.file,
                other=layers[-1].file,
            )
        result[where(layer.value)] = number
    assert place is not None, "there is a layer"
    return Volume(result, place.affine, place.spacing_known)


def count_layers(layers: Sequence[Layer]) -> list[int]:
    """How many voxels each structure has, whether or not another one covers them too.

    Raises:
        MixsegError: A file cannot be read.
    """
    counts: dict[Layer, int] = {}
    for path, one in {layer.file: layer for layer in layers}.items():
        _, where = _structures(one)
        counts |= {layer: int(where(layer.value).sum()) for layer in layers if layer.file == path}
    return [counts[layer] for layer in layers]


def count_shared(layers: Sequence[Layer]) -> dict[tuple[int, int], int]:
    """How many voxels two structures share, by their places in ``layers``; of one with itself, how many it has.

    Raises:
        MixsegError: A file cannot be read.
    """
    opened = {layer.file: _structures(layer)[1] for layer in {layer.file: layer for layer in layers}.values()}
    masks = [opened[layer.file](layer.value) for layer in layers]
    found = {}
    for i, one in enumerate(masks):
        for j, other in enumerate(masks[: i + 1]):
            found[i, j] = found[j, i] = int(np.count_nonzero(one & other)) if one.shape == other.shape else 0
    return found


def _structures(one: Layer) -> tuple[Geometry, Callable[[int], NDArray[np.bool_]]]:
    """The place of the file of a layer, and where each of its structures is, whether or not they overlap."""
    if one.grid:
        from mixseg.datasets.formats import dicom

        frames = dicom.Painted(one.file, read_geometry(Source(one.grid)))
        return frames.place, frames.of
    if suffix(one.file) in SEGMENTS:
        painted = read_painted(one.file)
        return painted.place, lambda number: painted.upright(painted.of(number)).astype(bool)
    volume = read_ids(one.file)
    return Geometry.of(volume), lambda value: np.asarray(volume.array == value)


def read_labels(source: Source) -> Volume:
    """Class indices (uint8, IGNORE where unlabeled), translated by ``source.ids``."""
    if source.ids is None:
        raise ValueError(f"{source.path} is not a label source: it has no ids.")
    volume = read_ids(source)
    unknown = sorted(set(_count(volume.array)) - set(source.ids))
    if unknown:
        names = segment_names(source.path)
        called = listed([names.get(value, value) for value in unknown], most=8)
        if names:  # what the numbers of segments mean is said by their names, and by no flag
            remedy = ": give the segment the name of a class, declare it as one in dataset.json, or remove it."
        else:
            remedy = (
                f" (declared: {listed(sorted(source.ids), most=8)}): "
                "declare it as a class, or say with --unlabeled or --background what it means."
            )
        raise MixsegError(
            f"{source.path} holds the undeclared label {called}{remedy}",
            "undeclared-label",
            file=source.path,
            labels=unknown,
        )
    return Volume(_translate(volume.array, source.ids), volume.affine, volume.spacing_known)


def count_ids(source: Source | Path) -> dict[int, int]:
    """Label id -> how many voxels hold it."""
    return _count(read_ids(source).array)


def _count(array: NDArray[np.generic]) -> dict[int, int]:
    """Value -> how often it occurs. Slice by slice: counting needs 8 bytes a voxel beside the array."""
    low, high = int(array.min()), int(array.max())
    counts: Counter[int] = Counter()
    for index in range(array.shape[2]):
        one = array[..., index].astype(np.int64).ravel()
        if high - low > WIDE:
            values, numbers = np.unique(one, return_counts=True)
        else:  # an order of magnitude faster than sorting, and label ids are small
            numbers = np.bincount(one - low)
            values = np.flatnonzero(numbers)
            numbers, values = numbers[values], values + low
        counts.update(dict(zip(values.tolist(), numbers.tolist(), strict=True)))
    return dict(sorted(counts.items()))


def _translate(array: NDArray[np.generic], ids: Mapping[int, int]) -> NDArray[np.uint8]:
    """Each value replaced by its class index; every value must be in ``ids``."""
    known = np.array(sorted(ids), dtype=np.int64)
    meaning = np.array([ids[int(value)] for value in known], dtype=np.uint8)
    result = np.empty_like(array, dtype=np.uint8)
    for index in range(array.shape[2]):
        result[..., index] = meaning[np.searchsorted(known, array[..., index])]
    return result
