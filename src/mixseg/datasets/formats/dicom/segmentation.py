"""DICOM segmentations as label maps on the grid of the series that they were drawn on.

Such a file holds the slices alone in which something is painted, a frame a segment: where each belongs is said by its
position. pydicom is enough to read them; highdicom writes them, and reads ours in the tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mixseg.core.colours import code
from mixseg.core.errors import MixsegError
from mixseg.core.types import Volume
from mixseg.datasets.formats.base import reading
from mixseg.datasets.formats.dicom.headers import Frame, Header, header_of, parsed, read_header
from mixseg.datasets.formats.dicom.stack import frame_geometry, stacked
from mixseg.datasets.formats.geometry import Geometry, same_geometry

if TYPE_CHECKING:  # it brings SimpleITK
    from mixseg.datasets.formats.segments import Segment

LAB = np.array([100.0, 255.0, 255.0]) / 65535
"""What a step of a stored colour is, in L*, a* and b*."""


def read(path: Path, grid: Geometry) -> Volume:
    """The label map: 0 where nothing is painted, else the number of the segment, the first being 1.

    Args:
        path: The segmentation.
        grid: Of the series that it belongs to.

    Raises:
        MixsegError: A slice lies elsewhere, segments overlap, or the file is damaged or holds shares.
    """
    data = parsed(path, pixels=True)
    header = header_of(data, path)
    with reading(path):
        found = _segments(data)
        names = [segment.name for segment in found]
        numbers = {segment.value: index for index, segment in enumerate(found, start=1)}
        result = np.zeros(grid.shape, np.uint16)
        for frame, painted in zip(header.frames, _painted(data, path, numbers), strict=True):
            layer = result[:, :, place_in(frame, grid, path)]
            there = (layer > 0) & (painted.T > 0) & (layer != painted.T)
            if there.any():
                _refuse_overlap(path, names, int(layer[there][0]), int(painted.T[there][0]))
            np.copyto(layer, painted.T, where=painted.T > 0)
    return Volume(result, grid.affine)


def segments(path: Path) -> list[Segment]:
    """Those of the file, the one that ``read`` calls 1 first."""
    data = parsed(path)
    with reading(path):
        return _segments(data)


def place_in(frame: Frame, grid: Geometry, path: Path) -> int:
    """The slice of ``grid`` that ``frame`` covers.

    Raises:
        MixsegError: There is none.
    """
    here = frame_geometry(frame, grid.spacing[2])
    k = round(float((np.linalg.inv(grid.affine) @ here.affine[:, 3])[2]))
    wanted = Geometry((*grid.shape[:2], 1), grid.affine @ _shift(k))
    difference = same_geometry(wanted, here)
    if difference or not 0 <= k < grid.shape[2]:
        raise MixsegError(
            f"{path} has a slice where its series has none{f' ({difference})' if difference else ''}: export the "
            "segmentation again on the grid of the series.",
            "geometry-differs",
            file=path,
        )
    return k


def covers(path: Path, header: Header, grid: Geometry) -> bool:
    """Whether all slices of a segmentation lie on those of ``grid``."""
    try:
        return all(place_in(frame, grid, path) >= 0 for frame in header.frames)
    except MixsegError:
        return False


def own_geometry(path: Path) -> Geometry:
    """The grid of the slices in which something is painted, for want of another."""
    header = read_header(path)
    once = {frame.position: frame for frame in header.frames}
    return stacked([header._replace(frames=tuple(once.values()))]).geometry


def _shift(k: int) -> NDArray[np.float64]:
    moved = np.eye(4)
    moved[2, 3] = k
    return moved


def _painted(data: Any, path: Path, numbers: dict[int, int]) -> Iterator[NDArray[np.uint16]]:  # noqa: ANN401
    """``(J, I)`` of each frame: the numbers of the segments that are there."""
    kind = str(data.get("SegmentationType") or "BINARY")
    frames = _frames(data, path)
    if kind == "LABELMAP":
        known = np.zeros(1 << 16, np.uint16)
        known[list(numbers)] = list(numbers.values())
        yield from (known[frame] for frame in frames)
        return
    whole = int(data.get("MaximumFractionalValue") or 1) if kind == "FRACTIONAL" else 1
    for frame, header in zip(frames, header_of(data, path).frames, strict=True):
        if ((frame != 0) & (frame != whole)).any():
            raise MixsegError(
                f"{path} holds shares of voxels instead of structures: export it as a binary segmentation.",
                "not-label-ids",
                file=path,
            )
        yield np.where(frame != 0, np.uint16(numbers[header.segment]), np.uint16(0))


def _frames(data: Any, path: Path) -> Iterator[NDArray[np.generic]]:  # noqa: ANN401
    """The stored values of each frame ``(J, I)``; of bits, those of one frame at a time are unpacked."""
    syntax = data.file_meta.TransferSyntaxUID
    if syntax.is_encapsulated or int(data.BitsAllocated) != 1:
        array = _decoded(data, path)
        yield from array.reshape(-1, int(data.Rows), int(data.Columns))
        return
    size, content = int(data.Rows) * int(data.Columns), np.frombuffer(data.PixelData, np.uint8)
    for index in range(int(data.NumberOfFrames)):
        first, past = index * size, (index + 1) * size
        bits = np.unpackbits(content[first // 8 : -(-past // 8)], bitorder="little")[first % 8 :][:size]
        yield bits.reshape(int(data.Rows), int(data.Columns))


def _decoded(data: Any, path: Path) -> NDArray[np.generic]:  # noqa: ANN401
    try:
        return np.asarray(data.pixel_array)
    except (NotImplementedError, RuntimeError) as error:
        name = data.file_meta.TransferSyntaxUID.name
        raise MixsegError(
            f"{path} is compressed in a way that nothing here decodes ({name}): have it exported without compression.",
            "no-decoder",
            file=path,
            syntax=str(name),
        ) from error


def _segments(data: Any) -> list[Segment]:  # noqa: ANN401
    from mixseg.datasets.formats.segments import Segment

    return [
        Segment(
            str(each.get("SegmentLabel") or f"segment {each.SegmentNumber}"),
            int(each.SegmentNumber),
            colour=_colour(each.get("RecommendedDisplayCIELabValue") or ()),
        )
        for each in data.SegmentSequence
        if int(each.SegmentNumber)  # in a label map 0 is described, too: the background
    ]


def _colour(stored: Sequence[int]) -> str:
    """Three numbers of 16 bits, L*, a* and b*, as "#RRGGBB"; "" where there is nothing of the kind."""
    if len(stored) != 3:
        return ""
    from skimage.color import lab2rgb

    return code(lab2rgb(np.array(stored) * LAB - np.array([0.0, 128.0, 128.0])).tolist())


def _refuse_overlap(path: Path, names: Sequence[str], first: int, second: int) -> None:
    one, other = names[first - 1], names[second - 1]
    raise MixsegError(
        f"Segments '{one}' and '{other}' of {path} overlap: export them without overlap, or each in a file of its own.",
        "segments-overlap",
        file=path,
        segment=other,
        other=one,
    )
