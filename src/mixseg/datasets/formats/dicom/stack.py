"""Slices -> a grid: sorted by where they lie, and one sentence for each way in which they make none.

SimpleITK stacks whatever it is handed: a tilted gantry, a missing slice or another time point is read without a word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mixseg.core.errors import MixsegError
from mixseg.datasets.formats.base import LPS_TO_RAS
from mixseg.datasets.formats.dicom.headers import Frame, Header
from mixseg.datasets.formats.geometry import POSITION_TOLERANCE, SPACING_TOLERANCE, Geometry

DIRECTION_TOLERANCE = 1e-3
"""Largest difference of a direction cosine between slices: headers round to 1e-4 at worst, and 1e-3 is 0.06 degrees."""

TILT_TOLERANCE = 0.5
"""By so many pixels a stack may lean: rounded directions do that, the smallest tilt of a gantry does far more."""

PROJECTIONS = ("CR", "DX", "IO", "MG", "PX", "RG")
"""Modalities whose one picture lies nowhere in space, but has a pixel size."""

CONVERT = "convert the series with dcm2niix, and use what it writes"


class Stack(NamedTuple):
    """Slices in the order of the grid's last axis."""

    frames: tuple[Frame, ...]
    geometry: Geometry


def stacked(headers: Sequence[Header]) -> Stack:
    """The slices of the files of a series as a grid.

    Raises:
        MixsegError: They make none.
    """
    for header in headers:
        _check_slices(header)
    frames = [frame for header in headers for frame in header.frames]
    if len(frames) == 1 and headers[0].modality in PROJECTIONS and frames[0].spacing:
        frames = [frames[0]._replace(position=(0.0, 0.0, 0.0))]
    _check_placed(frames)
    _check_alike(frames)
    normal = np.cross(frames[0].along_row, frames[0].along_column)
    heights = np.array([normal @ np.array(frame.position) for frame in frames])
    order = np.argsort(heights, kind="stable")
    frames, heights = [frames[index] for index in order], heights[order]
    spacing = _slice_spacing(frames, heights)
    _check_upright(frames, normal)
    return Stack(tuple(frames), frame_geometry(frames[0], spacing, len(frames)))


def frame_geometry(first: Frame, spacing: float, count: int = 1) -> Geometry:
    """The grid of ``count`` slices, ``spacing`` mm apart, of which ``first`` is the lowest.

    Raises:
        MixsegError: It does not say where it lies.
    """
    _check_placed([first])
    assert first.spacing is not None, "as was checked"
    lps = np.eye(4)
    lps[:3, 0] = np.array(first.along_row) * first.spacing[0]
    lps[:3, 1] = np.array(first.along_column) * first.spacing[1]
    lps[:3, 2] = np.cross(first.along_row, first.along_column) * spacing
    lps[:3, 3] = np.array(first.position)
    return Geometry((first.columns, first.rows, count), LPS_TO_RAS @ lps + 0.0)  # + 0.0: minus zero becomes zero


def _check_slices(header: Header) -> None:
    """Nothing, if the file holds slices of grey values."""
    if not header.frames:
        raise MixsegError(
            f"{header.file} holds no slices ({header.modality or 'no modality'}), as reports and plans do not: take it "
            "out of the folder.",
            "no-slices",
            file=header.file,
        )
    if not header.grey:
        raise MixsegError(
            f"{header.file} is in colour, a picture of a screen or a report: take it out of the folder, or export the "
            "scan itself.",
            "colour-image",
            file=header.file,
        )
    if header.mosaic:
        raise MixsegError(
            f"{header.file} holds its slices beside each other, as a mosaic: {CONVERT}.", "mosaic", file=header.file
        )


def _check_placed(frames: Sequence[Frame]) -> None:
    for frame in frames:
        if frame.position is None or frame.spacing is None:
            missing = "where its slices lie" if frame.position is None else "how large its pixels are"
            raise MixsegError(
                f"{frame.file} does not say {missing}, as pictures of a screen and films do not: take it out of the "
                "folder, or export the scan itself.",
                "no-position",
                file=frame.file,
            )


