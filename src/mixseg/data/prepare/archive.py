"""Scans <-> one small archive to carry to another machine, where no image library is needed.

The archive is a zip file: ``index.json``, and per scan its 8-bit images and label maps on their own grid, coded by
``codec``. The training grid and partial labels are made where it is unpacked, equal to what ``prepare`` makes.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from math import inf, prod
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np

from mixseg.core import archives
from mixseg.core.errors import MixsegError
from mixseg.core.files import replacing
from mixseg.core.schema import checked
from mixseg.core.text_files import parse_json
from mixseg.core.types import IGNORE, Bytes, Case, Labels
from mixseg.core.workers import run_all
from mixseg.data.intensity import MIN_MAX, ClipBy, GreyRange
from mixseg.data.prepare.build import Given, Grey, build, existing, key_of, parts_of
from mixseg.data.prepare.codec import decode_image, decode_labels, encode_image, encode_labels
from mixseg.data.prepare.options import PrepareOptions
from mixseg.data.prepare.store import Prepared, tuples
from mixseg.data.scan import Header, check_headers

FORMAT = "mixseg archive 1"
Ends = tuple[tuple[float, ...], tuple[float, ...]]

# The same scans make the same file, byte for byte: no time of day in it.
SOME_TIME = (1980, 1, 1, 0, 0, 0)


def pack(
    cases: Sequence[Case], path: Path, options: PrepareOptions | None = None, *, workers: int | None = None
) -> Path:
    """Write ``path``, one archive with everything that ``unpack`` needs to prepare ``cases`` elsewhere.

    Args:
        cases: The scans to carry, with all their classes and drawn labels.
        path: The archive; replaced if it exists.
        options: Of these ``clip`` and ``clip_by`` matter alone: images are carried in 8 bits.
        workers: Processes; ``None`` is one per core.
    """
    from mixseg.data.prepare import files  # reads image files, which unpacking never does

    grey = (options or PrepareOptions()).grey_range
    made_from = files.Stamps().made_from(cases)
    headers = [
        files.checked_header(case, files.fingerprint(case, of)) for case, of in zip(cases, made_from, strict=True)
    ]
    check_headers(headers)
    jobs = [(case, header, grey) for case, header in zip(cases, headers, strict=True)]
    coded = run_all(_coded, jobs, names=[case.id for case in cases], label="packing", workers=workers)
    index: dict[str, Any] = {"format": FORMAT, "clip": grey.clip, "clip_by": grey.by, "cases": []}
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for number, (header, of, (parts, low, high)) in enumerate(zip(headers, made_from, coded, strict=True)):
            index["cases"].append({**asdict(header), "low": low, "high": high, "made_from": of})
            for name, data in parts.items():
                archive.writestr(zipfile.ZipInfo(_member(number, name), SOME_TIME), data)
        info = zipfile.ZipInfo("index.json", SOME_TIME)
        archive.writestr(info, json.dumps(index, indent=1), compress_type=zipfile.ZIP_LZMA)
    return path


def unpack(path: Path, out: Path, options: PrepareOptions | None = None, *, workers: int | None = None) -> Prepared:
    """The prepared folder ``out``, equal to what ``prepare`` makes of the packed scans.

    Args:
        path: An archive written by ``pack``.
        out: A new or empty folder, or a prepared one to replace; one made from this archive is returned at once.
        options: The training grid and the labels on it; where no ``clip`` is given, it is the archive's.
        workers: Processes; ``None`` is one per core.
    """
    options = options or PrepareOptions()
    headers, ends, grey, made_from = contents(path)
    if options.grey_range == MIN_MAX:
        options = replace(options, clip=grey.clip, clip_by=grey.by)
    if options.grey_range != grey:
        raise MixsegError(
            f"{path} was packed with clip {grey.clip}, not {options.clip} (clip_by {grey.by} and {options.clip_by}): "
            "pack the scans again.",
            "settings-differ",
            file=path,
            key="clip",
            value=options.clip,
            expected=grey.clip,
        )
    found = existing(out, key_of([header.fingerprint for header in headers], options))
    if found is not None:
        return found
    scans = [
        Given(header, of, Packed(path, number, header, reach))
        for number, (header, reach, of) in enumerate(zip(headers, ends, made_from, strict=True))
    ]
    return build(out, scans, options, workers=workers)


class Contents(NamedTuple):
    """What an archive holds, but for the voxels.

    Attributes:
        headers: Of the scans.
        ends: The intensities of each that became 0 and 255.
        grey: What these were chosen by.
        made_from: Hashes of what the arrays of each were read from.
    """

    headers: list[Header]
    ends: list[Ends]
    grey: GreyRange
    made_from: list[dict[str, str]]


@dataclass(frozen=True)
class _Entry(Header):
    """An entry of ``index.json``."""

    low: tuple[float, ...]
    high: tuple[float, ...]


class _Index(TypedDict):
    clip: tuple[float, float] | None
    cases: list[_Entry]


def contents(path: Path) -> Contents:
    """What lies in an archive; no voxel is read.

    Raises:
        MixsegError: If it is no archive of ours, or its index makes no sense.
    """
    with archives.opened(path) as archive:
        index = parse_json(archive.read("index.json"), path, dict[str, Any])
    if index.get("format") != FORMAT:
        raise MixsegError(
            f"{path} was not packed by this version of mixseg: pack the scans again.", "other-version", file=path
        )
    checked(index, _Index, path)
    by: ClipBy = checked(index.get("clip_by", "percentiles"), ClipBy, path)
    headers: list[Header] = []
    ends: list[Ends] = []
    for entry in index["cases"]:
        known = {each.name: tuples(entry[each.name]) for each in fields(_Entry)}
        ends.append((known.pop("low"), known.pop("high")))
        headers.append(Header(**known))
        _check(headers[-1], ends[-1], path)
    try:
        check_headers(headers)
    except MixsegError as error:  # which knows the names of the scans, and not where they are from
        raise MixsegError(f"{path}: {error}", "wrong-content", **{**error.fields, "file": path}) from None
    known_of = [entry.get("made_from") for entry in index["cases"]]
    made_from = [
        checked(of, dict[str, str], path) if of else parts_of(header)
        for header, of in zip(headers, known_of, strict=True)
    ]
    return Contents(headers, ends, GreyRange(tuples(index["clip"]), by), made_from)


def _check(header: Header, ends: Ends, path: Path) -> None:
    """Nothing, or one sentence about an entry that no scan can have."""
    wrong = (
        "shape"
        if min(header.shape) < 1 or prod(header.shape) * header.channels > archives.LARGEST
        else "channels"
        if not header.channels == len(ends[0]) == len(ends[1])
        else "affine"
        if [len(row) for row in header.affine] != [4] * 4
        else "spacing"
        if not all(0 < side < inf for side in header.spacing)
        else "classes"
        if not 0 < len(header.classes) < IGNORE
        else ""
    )
    if wrong:
        raise MixsegError(
            f"{path} is damaged: the {wrong} of its scan {header.id!r} makes no sense; copy or pack it again.",
            "broken-file",
            file=path,
            key=wrong,
        )


Coded = tuple[dict[str, bytes], tuple[float, ...], tuple[float, ...]]


def _coded(job: tuple[Case, Header, GreyRange]) -> Coded:
    """The members of the archive for one scan, and the intensities that became 0 and 255."""
    from mixseg.data.prepare.files import read_native

    case, header, grey = job
    native = read_native(case, header, grey=grey)
    parts = {f"image{channel}": encode_image(image) for channel, image in enumerate(native.image)}
    for name, labels in (("full", native.full), ("drawn", native.drawn)):
        if labels is not None:
            parts[name] = encode_labels(labels)
    return parts, native.low, native.high


@dataclass(frozen=True)
class Packed:
    """The voxels of a scan in an archive."""

    path: Path
    number: int
    header: Header
    ends: Ends

    def image(self) -> Grey:
        """In 8 bits, as they were packed."""
        names = [f"image{channel}" for channel in range(self.header.channels)]
        return Grey(np.stack([self._decoded(name, decode_image) for name in names]), *self.ends)

    def full(self) -> Labels:
        """Class indices."""
        return self._labels("full")

    def drawn(self) -> Labels:
        """Class indices and IGNORE."""
        return self._labels("drawn")

    def _labels(self, name: str) -> Labels:
        labels = self._decoded(name, decode_labels)
        with archives.sound(self.path):
            if ((labels >= len(self.header.classes)) & (labels != IGNORE)).any():
                raise ValueError(f"a label of {self.header.id} is none of its classes")
        return labels

    def _decoded(self, name: str, decode: Callable[[bytes, tuple[int, int, int]], Bytes]) -> Bytes:
        with archives.opened(self.path) as archive, archives.sound(self.path):
            return decode(archive.read(_member(self.number, name)), self.header.shape)


def _member(number: int, name: str) -> str:
    return f"{number:05}/{name}"
