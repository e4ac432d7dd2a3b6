"""DICOM: a series of slices, or a file of many frames, as one volume; segmentations as label maps.

A ``Source`` of it names the files of one series in any order: where the slices lie says theirs. Headers are read by
pydicom and checked here, since SimpleITK stacks what does not belong together.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mixseg.core.types import Source, Volume
from mixseg.datasets.formats.dicom.headers import Frame, Header, read_header
from mixseg.datasets.formats.dicom.pixels import grey_values
from mixseg.datasets.formats.dicom.segmentation import Painted, covers, own_geometry, segments
from mixseg.datasets.formats.dicom.segmentation import read as read_segmentation
from mixseg.datasets.formats.dicom.stack import Stack, stacked
from mixseg.datasets.formats.geometry import Geometry

__all__ = ["Frame", "Header", "Painted", "Series", "Stack", "covers", "read_header", "segments", "stacked"]


class Series:
    """The files of a source, as a format that reads them."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def read(self, path: Path, key: str = "") -> Volume:
        """The grey values, scaled as the headers say (Hounsfield units in CT); of a segmentation the label map.

        Raises:
            MixsegError: The slices make no grid, or a file is damaged.
        """
        headers = self._headers(self.source.files)
        if headers[0].is_segmentation:
            return read_segmentation(path, self.geometry(path))
        stack = stacked(headers)
        return Volume(grey_values(headers, stack.frames), stack.geometry.affine)

    def geometry(self, path: Path, key: str = "") -> Geometry:
        """The grid, from the headers alone.

        Raises:
            MixsegError: The slices make none.
        """
        if self.source.grid:
            return stacked(self._headers(self.source.grid)).geometry
        headers = self._headers(self.source.files)
        return own_geometry(path) if headers[0].is_segmentation else stacked(headers).geometry

    @staticmethod
    def _headers(files: Sequence[Path]) -> list[Header]:
        return [read_header(path) for path in files]
