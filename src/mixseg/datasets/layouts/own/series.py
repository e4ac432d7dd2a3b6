"""Which DICOM series lie in a folder, wherever in it and under whatever names: files are sorted by what they say.

UIDs and the patient's id are compared here and kept nowhere: scans are called after folders and numbers of series.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mixseg.core.errors import MixsegError
from mixseg.core.progress import track
from mixseg.datasets import formats
from mixseg.datasets.formats import dicom
from mixseg.datasets.layouts.table import Unplaced

MANY = 500
"""From this many files on, reading their headers takes long enough for a progress bar."""

UID = re.compile(r"\d+(\.\d+){4,}")


@dataclass(frozen=True)
class Series:
    """The slices that one acquisition left.

    Attributes:
        id: Of the scan: its patient's name, and that of its folder or its number where the patient has several.
        patient: The name of the folder of whoever was scanned.
        headers: Of its files, in the order of their names.
        grid: Where its slices lie; None if they make no grid.
        problem: Why they make none, in a sentence; "" if they do.
    """

    id: str
    patient: str
    headers: tuple[dicom.Header, ...]
    grid: formats.Geometry | None
    problem: str

    @property
    def files(self) -> tuple[Path, ...]:
        """All of them, in the order of their names."""
        return tuple(header.file for header in self.headers)

    @property
    def modality(self) -> str:
        """What kind of scanner it is from: "CT", "MR", ...; "" if that is not said."""
        return self.headers[0].modality

    @property
    def number(self) -> int | None:
        """Of the series in its study; None if it is not said."""
        return self.headers[0].series_number


@dataclass(frozen=True)
class Found:
    """What a folder holds of DICOM.

    Attributes:
        series: Those with slices, by their names.
        segmentations: The files of segmentations.
        unplaced: The files that are neither, each with the reason.
    """

    series: tuple[Series, ...]
    segmentations: tuple[dicom.Header, ...]
    unplaced: tuple[Unplaced, ...]


def find_series(root: Path, files: Sequence[Path]) -> Found:
    """The series among ``files``, which lie in ``root`` or in its folders."""
    headers, unplaced = _headers(files)
    broken = {each.file.parent: each.sentence for each in unplaced}  # of a series there, nobody knows of which
    segmentations = [header for header in headers if header.is_segmentation]
    scans = {header.series for header in headers if header.frames and not header.localizer} - {""}
    groups: dict[str, list[dicom.Header]] = {}
    for header in headers:
        if header.is_segmentation:
            continue
        if header.series in scans or (header.frames and not header.localizer):
            groups.setdefault(header.series or str(header.file.parent), []).append(header)
        else:
            unplaced.append(_left_alone(header))
    names = _names(root, list(groups.values()))
    found = [_series(*name, group, broken) for name, group in zip(names, groups.values(), strict=True)]
    return Found(tuple(sorted(found, key=lambda series: series.id)), tuple(segmentations), tuple(unplaced))


def _headers(files: Sequence[Path]) -> tuple[list[dicom.Header], list[Unplaced]]:
    """Of the files, and those that cannot be read."""
    headers, unplaced = [], []
    for path in track(files, "reading DICOM headers", total=len(files)) if len(files) >= MANY else files:
        try:
            headers.append(dicom.read_header(path))
        except MixsegError as error:
            unplaced.append(Unplaced(path, str(error)))
    return headers, unplaced


def _left_alone(header: dicom.Header) -> Unplaced:
    if header.frames:
        sentence = f"{header.file} is an overview for planning, no scan: it is left alone."
    elif header.modality == "RTSTRUCT":
        sentence = f"{header.file} holds contours: export them as a segmentation, from 3D Slicer for example."
    else:
        sentence = f"{header.file} holds no slices ({header.modality or 'no modality'}): it is left alone."
    return Unplaced(header.file, sentence)


def _series(id_: str, patient: str, headers: Sequence[dicom.Header], broken: dict[Path, str]) -> Series:
    headers = sorted(headers, key=lambda header: str(header.file))
    grid, problem = None, next((broken[header.file.parent] for header in headers if header.file.parent in broken), "")
    try:
        grid = dicom.stacked(headers).geometry
    except MixsegError as error:
        problem = problem or str(error)
    return Series(id_, patient, tuple(headers), None if problem else grid, problem)


def _names(root: Path, groups: Sequence[Sequence[dicom.Header]]) -> list[tuple[str, str]]:
    """The id and the patient of each series."""
    patients = _patients(root, groups)
    named = _folder_names(root, [[header for i in each for header in groups[i]] for each in patients], "patient")
    result: dict[int, tuple[str, str]] = {}
    for patient, members in zip(named, patients, strict=True):
        ids = _series_names(patient, [groups[index] for index in members])
        result |= {index: (id_, patient) for index, id_ in zip(members, ids, strict=True)}
    return [result[index] for index in range(len(groups))]


def _patients(root: Path, groups: Sequence[Sequence[dicom.Header]]) -> list[list[int]]:
    """The series of each patient: those of one study, of one id, of one folder directly in ``root``.

    An id that all series share says nothing where there are several folders: it stands for no name.
    """
    tops = [_parts(root, group[0].file)[:1] for group in groups]
    ids = {group[0].patient for group in groups} - {""}
    keys: list[set[object]] = []
    for top, group in zip(tops, groups, strict=True):
        first = group[0]
        inside = {other[0].patient for place, other in zip(tops, groups, strict=True) if place == top}
        named = {("id", first.patient)} if first.patient and (len(ids) > 1 or not top) else set()
        keys.append({("study", first.study or first.file), *named, *({("folder", *top)} if len(inside) == 1 else ())})
    result: list[list[int]] = []
    for index, mine in enumerate(keys):
        same = [each for each in result if any(keys[other] & mine for other in each)]
        result = [each for each in result if each not in same]
        result.append(sorted(sum(same, [index])))
    return sorted(result)


def _folder_names(root: Path, groups: Sequence[Sequence[dicom.Header]], what: str) -> list[str]:
    """Of each group the uppermost folder that holds no other's files; a number where there is none, or it is a UID."""
    places = [{_parts(root, header.file) for header in group} for group in groups]
    names = []
    for number, mine in enumerate(places, start=1):
        others = {parts for other in places if other is not mine for parts in other}
        first = min(mine)
        least = 1 if not others and len({parts[:1] for parts in mine}) == 1 else 0
        sizes = range(min(least, len(first)), len(first) + 1)
        own = [size for size in sizes if not any(parts[:size] == first[:size] for parts in others)]
        name = (first[own[0] - 1] if own[0] else root.resolve().name) if own else ""
        names.append(name if name and not UID.fullmatch(name) else f"{what} {number}")
    return [name if names.count(name) == 1 else f"{name} {number}" for number, name in enumerate(names, start=1)]


def _series_names(patient: str, groups: Sequence[Sequence[dicom.Header]]) -> list[str]:
    """Ids of the series of a patient: by the name alone, or with that of the folder or the number of each."""
    if len(groups) == 1:
        return [patient]
    folders = [{header.file.parent for header in group} for group in groups]
    called = []
    for number, (group, places) in enumerate(zip(groups, folders, strict=True), start=1):
        place = min(places)
        shared = len(places) > 1 or any(place in other for other in folders if other is not places)
        series = group[0].series_number
        by_number = f"series {number if series is None else series}"
        called.append(by_number if shared or UID.fullmatch(place.name) or place.name == patient else place.name)
    once = [f"{name}" if called.count(name) == 1 else f"{name} {n}" for n, name in enumerate(called, start=1)]
    return [f"{patient} {name}" for name in once]


def _parts(root: Path, file: Path) -> tuple[str, ...]:
    """The names of the folders between ``root`` and the file."""
    return file.relative_to(root).parts[:-1]
