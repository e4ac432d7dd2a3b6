"""The grey values of slices, scaled as their headers say.

Plain pixels and run lengths are read by pydicom; what is compressed otherwise by GDCM, which SimpleITK brings along.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
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
    numbered = [(frame.file, frame.number, k) for k, frame in enumerate(frames)]
    for path, group in groupby(sorted(numbered, key=lambda each: (str(each[0]), each[1])), key=lambda each: each[0]):
        wanted = [(number, k) for _, number, k in group]
        values = _of_file(path, frames, wanted)
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


def _of_file(path: Path, frames: Sequence[Frame], wanted: Sequence[tuple[int, int]]) -> list[NDArray[np.generic]]:
    """The frames of one file that are ``wanted``: their numbers, and their places among ``frames``."""
    data = parsed(path, pixels=True)
    with reading(path):
        syntax = data.file_meta.get("TransferSyntaxUID")
        if syntax is not None and syntax.is_encapsulated and syntax != RLE:
            values = _decoded(path, syntax, {frames[k].scale for _, k in wanted})
            return [values[number] for number, _ in wanted]
        array = data.pixel_array
        array = array.reshape(-1, *array.shape[-2:])
        return [_scaled(array[number], *frames[k].scale) for number, k in wanted]


def _scaled(array: NDArray[np.generic], slope: float, intercept: float) -> NDArray[np.generic]:
    return array if (slope, intercept) == (1.0, 0.0) else array.astype(np.float64) * slope + intercept


def _decoded(path: Path, syntax: Any, scales: set[tuple[float, float]]) -> NDArray[np.generic]:  # noqa: ANN401
    """All frames of a compressed file ``(K, J, I)``, scaled by one scale."""
    from mixseg.datasets.formats.itk import sitk

    if syntax not in DECODED or len(scales) > 1:
        why = "is compressed in a way that nothing here decodes" if len(scales) == 1 else "scales each frame otherwise"
        raise MixsegError(
            f"{path} {why} ({syntax.name}): convert the series with dcm2niix, or have it exported without compression.",
            "no-decoder",
            file=path,
            syntax=str(syntax.name),
        )
    reader = sitk.ImageFileReader()
    reader.SetFileName(str(path))
    reader.SetImageIO("GDCMImageIO")  # files without an extension are guessed at otherwise
    array = sitk.GetArrayFromImage(reader.Execute())
    return np.asarray(array.reshape(-1, *array.shape[-2:]))
