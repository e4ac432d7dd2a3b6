"""Scans in any file format -> the store, each array made once from what went into it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixseg.core.errors import MixsegError
from mixseg.core.files import replacing
from mixseg.core.text_files import read_json
from mixseg.core.types import Case, Labels, Source
from mixseg.data.intensity import GreyRange, to_8_bits
from mixseg.data.prepare.build import STAMPS, Given, Grey, build, check_ours, digest, key_of, previous, whole
from mixseg.data.prepare.options import PrepareOptions
from mixseg.data.prepare.store import INDEX, Prepared
from mixseg.data.scan import Header, Native, check_headers
from mixseg.datasets import formats

__all__ = ["PrepareOptions", "prepare"]

A_FEW = 5
"""So many images are looked at to choose the range of the grey values."""


def prepare(
    cases: Sequence[Case],
    out: Path,
    options: PrepareOptions | None = None,
    *,
    workers: int | None = None,
    index: str = INDEX,
) -> Prepared:
    """The prepared scans in the store ``out``: of those that are there, what has changed is made anew, and no more.

    Args:
        cases: Scans with the same classes and channels; they keep this order.
        out: A new or empty folder, or a store.
        options: The training grid and the labels on it.
        workers: Processes; ``None`` is one per core.
        index: The name of the index: several may share the entries of a store.

    Raises:
        MixsegError: See ``build``.
    """
    options = options or PrepareOptions()
    check_ours(out)  # before minutes of work, not after
    if not cases:
        check_headers([])
    stamps = Stamps(out)
    made_from = stamps.made_from(cases)
    fingerprints = [fingerprint(case, of) for case, of in zip(cases, made_from, strict=True)]
    before = previous(out, index)
    found = whole(out, before, key_of(fingerprints, options))
    if found is None:
        headers = {case.header.fingerprint: case.header for case in before.cases} if before is not None else {}
        scans = [
            Given(headers.get(print_) or checked_header(case, print_), of, InFiles(case, options.grey_range))
            for case, print_, of in zip(cases, fingerprints, made_from, strict=True)
        ]
        found = build(out, scans, options, workers=workers, index=index, before=before)
    stamps.keep()
    return found


@dataclass(frozen=True)
class InFiles:
    """The voxels of a case, read when they are asked for."""

    case: Case
    grey: GreyRange

    def image(self) -> Grey:
        """In 8 bits."""
        channels = [to_8_bits(formats.read_image(source).array, *self.grey) for source in self.case.image]
        images, low, high = zip(*channels, strict=True)
        # Files come in either memory order; everything from here on, random draws included, should not notice.
        return Grey(np.ascontiguousarray(np.stack(images)), low, high)

    def full(self) -> Labels:
        """Class indices."""
        return _labels(self.case.full)

    def drawn(self) -> Labels:
        """Class indices and IGNORE."""
        return _labels(self.case.partial)


def _labels(source: Source | None) -> Labels:
    assert source is not None
    return np.ascontiguousarray(formats.read_labels(source).array, np.uint8)


def read_native(case: Case, header: Header, *, grey: GreyRange) -> Native:
    """The voxels of a case, its image in 8 bits."""
    voxels = InFiles(case, grey)
    full = None if case.full is None else voxels.full()
    return Native(header, *voxels.image(), full, None if case.partial is None else voxels.drawn())


def some_images(cases: Sequence[Case]) -> Iterator[NDArray[np.generic]]:
    """The first channel of a few scans, from the first to the last of them."""
    for index in sorted({*np.linspace(0, len(cases) - 1, A_FEW, dtype=int).tolist()}):
        yield formats.read_image(cases[index].image[0]).array


class Stamps:
    """Hashes of the contents of files: read once, and again when size or time of change say that they may differ.

    Args:
        store: Where what is known is kept, in ``stamps.json``; None keeps nothing.
    """

    def __init__(self, store: Path | None = None) -> None:
        self.path = None if store is None else store / STAMPS
        try:
            known = read_json(self.path, missing_ok=True) if self.path is not None else None
        except MixsegError:
            known = None
        self.known: dict[str, list[Any]] = known if isinstance(known, dict) else {}
        self.seen: dict[str, list[Any]] = {}

    def made_from(self, cases: Sequence[Case]) -> list[dict[str, str]]:
        """Of each case, a hash of what its image, its full mask and its drawn labels are read from."""
        sources = {id(case): {"image": case.image, "full": (case.full,), "drawn": (case.partial,)} for case in cases}
        there = [source for of in sources.values() for some in of.values() for source in some if source is not None]
        paths = dict.fromkeys(path for source in there for path in _files_of(source))
        with ThreadPoolExecutor() as pool:  # hashing lets other threads go on
            hashes = dict(zip(paths, pool.map(self._of, paths), strict=True))
        return [
            {
                part: digest([_meant(source, hashes) for source in some if source is not None])
                for part, some in sources[id(case)].items()
                if some[0] is not None
            }
            for case in cases
        ]

    def keep(self) -> None:
        """Write down what is known of the files that were asked for, if it is news."""
        if self.path is not None and any(self.known.get(path) != stamp for path, stamp in self.seen.items()):
            with replacing(self.path) as temporary:
                temporary.write_text(json.dumps({**self.known, **self.seen}))

    def _of(self, path: Path) -> str:
        absolute = os.path.abspath(path)  # noqa: PTH100 - which follows no link, and asks the disk nothing
        name = hashlib.blake2b(os.fsencode(absolute), digest_size=16).hexdigest()  # names of files may be of patients
        try:
            stat = path.stat()
            stamp: list[Any] = [stat.st_size, stat.st_mtime_ns]
            kept = self.known.get(name, [])
            if kept[:2] != stamp:
                with path.open("rb") as file:
                    kept = [*stamp, hashlib.file_digest(file, _hash).hexdigest()]
        except OSError as error:
            raise MixsegError(
                f"{path} cannot be read ({error.strerror}): check the path.", "unreadable-file", file=path
            ) from None
        self.seen[name] = kept
        return str(kept[2])


def _hash() -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=16)


def _meant(source: Source, hashes: Mapping[Path, str]) -> list[Any]:
    """What a source is: its files' contents, and how they are read."""
    return [
        [hashes[path] for path in source.files],
        [hashes[path] for path in source.grid],
        [(hashes[layer.file], layer.value) for layer in source.layers],
        source.key,
        sorted((source.ids or {}).items()),
    ]


