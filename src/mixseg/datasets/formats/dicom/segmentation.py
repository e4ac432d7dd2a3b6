"""DICOM segmentations as label maps on the grid of the series that they were drawn on.

Such a file holds the slices alone in which something is painted, a frame a segment: where each belongs is said by its
position. pydicom is enough to read them; highdicom writes them, and reads ours in the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

COMPLETED = "completed"
"""The status of what a program made: it draws no strokes."""


class Painted:
    """The voxels of a segmentation on the grid of its series, segment by segment.

    Args:
        path: The segmentation.
        grid: Of the series that it belongs to.

    Attributes:
        place: The grid.
        segments: The one that ``of`` calls 1 first.

    Raises:
        MixsegError: The file is damaged.
    """

    def __init__(self, path: Path, grid: Geometry) -> None:
        data = parsed(path, pixels=True)
        self.path, self.place, self.header = path, grid, header_of(data, path)
        with reading(path):
            self.segments = _segments(data)
            self._numbers = {segment.value: number for number, segment in enumerate(self.segments, start=1)}
            self._kind = str(data.get("SegmentationType") or "BINARY")
            self._whole = int(data.get("MaximumFractionalValue") or 1) if self._kind == "FRACTIONAL" else 1
            self._stored = _stored(data, path)

    def of(self, number: int) -> NDArray[np.bool_]:
        """Where a segment is, ``(I, J, K)``.

        Raises:
            MixsegError: A slice lies elsewhere, holds shares of voxels or is damaged.
        """
        result = np.zeros(self.place.shape, np.bool_)
        with reading(self.path):
            for index, frame in enumerate(self.header.frames):
                if self._kind == "LABELMAP" or self._numbers[frame.segment] == number:
                    result[:, :, place_in(frame, self.place, self.path)] |= (self._slice(index) == number).T
        return result

    def together(self) -> NDArray[np.uint16]:
        """0 where nothing is painted, else the number of the segment, ``(I, J, K)``.

        Raises:
            MixsegError: As ``of`` does; or segments overlap.
        """
        result = np.zeros(self.place.shape, np.uint16)
        with reading(self.path):
            for index, frame in enumerate(self.header.frames):
                layer, painted = result[:, :, place_in(frame, self.place, self.path)], self._slice(index).T
                both = (layer > 0) & (painted > 0) & (layer != painted)
                if both.any():
                    self._refuse_overlap(int(layer[both][0]), int(painted[both][0]))
                np.copyto(layer, painted, where=painted > 0)
        return result

    def _slice(self, index: int) -> NDArray[np.uint16]:
        """``(J, I)``: the numbers of the segments in one frame."""
        stored = self._stored(index)
        if self._kind == "LABELMAP":
            known = np.zeros(1 << 16, np.uint16)
            known[list(self._numbers)] = list(self._numbers.values())
            return np.asarray(known[stored], np.uint16)
        if ((stored != 0) & (stored != self._whole)).any():
            raise MixsegError(
                f"{self.path} holds shares of voxels instead of structures: export it as a binary segmentation.",
                "not-label-ids",
                file=self.path,
            )
        return np.where(stored != 0, np.uint16(self._numbers[self.header.frames[index].segment]), np.uint16(0))

    def _refuse_overlap(self, first: int, second: int) -> None:
        one, other = self.segments[first - 1].name, self.segments[second - 1].name
        raise MixsegError(
            f"Segments '{one}' and '{other}' of {self.path} overlap: export them without overlap, or each in a file of "
            "its own.",
            "segments-overlap",
            file=self.path,
            segment=other,
            other=one,
        )


def read(path: Path, grid: Geometry) -> Volume:
    """The label map of a file whose segments do not overlap; see ``Painted``."""
    return Volume(Painted(path, grid).together(), grid.affine)


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


def _stored(data: Any, path: Path) -> Callable[[int], NDArray[np.generic]]:  # noqa: ANN401
    """What gives the stored values ``(J, I)`` of a frame; of bits, those of one at a time are unpacked."""
    rows, columns = int(data.Rows), int(data.Columns)
    if data.file_meta.TransferSyntaxUID.is_encapsulated or int(data.BitsAllocated) != 1:
        array = _decoded(data, path).reshape(-1, rows, columns)
        return lambda index: np.asarray(array[index])
    content, size = np.frombuffer(data.PixelData, np.uint8), rows * columns
    if len(content) * 8 < size * int(data.NumberOfFrames):
        raise ValueError("fewer bits than frames")

    def unpacked(index: int) -> NDArray[np.generic]:
        first, past = index * size, (index + 1) * size
        bits = np.unpackbits(content[first // 8 : -(-past // 8)], bitorder="little")[first % 8 :][:size]
        return bits.reshape(rows, columns)

    return unpacked


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

    apart = data.get("SegmentsOverlap") == "NO" or data.get("SegmentationType") == "LABELMAP"
    return [
        Segment(
            str(each.get("SegmentLabel") or f"segment {each.SegmentNumber}"),
            int(each.SegmentNumber),
            layer=0 if apart else int(each.SegmentNumber) - 1,
            colour=_colour(each.get("RecommendedDisplayCIELabValue") or ()),
            status=COMPLETED if each.get("SegmentAlgorithmType") == "AUTOMATIC" else "",
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
