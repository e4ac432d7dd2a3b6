"""DICOM in a folder: each series a scan, each segmentation a label map of the series that it lies on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mixseg.core.types import Case
from mixseg.datasets.formats import dicom
from mixseg.datasets.layouts.own import names
from mixseg.datasets.layouts.own.files import Found
from mixseg.datasets.layouts.own.scans import AIR, Scan
from mixseg.datasets.layouts.own.series import Series, find_series
from mixseg.datasets.layouts.table import Unplaced


@dataclass(frozen=True)
class DicomFiles:
    """What a folder holds of DICOM.

    Attributes:
        scans: One for each series.
        drawn: The segmentations by the first file of the series that they lie on.
        unplaced: The files that are neither.
    """

    scans: Sequence[Scan] = ()
    drawn: Mapping[Path, Sequence[Found]] = field(default_factory=dict)
    unplaced: Sequence[Unplaced] = ()

    @property
    def files(self) -> list[Found]:
        """Series and segmentations."""
        return [
            *(image for scan in self.scans for image in scan.images),
            *(each for of in self.drawn.values() for each in of),
        ]

    def drawn_on(self, scan: Scan) -> Sequence[Found]:
        """The segmentations of a scan, whatever it is called."""
        return self.drawn.get(scan.images[0].path, ())


def find_dicom(root: Path, files: Sequence[Path]) -> DicomFiles:
    """The series and segmentations among ``files``, which lie in ``root``."""
    if not files:
        return DicomFiles()
    found = find_series(root, files)
    drawn: dict[Path, list[Found]] = {}
    unplaced = list(found.unplaced)
    for each in found.segmentations:
        fitting = [one for one in found.series if one.grid is not None and dicom.covers(each.file, each, one.grid)]
        named = [one for one in fitting if one.headers[0].series in each.about] or fitting
        if len(named) == 1:
            label = Found(each.file, "label", named[0].grid, series=named[0].files)
            drawn.setdefault(named[0].files[0], []).append(label)
        else:
            where = f"fits {len(named)} series and names none of them" if named else "lies on no series of the folder"
            sentence = f"{each.file} {where}: put it into one folder with the series that it was drawn on."
            unplaced.append(Unplaced(each.file, sentence))
    return DicomFiles([_scan(series, root) for series in found.series], drawn, unplaced)


def images_among(root: Path, files: Sequence[Path]) -> list[Case]:
    """The series among ``files`` without labels; what is wrong with one is said when it is read."""
    found = find_series(root, files).series if files else ()
    return [Case(series.id, series.patient, (_image(series).source,)) for series in found]


def _scan(series: Series, root: Path) -> Scan:
    parts = (*names.of_folders(series.files[0], root), *names.tokens(series.id))
    slices = sum(len(header.frames) for header in series.headers)
    number = "" if series.number is None else f" {series.number}"
    why = f"DICOM series{number}, {series.modality or 'no modality'}, {slices} slice{'s' * (slices != 1)}"
    return Scan(series.id, series.patient, (_image(series),), tuple(dict.fromkeys(parts)), why, series.problem)


def _image(series: Series) -> Found:
    low = 2.0 * AIR if series.modality == "CT" else 0.0
    return Found(series.files[0], "image", series.grid, low=low, problem=series.problem, series=series.files)
