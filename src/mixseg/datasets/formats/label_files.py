"""How a finished label map is written: a row a format, asked for by name or taken after its image.

To add a format, write a function that leaves a ``Segmented`` in a file and add a row to ``FORMATS``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from mixseg.core.errors import UsageError
from mixseg.core.types import Labels, Source
from mixseg.datasets.formats.base import suffix
from mixseg.datasets.formats.volumes import write


@dataclass(frozen=True)
class Segmented:
    """A label map with all that a format may keep of it.

    Attributes:
        labels: Class indices on the ``(I, J, K)`` grid of the image.
        classes: Names by index, the background first.
        image: What was segmented: the label map lies where it does.
        inside: Class -> the class that it is a part of, such as a lesion of the liver: whoever shows the outer one
            shows the inner one's voxels too.
    """

    labels: Labels
    classes: Sequence[str]
    image: Source
    inside: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))


def _nothing(_path: Path, _image: Source) -> None:
    """It can be written for any image."""


@dataclass(frozen=True)
class LabelFormat:
    """A row of ``FORMATS``.

    Attributes:
        suffix: Of the label maps' files.
        write: Leaves a label map in a file, which is whole or absent.
        about: One clause for the docs.
        values: The suffix of maps of numbers that lie beside, such as probabilities.
        overlaps: Whether it can hold a structure inside another.
        check: Raises a MixsegError if the label map of an image cannot be written, as is known beforehand.
    """

    suffix: str
    write: Callable[[Path, Segmented], None]
    about: str
    values: str = ".nii.gz"
    overlaps: bool = False
    check: Callable[[Path, Source], None] = _nothing


def write_indices(path: Path, found: Segmented) -> None:
    """Class indices, one a voxel: names and colours do not fit in."""
    write(path, found.labels, like=found.image)


def write_segments(path: Path, found: Segmented) -> None:
    """Segments with names and colours, in layers where one is inside another."""
    names = dict(enumerate(found.classes))
    write(path, found.labels, like=found.image, names=names, inside=found.inside)


def write_dicom(path: Path, found: Segmented) -> None:
    """A DICOM segmentation that refers to the series of the image."""
    from mixseg.datasets.formats.dicom.writer import write_segmentation

    write_segmentation(path, found.labels, found.classes, found.image)


def check_dicom(path: Path, image: Source) -> None:
    """Nothing, if what writes DICOM segmentations is installed and the image is a series that one can refer to."""
    from mixseg.datasets.formats.dicom.writer import check_writable

    check_writable(path, image)


FORMATS: dict[str, LabelFormat] = {
    "nii.gz": LabelFormat(".nii.gz", write_indices, "NIfTI, compressed"),
    "nii": LabelFormat(".nii", write_indices, "NIfTI", ".nii"),
    "seg.nrrd": LabelFormat(
        ".seg.nrrd", write_segments, "a segmentation of 3D Slicer: names, colours, nested structures", ".nrrd", True
    ),
    "nrrd": LabelFormat(".nrrd", write_indices, "NRRD", ".nrrd"),
    "mha": LabelFormat(".mha", write_indices, "MetaImage", ".mha"),
    "png": LabelFormat(".png", write_indices, "a picture of class indices, of one slice"),
    "dicom-seg": LabelFormat(
        ".dcm", write_dicom, "a DICOM segmentation of a DICOM series: names, colours", check=check_dicom
    ),
}

ANY = "nii.gz"
"""What a label map is written in whose image has a type that none of these is like."""

LIKE = {".nii": "nii", ".nrrd": "nrrd", ".nhdr": "nrrd", ".mha": "mha", ".mhd": "mha"}
LIKE |= dict.fromkeys((".png", ".bmp", ".tif", ".tiff", ".jpg", ".jpeg"), "png")
"""The type of an image -> that of its label map."""


def format_like(image: Source) -> str:
    """The name of the format that keeps the file type of an image; slices in files of their own make one volume."""
    return ANY if len(image.files) > 1 else LIKE.get(suffix(image.path), ANY)


def check_holds(name: str, *, nested: Mapping[str, str]) -> None:
    """Nothing, if label maps of this format can say what is asked for.

    Raises:
        UsageError: Structures are nested, and it holds one structure a voxel.
    """
    if nested and not FORMATS[name].overlaps:
        inner, outer = next(iter(nested.items()))
        able = ", ".join(f"--format {each}" for each, row in FORMATS.items() if row.overlaps)
        raise UsageError(
            f"A {name} file has one structure a voxel, so that {outer} cannot include {inner} in it: write {able}, "
            "or leave --nested out.",
            "format-without-overlap",
            format=name,
            inner=inner,
            outer=outer,
        )
