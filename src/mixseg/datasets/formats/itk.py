"""NRRD, MetaImage and flat pictures through SimpleITK; its LPS geometry becomes RAS+."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import SimpleITK
from numpy.typing import NDArray

from mixseg.core.errors import MixsegError
from mixseg.core.types import Volume
from mixseg.datasets.formats.base import grey
from mixseg.datasets.formats.geometry import Geometry

sitk: Any = SimpleITK  # its functions have no types

VOLUMES = (".nrrd", ".nhdr", ".mha", ".mhd")

PICTURES = (".png", ".bmp", ".tif", ".tiff", ".jpg", ".jpeg")
"""Formats without a voxel size: whatever resolution they hold is a printer's."""

LPS_TO_RAS = np.diag([-1.0, -1.0, 1.0, 1.0])

sitk.ProcessObject.SetGlobalWarningDisplay(False)  # what matters is raised; the rest would tear progress bars


def read(path: Path, key: str = "") -> Volume:
    """The voxels, transposed from SimpleITK's (K, J, I) to (I, J, K)."""
    image = sitk.ReadImage(str(path))
    place = place_of(image, path)
    array = sitk.GetArrayFromImage(image)
    if image.GetNumberOfComponentsPerPixel() > 1:
        array = grey(array, path)
    return Volume(array.T.reshape(place.shape), place.affine, place.spacing_known)


def geometry(path: Path, key: str = "") -> Geometry:
    """The geometry, from the header alone."""
    return place_of(header(path), path)


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

    If ``like`` is a volume that SimpleITK reads, its origin, spacing and direction are copied without arithmetic.
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
    source = header(like) if like is not None and like.suffix.lower() in VOLUMES else None
    if source is not None and source.GetDimension() == image.GetDimension():
        image.SetSpacing(source.GetSpacing())
        image.SetOrigin(source.GetOrigin())
        image.SetDirection(source.GetDirection())
        return
    lps = LPS_TO_RAS @ place.affine
    image.SetSpacing(place.spacing)
    image.SetOrigin(lps[:3, 3].tolist())
    image.SetDirection((lps[:3, :3] / np.array(place.spacing)).ravel().tolist())


def place_of(image: Any, path: Path) -> Geometry:  # noqa: ANN401 - an image or a reader: both answer alike
    """The geometry of a SimpleITK image or of a reader that has read its header."""
    size = tuple(int(n) for n in image.GetSize())
    if any(n != 1 for n in size[3:]):
        raise MixsegError(
            f"{path} holds {len(size)} axes of sizes {size}: save each 3D scan as a file of its own.",
            "wrong-axes",
            file=path,
            axes=len(size),
        )
    i, j, k = (*size[:3], 1)[:3]
    if path.suffix.lower() in PICTURES:
        return Geometry((i, j, k), np.eye(4), spacing_known=False)
    axes = min(len(size), 3)
    direction = np.array(image.GetDirection()).reshape(len(size), len(size))[:axes, :axes]
    lps = np.eye(4)
    lps[:axes, :axes] = direction * np.array(image.GetSpacing())[:axes]
    lps[:axes, 3] = image.GetOrigin()[:axes]
    return Geometry((i, j, k), LPS_TO_RAS @ lps + 0.0)  # + 0.0: minus zero becomes zero
