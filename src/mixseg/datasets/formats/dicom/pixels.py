"""The grey values of slices, scaled as their headers say.

Plain pixels and run lengths are read by pydicom; what is compressed otherwise by GDCM, which SimpleITK brings along.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixseg.core.errors import MixsegError
from mixseg.datasets.formats.base import check_size, reading
from mixseg.datasets.formats.dicom.headers import Frame, Header, parsed

DECODED = (
    "1.2.840.10008.1.2.4.50",  # JPEG
    "1.2.840.10008.1.2.4.51",
    "1.2.840.10008.1.2.4.57",
    "1.2.840.10008.1.2.4.70",
    "1.2.840.10008.1.2.4.80",  # JPEG-LS
    "1.2.840.10008.1.2.4.81",
    "1.2.840.10008.1.2.4.90",  # JPEG 2000
    "1.2.840.10008.1.2.4.91",
)
"""The compressed transfer syntaxes that GDCM decodes; others hold films or are younger than it."""

RLE = "1.2.840.10008.1.2.5"
"""The one that pydicom decodes by itself."""


def grey_values(headers: Sequence[Header], frames: Sequence[Frame]) -> NDArray[np.generic]:
    """``(I, J, K)``: the frames in their order, in the smallest type that holds all of them as they are scaled."""
    first = frames[0]
    shape, kind = (first.columns, first.rows, len(frames)), _type(headers, frames)
    with reading(first.file):
        claimed = math.prod(shape) * kind.itemsize
        check_size(first.file, claimed, at_most=claimed)  # what each file holds is checked with its pixels
        result = np.empty(shape, kind)
    by_file = {header.file: header for header in headers}
    numbered = [(frame.file, frame.number, k) for k, frame in enumerate(frames)]
    for path, group in groupby(sorted(numbered, key=lambda each: (str(each[0]), each[1])), key=lambda each: each[0]):
        wanted = [(number, k) for _, number, k in group]
        values = _of_file(by_file[path], frames, wanted)
        for (_, k), slice_ in zip(wanted, values, strict=True):
            result[:, :, k] = slice_.T
    return result


def _type(headers: Sequence[Header], frames: Sequence[Frame]) -> np.dtype[Any]:
    """Whole numbers where values and scales are whole, else float32."""
    scales = {frame.scale for frame in frames}
    if any(not header.bits[0] for header in headers) or any(
        not (slope.is_integer() and intercept.is_integer()) for slope, intercept in scales
    ):
        return np.dtype(np.float32)
    kinds = {header.bits for header in headers}
    stored = [(-(1 << bits - 1), (1 << bits - 1) - 1) if sign else (0, (1 << bits) - 1) for bits, sign in kinds]
    ends = [slope * end + intercept for slope, intercept in scales for low, high in stored for end in (low, high)]
    for kind in (np.uint8, np.int16, np.uint16, np.int32):
        if np.iinfo(kind).min <= min(ends) and max(ends) <= np.iinfo(kind).max:
            return np.dtype(kind)
    return np.dtype(np.float32)


def _of_file(header: Header, frames: Sequence[Frame], wanted: Sequence[tuple[int, int]]) -> list[NDArray[np.generic]]:
    """The frames of one file that are ``wanted``: their numbers, and their places among ``frames``."""
    path, first = header.file, header.frames[0]
    data = parsed(path, pixels=True)
    with reading(path):
        syntax = data.file_meta.get("TransferSyntaxUID")
        if syntax is not None and syntax.is_encapsulated and syntax != RLE:
            stored = _decoded(data, path, [number for number, _ in wanted])
        else:
            array = data.pixel_array.reshape(-1, first.rows, first.columns)
            stored = [array[number] for number, _ in wanted]
        if header.inverted:  # as GDCM does, so that bright is bright in every scan
            stored = [np.subtract(_last(header), array, dtype=np.int64) for array in stored]
        return [_scaled(array, *frames[k].scale) for array, (_, k) in zip(stored, wanted, strict=True)]


def _last(header: Header) -> int:
    """The stored value that an inverted 0 becomes."""
    bits, signed = header.bits
    return -1 if signed else (1 << bits) - 1


def _scaled(array: NDArray[np.generic], slope: float, intercept: float) -> NDArray[np.generic]:
    return array if (slope, intercept) == (1.0, 0.0) else array.astype(np.float64) * slope + intercept


def _decoded(data: Any, path: Path, wanted: Sequence[int]) -> list[NDArray[np.generic]]:  # noqa: ANN401
    """The stored values of the frames ``wanted`` of a compressed file, ``(J, I)`` each.

    GDCM gets each frame in a file that says nothing else: in a damaged one it may look for seconds for what comes next.
    """
    syntax = data.file_meta.TransferSyntaxUID
    if syntax not in DECODED:
        raise MixsegError(
            f"{path} is compressed in a way that nothing here decodes ({syntax.name}): convert the series with "
            "dcm2niix, or have it exported without compression.",
            "no-decoder",
            file=path,
            syntax=str(syntax.name),
        )
    from pydicom.encaps import generate_frames

    frames = list(generate_frames(data.PixelData, number_of_frames=int(data.get("NumberOfFrames") or 1)))
    with TemporaryDirectory() as folder:
        return [_decoded_frame(data, frames[number], Path(folder) / "frame.dcm") for number in wanted]


def _decoded_frame(data: Any, frame: bytes, path: Path) -> NDArray[np.generic]:  # noqa: ANN401
    """What one frame holds, by way of a file at ``path`` with the same description of its pixels."""
    from pydicom import Dataset, FileMetaDataset
    from pydicom.encaps import encapsulate
    from pydicom.uid import UID, SecondaryCaptureImageStorage

    from mixseg.datasets.formats.itk import sitk

    alone, meta = Dataset(), FileMetaDataset()
    for name in ("Rows", "Columns", "BitsAllocated", "BitsStored", "HighBit", "PixelRepresentation"):
        setattr(alone, name, int(data[name].value))
    alone.SamplesPerPixel, alone.PhotometricInterpretation = 1, "MONOCHROME2"
    alone.SOPClassUID = meta.MediaStorageSOPClassUID = SecondaryCaptureImageStorage
    alone.SOPInstanceUID = meta.MediaStorageSOPInstanceUID = UID("1.2")
    meta.TransferSyntaxUID = data.file_meta.TransferSyntaxUID
    alone.PixelData, alone.file_meta = encapsulate([frame]), meta
    alone["PixelData"].VR = "OB"
    alone.save_as(path, enforce_file_format=True)
    reader = sitk.ImageFileReader()
    reader.SetFileName(str(path))
    reader.SetImageIO("GDCMImageIO")
    return np.asarray(sitk.GetArrayFromImage(reader.Execute())).reshape(int(data.Rows), int(data.Columns))