def _check_alike(frames: Sequence[Frame]) -> None:
    """Nothing, if all slices have one size, one pixel size and one direction."""
    first = frames[0]
    for frame in frames[1:]:
        if (frame.rows, frame.columns) != (first.rows, first.columns):
            raise MixsegError(
                f"{frame.file} has {frame.columns} x {frame.rows} pixels, but {first.file}, of the same series, has "
                f"{first.columns} x {first.rows}: put each size in a folder of its own and {CONVERT}.",
                "slices-differ",
                file=frame.file,
                other=first.file,
            )
        if not np.allclose(frame.spacing or (), first.spacing or (), rtol=SPACING_TOLERANCE, atol=0):
            raise MixsegError(
                f"The pixels of {frame.file} and {first.file}, of the same series, have different sizes in mm: put "
                f"each size in a folder of its own and {CONVERT}.",
                "slices-differ",
                file=frame.file,
                other=first.file,
            )
        directions = (*frame.along_row, *frame.along_column), (*first.along_row, *first.along_column)
        if not np.allclose(*directions, rtol=0, atol=DIRECTION_TOLERANCE):
            raise MixsegError(
                f"{frame.file} and {first.file}, of the same series, are cut in different directions, as in an "
                f"overview: take them out of the folder, or {CONVERT}.",
                "directions-differ",
                file=frame.file,
                other=first.file,
            )


def _slice_spacing(frames: Sequence[Frame], heights: NDArray[np.float64]) -> float:
    """The distance between slices in mm, which must be the same from each to the next."""
    if len(frames) == 1:
        return frames[0].thickness or 1.0
    steps = np.diff(heights)
    whole = float(np.median(steps[steps > POSITION_TOLERANCE * steps.max()]) if steps.max() > 0 else 0.0)
    if whole < SPACING_TOLERANCE or (steps < POSITION_TOLERANCE * whole).any():
        raise _several(frames, steps, whole)
    regular = np.linspace(heights[0], heights[-1], len(frames))
    if np.abs(heights - regular).max() > POSITION_TOLERANCE * whole:
        raise _uneven(frames, steps, whole)
    return float(heights[-1] - heights[0]) / (len(frames) - 1)


def _several(frames: Sequence[Frame], steps: NDArray[np.float64], whole: float) -> MixsegError:
    """What to say of slices that lie in one place."""
    place = np.concatenate([[0], np.cumsum(steps >= max(POSITION_TOLERANCE * whole, SPACING_TOLERANCE))])
    times = set(Counter(place.tolist()).values())
    at = int(np.argmin(steps))
    one, other = frames[at], frames[at + 1]
    if len(times) == 1:
        count = times.pop()
        return MixsegError(
            f"The series of {one.file} holds {count} images in each place, such as time points, echoes or "
            f"b-values: {CONVERT}, a volume a file.",
            "several-volumes",
            file=one.file,
            volumes=count,
        )
    who = f"{one.file} and {other.file}" if one.file != other.file else f"Frames of {one.file}"
    return MixsegError(
        f"{who} lie in the same place and belong to one series: remove one of them if it is a copy, else {CONVERT}.",
        "doubled-slices",
        file=other.file,
        other=one.file,
    )


def _uneven(frames: Sequence[Frame], steps: NDArray[np.float64], whole: float) -> MixsegError:
    """What to say of slices with a gap, or with no one distance."""
    at = int(np.argmax(steps))
    one, other = frames[at].file, frames[at + 1].file
    apart = float(steps[at])
    missing = round(apart / whole) - 1
    if missing >= 1 and abs(apart - (missing + 1) * whole) <= 2 * POSITION_TOLERANCE * whole:
        count = f"{missing} slice{'s' * (missing > 1)} of the series {'are' if missing > 1 else 'is'}"
        return MixsegError(
            f"{count} missing between {one} and {other}, which are {apart:.4g} mm apart where others are {whole:.4g}: "
            "export the series again, whole.",
            "missing-slices",
            file=one,
            other=other,
            missing=missing,
        )
    return MixsegError(
        f"The slices of the series of {one} are {float(steps.min()):.4g} to {apart:.4g} mm apart: {CONVERT}, which "
        "resamples them evenly.",
        "uneven-slices",
        file=one,
        other=other,
    )


def _check_upright(frames: Sequence[Frame], normal: NDArray[np.float64]) -> None:
    """Nothing, if the slices lie one above the other, not as in a leaning pile."""
    assert frames[0].spacing is not None
    way = np.array(frames[-1].position) - np.array(frames[0].position)
    lean = float(np.linalg.norm(way - normal * (normal @ way)))
    if lean > TILT_TOLERANCE * min(frames[0].spacing):
        degrees = float(np.degrees(np.arctan2(lean, abs(normal @ way))))
        raise MixsegError(
            f"The slices of the series of {frames[0].file} lean by {degrees:.3g} degrees, from a tilted gantry: "
            "straighten them with dcm2niix, and use what it writes.",
            "gantry-tilt",
            file=frames[0].file,
            degrees=round(degrees, 3),
        )
