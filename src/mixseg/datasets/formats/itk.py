"""Flat pictures through SimpleITK, and NRRD and MetaImage written with it; its LPS geometry becomes RAS+."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import SimpleITK
from numpy.typing import NDArray

from mixseg.core.errors import MixsegError
from mixseg.core.types import Volume
from mixseg.datasets.formats import metaimage
from mixseg.datasets.formats.base import LPS_TO_RAS, META, PICTURES, check_size, checked_axes, grey
from mixseg.datasets.formats.compressed import EXPANSION
from mixseg.datasets.formats.geometry import Geometry

sitk: Any = SimpleITK  # its functions have no types

PNG = b"\x89PNG\r\n\x1a\n"
LONGEST_VALUE = {".tif": 8, ".tiff": 8}
"""Bytes of one value of a pixel; 2 in the other formats."""
TIGHTEST = 8
"""How many times tighter than deflate a picture may be: of an even grey, say."""

sitk.ProcessObject.SetGlobalWarningDisplay(False)  # what matters is raised; the rest would tear progress bars


def read(path: Path, key: str = "") -> Volume:
    """The pixels, transposed from SimpleITK's (J, I) to (I, J)."""
    if path.suffix.lower() == ".png":
        _check_chunks(path)
    place = geometry(path)
    image = sitk.ReadImage(str(path))
    array = sitk.GetArrayFromImage(image)
    if image.GetNumberOfComponentsPerPixel() > 1:
        array = grey(array, path)
    return Volume(array.T.reshape(place.shape), place.affine, place.spacing_known)


def geometry(path: Path, key: str = "") -> Geometry:
    """The size, from the header alone: pictures have no other geometry."""
    reader = header(path)
    shape = checked_axes([int(n) for n in reader.GetSize()], path)
    values = prod(shape) * int(reader.GetNumberOfComponents())
    longest = LONGEST_VALUE.get(path.suffix.lower(), 2)
    check_size(path, values * longest, path.stat().st_size * EXPANSION * TIGHTEST)
    return Geometry(shape, np.eye(4), spacing_known=False)


def _check_chunks(path: Path) -> None:
    """Nothing, if a PNG is whole and the checksum of each of its parts is right: the library reads on without.

    Raises:
        ValueError: If it is not.
    """
    with path.open("rb") as file:
        kind = b"" if file.read(len(PNG)) == PNG else b"IEND"
        while kind != b"IEND":
            length = int.from_bytes(file.read(4), "big")
            kind = file.read(4)
            content, checksum = file.read(length), file.read(4)
            if len(checksum) < 4 or int.from_bytes(checksum, "big") != zlib.crc32(content, zlib.crc32(kind)):
                raise ValueError("a part is damaged")


def header(path: Path) -> Any:  # noqa: ANN401 - SimpleITK has no types
    """A reader that has read what precedes the voxels: size, geometry, meta data."""
    reader = sitk.ImageFileReader()
    reader.SetFileName(str(path))
    reader.ReadImageInformation()
    return reader


def write(
    path: Path,
    array: NDArray[np.generic],
    place: Geometry,
    like: Path | None = None,
    meta: dict[str, str] | None = None,
) -> None:
    """Write ``array`` with its geometry and meta data; pictures hold neither.

    If ``like`` is a MetaImage, its origin, spacing and direction are copied without arithmetic.
    """
    if path.suffix.lower() in PICTURES:
        if array.shape[2] != 1:
            raise MixsegError(
                f"{path} can hold one slice, not {array.shape[2]}: write .nii.gz, .nrrd or .mha.",
                "several-slices",
                file=path,
                slices=array.shape[2],
            )
        image = sitk.GetImageFromArray(np.ascontiguousarray(array[:, :, 0].T))
    else:
        image = sitk.GetImageFromArray(np.ascontiguousarray(array.T))
        _put(image, place, like)
    _save(image, path, meta or {})


def write_layers(
    path: Path, layers: Sequence[NDArray[np.generic]], place: Geometry, like: Path | None, meta: dict[str, str]
) -> None:
    """Write arrays that lie in one place to one NRRD file, as Slicer has segments that overlap."""
    image = sitk.GetImageFromArray(np.ascontiguousarray(np.stack([each.T for each in layers], axis=-1)), isVector=True)
    _put(image, place, like)
    _save(image, path, meta)
    # The layers are the components of a vector to ITK, and a list to Slicer and those who read what it writes.
    head, end, voxels = path.read_bytes().partition(b"\n\n")
    path.write_bytes(head.replace(b"\nkinds: vector ", b"\nkinds: list ", 1) + end + voxels)


def _save(image: Any, path: Path, meta: dict[str, str]) -> None:  # noqa: ANN401 - SimpleITK has no types
    for name, value in meta.items():
        image.SetMetaData(name, value)
    sitk.WriteImage(image, str(path), useCompression=True)


def _put(image: Any, place: Geometry, like: Path | None) -> None:  # noqa: ANN401 - SimpleITK has no types
    said = metaimage.place_said(like) if like is not None and like.suffix.lower() in META else None
    if said is not None and len(said.spacing) == image.GetDimension():
        image.SetSpacing(said.spacing)
        image.SetOrigin(said.origin)
        image.SetDirection(said.direction)
        return
    lps = LPS_TO_RAS @ place.affine
    image.SetSpacing(place.spacing)
    image.SetOrigin(lps[:3, 3].tolist())
    image.SetDirection((lps[:3, :3] / np.array(place.spacing)).ravel().tolist())
