"""What a DICOM file says of its frames: where they lie, how large they are, what their numbers mean.

Read with pydicom, in Python: a header that lies ends in an exception, and the positions of all frames of a multi-frame
file are there, which SimpleITK keeps to itself. Of who was scanned nothing is kept; UIDs are compared and forgotten.
"""

from __future__ import annotations

import math
import warnings
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from mixseg.core.errors import MixsegError
from mixseg.datasets.formats.base import reading

SEGMENTATIONS = ("1.2.840.10008.5.1.4.1.1.66.4", "1.2.840.10008.5.1.4.1.1.66.7")
"""The classes of segmentations and of label map segmentations."""

PIXELS, FLOAT_PIXELS = 0x7FE00010, (0x7FE00008, 0x7FE00009)
"""The tags of the pixels."""

GREY = ("MONOCHROME1", "MONOCHROME2")

Three = tuple[float, float, float]


class Frame(NamedTuple):
    """One slice of a file.

    Attributes:
        file: Where it lies.
        number: Its place in the file.
        rows: Its height in pixels.
        columns: Its width.
        position: Of the middle of its first pixel, in mm to the left, the back and the head; None if not said.
        along_row: The direction in which the columns count up.
        along_column: That in which the rows count up.
        spacing: Between columns and between rows, in mm; None if not said.
        thickness: The distance to the next slice in mm, as far as one slice knows; 0 if not said.
        scale: Stored value -> grey value: slope and intercept.
        segment: Of a segmentation: whose voxels they are.
    """

    file: Path
    number: int
    rows: int
    columns: int
    position: Three | None
    along_row: Three
    along_column: Three
    spacing: tuple[float, float] | None
    thickness: float
    scale: tuple[float, float]
    segment: int = 0


class Header(NamedTuple):
    """What a file says before its pixels.

    Attributes:
        file: Where it was read.
        modality: "CT", "MR", "SEG", ...; "" if not said.
        series_number: Of its series in the study; None if not said.
        patient: Who was scanned: compared with that of other files and never kept, as are the three that follow.
        study: The visit that the file belongs to.
        series: The series that the file belongs to.
        about: Of a segmentation: the series that it was drawn on.
        grey: Whether a pixel is one grey value, no colour.
        inverted: Whether small stored values are shown bright.
        localizer: Whether it is an overview from which slices are planned.
        mosaic: Whether slices lie beside each other in one picture.
        bits: How many of them hold a value, and whether the value has a sign; (0, True) for fractions.
        frames: Its slices; nothing in a file that holds none, such as a report.
    """

    file: Path
    modality: str
    series_number: int | None
    patient: str
    study: str
    series: str
    about: tuple[str, ...]
    grey: bool
    inverted: bool
    localizer: bool
    mosaic: bool
    bits: tuple[int, bool]
    frames: tuple[Frame, ...]

    @property
    def is_segmentation(self) -> bool:
        """Whether the frames are painted structures instead of grey values."""
        return self.modality == "SEG"


@cache
def _library() -> Any:  # noqa: ANN401 - a module
    """Imported when a file needs it, as every library of a format is."""
    import pydicom

    pydicom.config.settings.reading_validation_mode = pydicom.config.IGNORE  # archives are full of overlong values
    warnings.filterwarnings("ignore", module="pydicom")  # what matters is raised; the rest would tear progress bars
    return pydicom


def parsed(path: Path, *, pixels: bool = False) -> Any:  # noqa: ANN401 - a pydicom dataset, whose elements have no types
    """The elements of a file, with or without those of its pixels.

    Raises:
        MixsegError: It is no DICOM file, or a damaged one.
    """
    with reading(path):
        try:
            with path.open("rb") as file:
                return _library().filereader.read_partial(file, stop_when=partial(_ends, pixels=pixels))
        except _library().errors.InvalidDicomError as error:
            raise MixsegError(
                f"{path} does not begin as a DICOM file does, although it is called like one: take it out of the "
                "folder, or export it again.",
                "not-dicom",
                file=path,
            ) from error


def _ends(tag: int, _kind: str | None, _length: int, *, pixels: bool) -> bool:
    """Whether nothing is of use from this element on: what comes after the pixels, be it megabytes of zeros."""
    return tag >> 16 == 0 or tag > PIXELS or (not pixels and tag in (PIXELS, *FLOAT_PIXELS))


def read_header(path: Path) -> Header:
    """What ``path`` says before its pixels.

    Raises:
        MixsegError: It is no DICOM file, or a damaged one.
    """
    return header_of(parsed(path), path)


def header_of(data: Any, path: Path) -> Header:  # noqa: ANN401 - a pydicom dataset
    """What the elements of a file that was parsed say.

    Raises:
        MixsegError: They are damaged, which is found when they are converted.
    """
    with reading(path):
        return _header(data, path)


