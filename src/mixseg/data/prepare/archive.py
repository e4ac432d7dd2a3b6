"""Scans <-> one small archive to carry to another machine, where no image library is needed.

The archive is a zip file: ``index.json``, and per scan its 8-bit images and label maps on their own grid, coded by
``codec``. The training grid and partial labels are made where it is unpacked, equal to what ``prepare`` makes.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from math import inf, prod
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np

from mixseg.core import archives
from mixseg.core.errors import MixsegError
from mixseg.core.files import replacing
from mixseg.core.schema import checked
from mixseg.core.text_files import parse_json
from mixseg.core.types import IGNORE, Case
from mixseg.core.workers import run_all
from mixseg.data.intensity import MIN_MAX, ClipBy, GreyRange
from mixseg.data.prepare.build import build, existing, key_of
from mixseg.data.prepare.codec import decode_image, decode_labels, encode_image, encode_labels
from mixseg.data.prepare.options import PrepareOptions
from mixseg.data.prepare.store import Prepared, tuples
from mixseg.data.scan import Header, Native, check_headers

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
    from mixseg.data.prepare.files import checked, read_header  # reads image files, which unpacking never does

    grey = (options or PrepareOptions()).grey_range
    headers = checked(cases, [read_header(case) for case in cases])
    check_headers(headers)
    jobs = [(case, header, grey) for case, header in zip(cases, headers, strict=True)]
    coded = run_all(_coded, jobs, names=[case.id for case in cases], label="packing", workers=workers)
    index: dict[str, Any] = {"format": FORMAT, "clip": grey.clip, "clip_by": grey.by, "cases": []}
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for number, (header, (parts, low, high)) in enumerate(zip(headers, coded, strict=True)):
            index["cases"].append({**asdict(header), "low": low, "high": high})
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
    headers, ends, grey = contents(path)
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
    loads: list[Callable[[], Native]] = [
        partial(_decoded, path, number, header, found)
        for number, (header, found) in enumerate(zip(headers, ends, strict=True))
    ]
    return build(out, headers, loads, options, workers=workers)


class Contents(NamedTuple):
    """What an archive holds, but for the voxels.

    Attributes:
        headers: Of the scans.
        ends: The intensities of each that became 0 and 255.
        grey: What these were chosen by.
    """

    headers: list[Header]
    ends: list[Ends]
    grey: GreyRange


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
    return Contents(headers, ends, GreyRange(tuples(index["clip"]), by))


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


def _decoded(path: Path, number: int, header: Header, ends: Ends) -> Native:
    """One scan of the archive."""
    shape = header.shape
    with archives.opened(path) as archive, archives.sound(path):
        names = [f"image{channel}" for channel in range(header.channels)]
        image = np.stack([decode_image(archive.read(_member(number, name)), shape) for name in names])
        full, drawn = (
            decode_labels(archive.read(_member(number, name)), shape) if there else None
            for name, there in (("full", header.has_full), ("drawn", header.has_drawn))
        )
        for labels in (full, drawn):
            if labels is not None and ((labels >= len(header.classes)) & (labels != IGNORE)).any():
                raise ValueError(f"a label of {header.id} is none of its classes")
    return Native(header, image, *ends, full, drawn)


def _member(number: int, name: str) -> str:
    return f"{number:05}/{name}"
