"""Volume <-> files, whatever their format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from mixseg.core.errors import MixsegError
from mixseg.core.files import replacing
from mixseg.core.types import Source, Volume
from mixseg.datasets.formats.base import HDF5, ITK, NIFTI, SEGMENTS, Format, format_of, is_dicom, reading, suffix
from mixseg.datasets.formats.geometry import Geometry

if TYPE_CHECKING:  # SimpleITK takes a fifth of a second
    from mixseg.datasets.formats.segments import Painted, Segment

Read = TypeVar("Read", Volume, Geometry)

WRITABLE = (*NIFTI, *SEGMENTS, ".nrrd", ".mha", ".png", *HDF5)


def read(source: Source | Path) -> Volume:
    """The voxels as they are stored, with their place in space; several files are stacked along the last axis."""
    volumes = _each_file(as_source(source), lambda format_: format_.read)
    # One file is not copied.
    array = np.concatenate([volume.array for volume in volumes], axis=2) if len(volumes) > 1 else volumes[0].array
    # Arrays of the other byte order are refused by torch, which would be far from here.
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    return Volume(array, volumes[0].affine, volumes[0].spacing_known)


def read_image(source: Source | Path) -> Volume:
    """An image as it is stored: what is no number, nan and infinities are refused.

    As nnU-Net refuses them: whatever took their place here would be a grey value that nobody has measured.
    """
    volume = read(source)
    array, path = volume.array, as_source(source).path
    if array.dtype.kind not in "biuf":
        raise MixsegError(
            f"{path} holds {array.dtype} instead of grey values: export it again as plain numbers.",
            "not-grey-values",
            file=path,
            dtype=str(array.dtype),
        )
    with np.errstate(over="ignore"):  # what single precision cannot hold is infinite to all that follows
        where = not_finite(array.astype(np.float32, copy=False)) if array.dtype.kind == "f" else ""
    if where:
        raise MixsegError(
            f"{path} holds nan or inf in {where} voxels: export the image again, or replace them, by 0 for example.",
            "not-finite",
            file=path,
        )
    return volume


def not_finite(array: NDArray[np.generic]) -> str:
    """Which voxels are nan or infinite, for a sentence: "3 of its 64"; "" if all are numbers."""
    count = int((~np.isfinite(array)).sum())
    if not count:
        return ""
    return "all of its" if count == array.size else f"{count} of its {array.size}"


def read_geometry(source: Source | Path) -> Geometry:
    """Shape, affine and whether the spacing is known, from the headers alone."""
    places = _each_file(as_source(source), lambda format_: format_.geometry)
    i, j, _ = places[0].shape
    return Geometry((i, j, sum(place.shape[2] for place in places)), places[0].affine, places[0].spacing_known)


def _each_file(source: Source, reader: Callable[[Format], Callable[[Path, str], Read]]) -> list[Read]:
    """What a reader of its format makes of each file; those of no place in space, or of several sizes, are refused."""
    if is_dicom(source.path):  # the files of a series are one volume
        return [_of_series(source, reader)]
    found: list[Read] = []
    for path in source.files[:1] if source.layers else source.files:  # layers lie on each other, not in a row
        with reading(path):
            found.append(reader(format_of(path))(path, source.key))
        _valid(Geometry.of(found[-1]), path)
    _stackable([Geometry.of(each) for each in found], source)
    return found


def _of_series(source: Source, reader: Callable[[Format], Callable[[Path, str], Read]]) -> Read:
    from mixseg.datasets.formats import dicom

    found = reader(dicom.Series(source))(source.path, source.key)
    _valid(Geometry.of(found), source.path)
    return found


def write(
    path: Path,
    array: NDArray[np.generic],
    *,
    like: Source | Path | None = None,
    affine: NDArray[np.float64] | None = None,
    names: Mapping[int, str] | None = None,
    colours: Mapping[int, str] | None = None,
    inside: Mapping[int, int] | None = None,
    key: str = "",
) -> None:
    """Write an array with the exact geometry of ``like``, or with ``affine``; the file is whole or absent.

    Args:
        path: Its suffix chooses the format.
        array: ``(I, J, K)`` or ``(I, J)``.
        like: The scan whose place in space the array shares; a NIfTI header is carried over to NIfTI bit for bit.
        affine: Voxel index to mm (RAS+), where there is no scan to be like.
        names: For .seg.nrrd: id -> name of the segment.
        colours: Likewise: id -> "#RRGGBB"; those of our figures where none is given.
        inside: Likewise: id -> the id of the segment that gets its voxels too.
        key: For h5: the name of the array.
    """
    ending = suffix(path)
    if ending not in WRITABLE:
        raise MixsegError(
            f"{path} cannot be written: choose a name that ends in one of {', '.join(WRITABLE)}.",
            "unknown-format",
            file=path,
        )
    array = _storable(array if array.ndim == 3 else array[..., None])
    place, original = _place(array, like, affine)
    with replacing(path) as temporary:
        if ending in NIFTI:
            from mixseg.datasets.formats import nifti

            nifti.write(temporary, array, place, original)
        elif ending in SEGMENTS:
            from mixseg.datasets.formats import segment_writer

            about = segment_writer.About(names or {}, colours or {}, inside or {})
            segment_writer.write(temporary, array, place, original, about)
        elif ending in ITK:
            from mixseg.datasets.formats import itk

            itk.write(temporary, array, place, original)
        else:
            from mixseg.datasets.formats import hdf5

            hdf5.write(temporary, array, place, key)


def read_segments(path: Path) -> dict[int, Segment]:
    """Label id, as ``read`` gives it, -> name, colour and status of a segment; nothing for a file without segments."""
    if is_dicom(path):
        from mixseg.datasets.formats import dicom

        return dict(enumerate(dicom.segments(path), start=1))
    if suffix(path) not in SEGMENTS:
        return {}
    from mixseg.datasets.formats import segments

    with reading(path):
        return dict(enumerate(segments.segments(path), start=1))


def read_painted(path: Path) -> Painted:
    """The voxels of a .seg.nrrd, segment by segment, which may overlap."""
    from mixseg.datasets.formats import segments

    with reading(path):
        return segments.Painted(path)


def segment_names(path: Path) -> dict[int, str]:
    """Label id -> name of a segment."""
    return {number: segment.name for number, segment in read_segments(path).items()}


def h5_keys(path: Path) -> tuple[str, ...]:
    """The names of the arrays in an h5 file."""
    from mixseg.datasets.formats import hdf5

    with reading(path):
        return hdf5.keys(path)


def as_source(source: Source | Path) -> Source:
    """A path as the source of the one array in it."""
    return source if isinstance(source, Source) else Source((source,))


def _place(
    array: NDArray[np.generic], like: Source | Path | None, affine: NDArray[np.float64] | None
) -> tuple[Geometry, Path | None]:
    """The geometry to write, and the one file to copy a header from, if there is one."""
    i, j, k = array.shape
    if like is None:
        return Geometry((i, j, k), np.eye(4) if affine is None else affine, affine is not None), None
    place, source = read_geometry(like), as_source(like)
    if place.shape != array.shape:
        raise ValueError(f"An array of {array.shape} cannot lie like {source.path}, which has {place.shape}.")
    return place, source.path if len(source.files) == 1 else None


def _storable(array: NDArray[np.generic]) -> NDArray[np.generic]:
    """The same numbers in a type that every format can hold."""
    if array.dtype.kind == "b":
        return array.astype(np.uint8)
    if array.dtype.kind in "ui" and array.dtype.itemsize == 8:
        return array.astype(np.int32)
    return array.astype(np.float32) if array.dtype == np.float16 else array


def _valid(place: Geometry, path: Path) -> None:
    if 0 in place.shape:
        raise MixsegError(f"{path} holds no voxels (size {place.shape}): export it again.", "no-voxels", file=path)
    if not np.isfinite(place.affine).all() or np.linalg.matrix_rank(place.affine[:3, :3]) < 3:
        raise MixsegError(
            f"The header of {path} gives no valid voxel size and direction: export it again.",
            "invalid-geometry",
            file=path,
        )


def _stackable(places: list[Geometry], source: Source) -> None:
    for path, place in zip(source.files, places, strict=True):
        if place.shape[:2] != places[0].shape[:2]:
            raise MixsegError(
                f"Slice {path} has {place.shape[0]} x {place.shape[1]} pixels, but {source.path} has "
                f"{places[0].shape[0]} x {places[0].shape[1]}: export the slices of a scan with one size.",
                "slices-differ",
                file=path,
                other=source.path,
            )
