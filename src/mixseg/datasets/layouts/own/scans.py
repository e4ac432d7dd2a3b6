"""Images -> scans: which of them are channels of one scan, whose it is, and what to call it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path

from mixseg.core.errors import listed
from mixseg.datasets import formats
from mixseg.datasets.layouts.own import names
from mixseg.datasets.layouts.own.files import Found
from mixseg.datasets.layouts.table import Unplaced

ENOUGH = 0.8
"""Channels that so many of the scans have are channels of all: the others lack one."""

MOST_OF_PATIENT = 6
"""A folder with more scans than this, on average, is not one of a patient."""

AIR = -500
"""Below this, values are Hounsfield units."""


@dataclass(frozen=True)
class Scan:
    """One scan, before its labels.

    Attributes:
        id: What its files are called in what is written.
        patient: Whose it is.
        images: A file per channel.
        parts: Of the names of its images and of their folders, for finding its labels.
        why: The grounds for taking the images together.
        problem: Why it cannot be used, in a sentence.
    """

    id: str
    patient: str
    images: tuple[Found, ...]
    parts: tuple[str, ...]
    why: str = ""
    problem: str = ""

    @property
    def folder(self) -> Path:
        """Where its first image lies."""
        return self.images[0].path.parent

    @property
    def place(self) -> formats.Geometry | None:
        """Of its first image."""
        return self.images[0].place


def find_scans(images: Sequence[Found], root: Path, series: Sequence[Scan] = ()) -> tuple[list[Scan], list[Unplaced]]:
    """The scans, in the order of their files, those of DICOM at the end, and the images that are not used."""
    groups: dict[tuple[Path, tuple[str, ...]], dict[str, Found]] = defaultdict(dict)
    stems = {image.path.parent / formats.stem(image.path) for image in images}
    for image in images:
        base, channel = _base(image, stems)
        group = groups[image.path.parent, base]
        if channel in group:  # the same in another format, say: a scan of its own
            group = groups[image.path.parent, (*base, image.path.name)]
        group[channel] = image
    wanted = _channels([set(group) for group in groups.values()])
    scans, left = [], []
    for group in groups.values():
        scan, unused = _scan(group, wanted, root)
        scans.append(scan)
        left += unused
    return _of_one_kind([*_named(scans, root), *series]), left


def _base(image: Found, stems: set[Path]) -> tuple[tuple[str, ...], str]:
    """The parts of a name that the channels of a scan share, and the one that tells them apart."""
    match = names.NUMBERED.fullmatch(formats.stem(image.path))
    if match and (match[2] == "0000" or image.path.parent / f"{match[1]}_0000" in stems):
        return names.tokens(match[1]), match[2]
    channel = names.modality(image.parts)
    return tuple(part for part in image.parts if part != channel), channel


def _channels(sets: Sequence[set[str]]) -> tuple[str, ...]:
    """The channels of every scan: as many as nearly all of them have."""
    best: set[str] = set()
    for channels in sorted(map(sorted, sets), key=len):
        have = sum(set(channels) <= each for each in sets)
        more = len(channels) > len(best) and have >= ENOUGH * len(sets)
        if not best or more or (len(channels) == len(best) and have > sum(best <= each for each in sets)):
            best = set(channels)
    order = {name: index for index, name in enumerate(names.MODALITIES)}
    return tuple(sorted(best, key=lambda name: (order.get(name, -1), name)))


def _scan(group: Mapping[str, Found], wanted: tuple[str, ...], root: Path) -> tuple[Scan, list[Unplaced]]:
    first = next(iter(group.values()))
    missing = [name for name in wanted if name not in group]
    problem = ""
    if len(wanted) == 1 and len(group) == 1:
        images: tuple[Found, ...] = (first,)
        if missing and wanted[0] and next(iter(group)):
            problem = (
                f"{first.path} is called {next(iter(group))}, and the other images are {wanted[0]}: take it away, or "
                "rename it if it is one too."
            )
    elif missing:
        images = tuple(group.values())
        problem = (
            f"{first.path} has no {listed(missing)} beside it, which the other scans have: add the file, or take the "
            "scan away."
        )
    else:
        images = tuple(group[name] for name in wanted)
    left = [
        Unplaced(
            image.path,
            f"{image.path} is not used, most scans have no {name or 'such image'}: it would be a channel if all had.",
        )
        for name, image in group.items()
        if image not in images
    ]
    problem = problem or next((image.problem for image in images if image.problem), "") or _apart(images)
    parts = tuple(
        dict.fromkeys(part for image in images for part in (*names.of_folders(image.path, root), *image.parts))
    )
    why = f"channels {', '.join(wanted)}" if len(images) > 1 else ""
    return Scan("", "", images, parts, why, problem), left


def _apart(images: Sequence[Found]) -> str:
    """A sentence about channels that do not cover each other."""
    first = images[0]
    for other in images[1:]:
        difference = first.place and other.place and formats.same_geometry(first.place, other.place)
        if difference:
            return (
                f"{first.path} and {other.path} are channels of one scan and do not cover each other, {difference}: "
                "resample one to the grid of the other."
            )
    return ""


def _named(scans: Sequence[Scan], root: Path) -> list[Scan]:
    """The scans with ids and patients."""
    folders = Counter(scan.folder for scan in scans)
    alone = len(folders) > 1 and all(count == 1 for count in folders.values())
    stems = [_stem(scan) for scan in scans]
    clear = len(set(stems)) == len(stems)
    places = [scan.folder.relative_to(root).parts for scan in scans]
    above = sum(1 for _ in takewhile(lambda level: len(set(level)) == 1, zip(*places, strict=False)))
    tops = {own for place in places for own in _own(place[above:])[:1]}
    found = []
    for scan, stem, place in zip(scans, stems, places, strict=True):
        own = _own(place[above:])
        joined = "_".join(own if alone and own else (*own, stem))
        name = stem if clear else joined
        match = names.PATIENT.search("/".join((*own, stem)))
        by_folder = own[0] if own and len(tops) * MOST_OF_PATIENT >= len(scans) else ""
        found.append(replace(scan, id=name, patient=match[1] if match else by_folder or name))
    taken = Counter(scan.id for scan in found)
    return [
        replace(scan, id="_".join((*place, scan.images[0].path.name))) if taken[scan.id] > 1 else scan
        for scan, place in zip(found, places, strict=True)
    ]


def _own(place: tuple[str, ...]) -> tuple[str, ...]:
    """The folders that say whose scan it is: not images/, anat/."""
    return tuple(part for part in place if names.telling(names.tokens(part)))


def _stem(scan: Scan) -> str:
    """What the first image is called, without what makes it a channel."""
    stem = formats.stem(scan.images[0].path)
    match = names.NUMBERED.fullmatch(stem)
    if match and match[2] == "0000":
        return match[1]
    channel = names.modality(names.tokens(stem))
    if len(scan.images) == 1 or not stem.lower().endswith(channel):
        return stem
    return stem[: len(stem) - len(channel)].rstrip(" _-.") or stem


def _of_one_kind(scans: Sequence[Scan]) -> list[Scan]:
    """The same, with a sentence about those whose grey values are of another kind than nearly all others'."""
    kinds = [scan.images[0].low < AIR for scan in scans]
    hounsfield = sum(kinds)
    rare = hounsfield < len(scans) - hounsfield
    few = min(hounsfield, len(scans) - hounsfield)
    if not few or few > (1 - ENOUGH) * len(scans):
        return list(scans)
    what = "holds Hounsfield units, as CT does, and the others do not"
    what = what if rare else "holds no Hounsfield units, and the others do, as CT"
    return [
        replace(scan, problem=scan.problem or f"{scan.images[0].path} {what}: it is of another modality; take it away.")
        if kind == rare
        else scan
        for scan, kind in zip(scans, kinds, strict=True)
    ]