def _files_of(source: Source) -> list[Path]:
    return [*source.files, *source.grid, *(layer.file for layer in source.layers)]


def fingerprint(case: Case, made_from: Mapping[str, str]) -> str:
    """A hash that changes when what is known of a case does, or the content of one of its files."""
    return digest([case.id, case.patient, case.frame, case.classes, case.annotated, case.split], made_from)


def checked_header(case: Case, print_: str) -> Header:
    """The header of a case that is about to be read, with its fingerprint; see ``check_geometry``."""
    header = replace(read_header(case), fingerprint=print_)
    check_geometry(case, header)
    return header


def read_header(case: Case) -> Header:
    """What is known of a scan before its voxels are read: of its files, the header of the first image alone."""
    place = formats.read_geometry(case.image[0])
    return Header(
        id=case.id,
        patient=case.patient,
        frame=case.frame,
        classes=case.classes,
        annotated=case.annotated,
        split=case.split,
        channels=len(case.image),
        shape=place.shape,
        affine=tuple(tuple(float(value) for value in row) for row in place.affine),
        spacing=place.spacing,
        spacing_known=place.spacing_known,
        # Files of DICOM are often called by numbers that lead to whoever was scanned.
        source=case.id if formats.is_dicom(case.image[0].path) else case.image[0].path.name,
        has_full=case.full is not None,
        has_drawn=case.partial is not None,
        fingerprint="",  # for whoever keeps it to fill in
    )


def check_geometry(case: Case, header: Header) -> None:
    """Nothing, if all files of a case lie in the same place.

    Raises:
        MixsegError: With the first channel or mask that does not lie on the first image.
    """
    place = formats.Geometry(header.shape, np.array(header.affine), header.spacing_known)
    for other in (*case.image[1:], case.full, case.partial):
        difference = formats.same_geometry(place, formats.read_geometry(other)) if other is not None else ""
        if other is not None and difference:
            raise MixsegError(
                f"{other.path} does not lie on its image {case.image[0].path}: {difference}; "
                "export it again on the grid of the image.",
                "geometry-differs",
                file=other.path,
                other=case.image[0].path,
                case=case.id,
            )