def _header(data: Any, path: Path) -> Header:  # noqa: ANN401
    number, bits = data.get("SeriesNumber"), int(data.get("BitsStored") or 0)
    kind = _library().uid.UID(data.get("SOPClassUID") or data.file_meta.MediaStorageSOPClassUID)
    of_slices = "Image Storage" in kind.name or kind in SEGMENTATIONS or kind.is_private
    if of_slices and not (data.get("Rows") and data.get("Columns")):
        raise ValueError("it ends before its slices")
    about_pixels = data.get("ImageType") or ()
    return Header(
        file=path,
        modality="SEG" if kind in SEGMENTATIONS else str(data.get("Modality") or ""),
        series_number=None if number is None else int(number),
        patient=str(data.get("PatientID") or ""),
        study=str(data.get("StudyInstanceUID") or ""),
        series=str(data.get("SeriesInstanceUID") or ""),
        about=tuple(str(each.get("SeriesInstanceUID")) for each in data.get("ReferencedSeriesSequence") or ()),
        grey=int(data.get("SamplesPerPixel") or 1) == 1 and data.get("PhotometricInterpretation", GREY[0]) in GREY,
        inverted=data.get("PhotometricInterpretation") == GREY[0],
        localizer="LOCALIZER" in about_pixels,
        mosaic="MOSAIC" in about_pixels,
        bits=(bits if 0 < bits <= 32 else 0, bool(data.get("PixelRepresentation") or 0)),
        frames=tuple(_frames(data, path)) if of_slices else (),
    )


def _frames(data: Any, path: Path) -> list[Frame]:  # noqa: ANN401
    """Those of a file of one slice, or of several, whose places are in groups shared by all and groups of each."""
    shared = [*(data.get("SharedFunctionalGroupsSequence") or ())][:1]
    groups = [*(data.get("PerFrameFunctionalGroupsSequence") or ())]
    count = int(data.get("NumberOfFrames") or 1)
    if groups and len(groups) != count:
        raise ValueError(f"{count} frames, {len(groups)} groups")
    if not groups:  # several frames without groups lie nowhere: films, as those of ultrasound
        return [_frame(data, [data] if count == 1 else [], path, 0)]
    return [_frame(data, [group, *shared, data], path, index) for index, group in enumerate(groups)]


def _frame(data: Any, places: list[Any], path: Path, number: int) -> Frame:  # noqa: ANN401
    directions = _numbers(places, "PlaneOrientationSequence", "ImageOrientationPatient", 6)
    position = _numbers(places, "PlanePositionSequence", "ImagePositionPatient", 3)
    spacing = _numbers(places, "PixelMeasuresSequence", "PixelSpacing", 2) or _numbers(
        places, "PixelMeasuresSequence", "ImagerPixelSpacing", 2
    )
    gap, thickness, slope, intercept = (
        _numbers(places, sequence, name, 1)
        for sequence, name in (
            ("PixelMeasuresSequence", "SpacingBetweenSlices"),
            ("PixelMeasuresSequence", "SliceThickness"),
            ("PixelValueTransformationSequence", "RescaleSlope"),
            ("PixelValueTransformationSequence", "RescaleIntercept"),
        )
    )
    row, column = (directions[:3], directions[3:]) if directions else ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0))
    return Frame(
        file=path,
        number=number,
        rows=int(data.Rows),
        columns=int(data.Columns),
        position=(position[0], position[1], position[2]) if position and directions else None,
        along_row=(row[0], row[1], row[2]),
        along_column=(column[0], column[1], column[2]),
        spacing=(spacing[1], spacing[0]) if spacing else None,
        thickness=abs((gap or thickness or (0.0,))[0]),
        scale=(slope[0] if slope else 1.0, intercept[0] if intercept else 0.0),
        segment=_segment(places),
    )


def _numbers(places: list[Any], sequence: str, name: str, count: int) -> tuple[float, ...] | None:
    """The numbers of the first place that has them, in a group of the name ``sequence`` or by themselves."""
    for place in places:
        inner = [*(place.get(sequence) or ())][:1]
        value = (inner[0] if inner else place).get(name)
        if value is None or value == "":
            continue
        numbers = tuple(float(each) for each in (value if count > 1 else [value]))
        if len(numbers) != count or not all(map(math.isfinite, numbers)):
            raise ValueError(f"{name} holds {numbers}")
        return numbers
    return None


def _segment(places: list[Any]) -> int:
    """The number of the segment whose voxels a frame holds; 0 where none is said."""
    for place in places:
        for inner in place.get("SegmentIdentificationSequence") or ():
            return int(inner.ReferencedSegmentNumber)
    return 0
