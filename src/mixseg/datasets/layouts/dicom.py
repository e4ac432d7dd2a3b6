"""DICOM as archives and scanners export it: folders of series, and segmentations that were drawn on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mixseg.core.errors import MixsegError
from mixseg.core.types import IGNORE, Case, Source
from mixseg.datasets import formats
from mixseg.datasets.formats import dicom
from mixseg.datasets.labels import LabelFlags
from mixseg.datasets.layouts.base import Say, files_below, silent, unique
from mixseg.datasets.layouts.dicom_series import DEEPEST, Series, dicom_files, find_series
from mixseg.datasets.layouts.table import Reading, ScanRow, ScanTable, Unplaced

BACKGROUND = "background"


def fits(root: Path) -> bool:
    """Whether there are DICOM files, and no scans or label maps of another format beside them."""
    if any(formats.suffix(path) for path in files_below(root, depth=DEEPEST)):
        return False
    return next(dicom_files(root), None) is not None


def cases(root: Path, flags: LabelFlags | None = None, say: Say = silent) -> list[Case]:
    """One case per series that makes a grid."""
    found = table(root, flags or LabelFlags())
    for sentence in found.problems:
        say(sentence)
    return unique(found.cases, root)


def images(root: Path, files: Sequence[Path] | None = None) -> list[Case]:
    """All series, or those of ``files``; what is wrong with one is said when it is read."""
    return unique([_case(series) for series in find_series(root, files).series], root)


def table(root: Path, flags: LabelFlags) -> ScanTable:
    """A row for each series, with the segmentation that lies on it."""
    found = find_series(root)
    drawn, unplaced = _paired(found.segmentations, found.series)
    classes = _classes([segmentation for each in drawn.values() for segmentation in each])
    rows = tuple(_row(series, drawn.get(series.id, ()), classes) for series in found.series)
    if not rows:
        unique([], root)
    return ScanTable(root, "dicom", classes, rows, (*found.unplaced, *unplaced), _meanings(root, rows, classes))


def _meanings(root: Path, rows: Sequence[ScanRow], classes: Sequence[str]) -> tuple[str, ...]:
    """One sentence, if there are segmentations."""
    labelled = [row.case for row in rows if row.labels]
    if not labelled:
        return ()
    named = ", ".join(f"{index} = {name}" for index, name in enumerate(classes))
    strokes = sum(case.partial is not None for case in labelled)
    rest = f"; in {strokes} of them the background is a segment, and what is not painted is unlabeled" * (strokes > 0)
    return (f"{root}: segments of {len(labelled)} DICOM segmentations are classes by their names, {named}{rest}.",)


def _case(series: Series) -> Case:
    return Case(series.id, series.patient, (Source(series.files),))


def _row(series: Series, drawn: Sequence[dicom.Header], classes: tuple[str, ...]) -> ScanRow:
    slices = sum(len(header.frames) for header in series.headers)
    number = "" if series.number is None else f" {series.number}"
    why = f"series{number}, {series.modality or 'no modality'}, {slices} slice{'s' * (slices != 1)}"
    case = replace(_case(series), classes=classes)
    if series.problem or not drawn:
        return ScanRow(case, why=why, problem=series.problem)
    if len(drawn) > 1:
        names = " and ".join(str(each.file) for each in drawn[:2])
        problem = f"{names} were both drawn on {series.files[0].parent}: keep one, or export them as one."
        return ScanRow(case, why=why, problem=problem)
    segmentation = drawn[0].file
    names_of = formats.segment_names(segmentation)
    ids, partial = _ids(names_of, classes)
    labels = Source((segmentation,), ids=ids, grid=series.files)
    searched = tuple(classes[value] for value in ids.values() if 0 < value < IGNORE)
    case = replace(
        case,
        full=None if partial else labels,
        partial=labels if partial else None,
        annotated=None if partial or set(searched) == set(classes[1:]) else searched,
    )
    why += f"; {segmentation.name} was drawn on it"
    state = Reading("strokes", "it has a segment for the background" if partial else "")
    reading = state if partial else Reading("finished", "a DICOM segmentation")
    return ScanRow(case, dict.fromkeys(searched, reading), why=why)


def _paired(
    segmentations: Sequence[dicom.Header], series: Sequence[Series]
) -> tuple[dict[str, list[dicom.Header]], list[Unplaced]]:
    """The segmentations by the series that they lie on, slice by slice; and those that lie on none, or on several."""
    drawn: dict[str, list[dicom.Header]] = {}
    unplaced = []
    for each in segmentations:
        fitting = [one for one in series if one.grid is not None and dicom.covers(each.file, each, one.grid)]
        named = [one for one in fitting if one.headers[0].series in each.about] or fitting
        if len(named) == 1:
            drawn.setdefault(named[0].id, []).append(each)
        else:
            where = f"fits {len(named)} series and names none of them" if named else "lies on no series of the folder"
            sentence = f"{each.file} {where}: put it into one folder with the series that it was drawn on."
            unplaced.append(Unplaced(each.file, sentence))
    return drawn, unplaced


def _classes(segmentations: Sequence[dicom.Header]) -> tuple[str, ...]:
    """The names of all segments, each once, the background first; some class there must be."""
    names: dict[str, str] = {}
    for each in segmentations:
        for name in _names(each.file).values():
            names.setdefault(name.lower(), name)
    names.pop(BACKGROUND, None)
    return (BACKGROUND, *(names.values() or ("foreground",)))


def _names(path: Path) -> dict[int, str]:
    try:
        return formats.segment_names(path)
    except MixsegError:  # it is told when the labels are read
        return {}


def _ids(names: dict[int, str], classes: tuple[str, ...]) -> tuple[dict[int, int], bool]:
    """What the numbers of segments mean, and whether 0 is unlabeled, since the background is a segment of its own."""
    index = {name.lower(): place for place, name in enumerate(classes)}
    ids = {number: index[name.lower()] for number, name in names.items()}
    partial = 0 in ids.values()
    return {0: IGNORE if partial else 0, **ids}, partial
