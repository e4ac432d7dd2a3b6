"""NIfTI through nibabel, its reference reader: .nii and .nii.gz."""

from __future__ import annotations

from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
from numpy.lib.recfunctions import structured_to_unstructured
from numpy.typing import NDArray

from mixseg.core.errors import MixsegError
from mixseg.core.types import Volume
from mixseg.datasets.formats.base import check_size, grey
from mixseg.datasets.formats.compressed import EXPANSION, beginning, inflated
from mixseg.datasets.formats.geometry import Geometry

nib: Any = nibabel  # its functions have no types

SUFFIXES = (".nii", ".nii.gz")

LONGEST = 540
"""Bytes of a header: that of NIfTI 2 is the longer one."""
LONGEST_EXTENSIONS = 1 << 26

LABEL_INTENT = 1002
"""NIfTI's code for "the values are labels"."""

UNITS = {1: 1e3, 3: 1e-3}
"""Code of the spatial unit -> mm: meters and microns. Any other code is mm, or says nothing."""


def read(path: Path, key: str = "") -> Volume:
    """The voxels (scaled as the header says) with the affine that nibabel prefers, sform, then qform, in mm."""
    image = _image(path)
    place = _geometry(image, path)
    zipped = path.name.lower().endswith(".gz")
    array: Any = _unzipped(image.dataobj, path) if zipped else np.asanyarray(image.dataobj)
    if array.dtype.names:  # RGB and RGBA voxels are records
        array = grey(structured_to_unstructured(array), path)
    return Volume(array.reshape(place.shape), place.affine, place.spacing_known)


def geometry(path: Path, key: str = "") -> Geometry:
    """The geometry, from the header alone."""
    return _geometry(_image(path), path)


def _image(path: Path) -> Any:  # noqa: ANN401 - nibabel has no types
    """The header and how to come to the voxels, after a check of what the header claims."""
    zipped = path.name.lower().endswith(".gz")
    with path.open("rb") as file:
        start = beginning(file, LONGEST) if zipped else file.read(LONGEST)
    kinds = (nib.Nifti1Image, nib.Nifti2Image)
    kind = next((kind for kind in kinds if kind.header_class.may_contain_header(start)), None)
    if kind is None:
        raise ValueError("no NIfTI")
    header = kind.header_class(start[: kind.header_class.sizeof_hdr], check=False)
    claimed = prod(int(size) for size in header.get_data_shape()) * header.get_data_dtype().itemsize
    skipped = int(header["vox_offset"])
    if not 0 <= skipped <= LONGEST_EXTENSIONS:
        raise ValueError(f"voxels from byte {skipped} on")
    check_size(path, claimed, path.stat().st_size * (EXPANSION if zipped else 1) - skipped)
    if not zipped:
        return nib.load(path, mmap=False)
    with path.open("rb") as file:  # nibabel would look, byte by byte, at all that may follow
        return kind.from_stream(BytesIO(beginning(file, max(skipped, LONGEST))))


def declares_labels(path: Path) -> bool:
    """Whether the intent in the header is that of labels."""
    return int(_image(path).header["intent_code"]) == LABEL_INTENT


def leading(path: Path, voxels: int) -> NDArray[np.generic]:
    """The first slices that hold ``voxels``, or all."""
    image = _image(path)
    shape = _geometry(image, path).shape
    count = max(1, -(-voxels // (shape[0] * shape[1])))
    if path.name.lower().endswith(".gz"):
        array: Any = _unzipped(image.dataobj, path, count)
    else:
        array = np.asanyarray(image.dataobj[..., :count] if len(image.shape) == 3 else image.dataobj)
    if array.dtype.names:
        array = grey(structured_to_unstructured(array), path)
    return np.asarray(array.reshape(*shape[:2], -1))


def _unzipped(voxels: Any, path: Path, slices: int | None = None) -> NDArray[np.generic]:  # noqa: ANN401 - untyped
    """The voxels of a file of gzip, scaled as nibabel scales them, which stops before the checksum at the end.

    Of three axes, the first ``slices`` alone if that many are asked for.
    """
    shape = voxels.shape
    part = slices is not None and len(shape) == 3
    shape = (*shape[:2], min(shape[2], slices or 0)) if part else shape
    length = voxels.offset + prod(shape) * voxels.dtype.itemsize
    with path.open("rb") as file:
        content: Any = beginning(file, length) if part else inflated(file, length)
    if len(content) < length:
        raise EOFError(f"{len(content)} of {length} bytes")
    array: NDArray[np.generic] = np.ndarray(shape, voxels.dtype, memoryview(content), voxels.offset, order="F")
    if (voxels.slope, voxels.inter) == (1, 0):
        return array
    scaled = nib.volumeutils.apply_read_scaling(array, np.float64(voxels.slope), np.float64(voxels.inter))
    return np.asanyarray(scaled)


def write(path: Path, array: NDArray[np.generic], place: Geometry, like: Path | None) -> None:
    """Write ``array``; if ``like`` is a NIfTI file, its sform, qform, codes and units are kept bit for bit."""
    if like is not None and like.name.lower().endswith(SUFFIXES):
        source = _image(like)
        header = source.header.copy()
        header["cal_min"] = header["cal_max"] = 0  # the display window of the image says nothing about a mask
        header.set_data_dtype(array.dtype)
        shape = array.shape[:2] if len(header.get_data_shape()) == 2 else array.shape
        # Without an affine, nibabel leaves the header's own transforms untouched.
        image: Any = type(source)(array.reshape(shape), None, header)
    else:
        code, unit = ("scanner", "mm") if place.spacing_known else ("unknown", "unknown")
        image = nib.Nifti1Image(array, None)
        image.set_sform(place.affine, code=code)
        image.set_qform(place.affine, code=code)
        image.header.set_xyzt_units(unit)
    image.to_filename(path)


def _geometry(image: Any, path: Path) -> Geometry:  # noqa: ANN401 - nibabel has no types
    shape = tuple(int(size) for size in image.shape)
    if len(shape) < 2 or any(size != 1 for size in shape[3:]):
        raise MixsegError(
            f"{path} holds {len(shape)} axes of sizes {shape}: save each 3D scan as a file of its own.",
            "wrong-axes",
            file=path,
            axes=len(shape),
        )
    i, j, k = (*shape[:3], 1)[:3]
    affine = np.array(image.affine, dtype=np.float64)
    affine[:3] *= UNITS.get(int(image.header["xyzt_units"]) % 8, 1.0)  # the other bits are the unit of time
    return Geometry((i, j, k), affine, _spacing_known(image.header))


def _spacing_known(header: Any) -> bool:  # noqa: ANN401 - nibabel has no types
    """False if the header says nothing at all: no transform, no unit, voxels of size 1."""
    coded = header["sform_code"] or header["qform_code"] or header.get_xyzt_units()[0] != "unknown"
    return bool(coded or any(size != 1 for size in header.get_zooms()[:3]))
