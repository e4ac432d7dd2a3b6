"""Scans in any file format -> a prepared folder, made once per inputs and options."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mixseg.core.errors import MixsegError
from mixseg.core.files import check_replaceable
from mixseg.core.types import Case, Source
from mixseg.data.intensity import GreyRange, to_8_bits
from mixseg.data.prepare.build import INDEX, PREPARED, build, digest, existing, key_of
from mixseg.data.prepare.options import PrepareOptions
from mixseg.data.prepare.store import Prepared
from mixseg.data.scan import Header, Native
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
    headers: Callable[[], Sequence[Header]] | None = None,
) -> Prepared:
    """The prepared folder ``out``: as it lies there, if it was made from the same files with the same options.

    Args:
        cases: Scans with the same classes and channels; they keep this order.
        out: A new or empty folder, or a prepared one to replace.
        options: The training grid and the labels on it.
        workers: Processes; ``None`` is one per core.
        headers: Of the cases, asked for only if they have to be prepared; read here if not given.
    """
    options = options or PrepareOptions()
    found = existing(out, key_of([fingerprint(case) for case in cases], options))
    if found is not None:
        return found
    check_replaceable(out, INDEX, PREPARED)  # before minutes of work, not after
    known = checked(cases, headers() if headers else [read_header(case) for case in cases])
    loads = [
        partial(read_native, case, header, grey=options.grey_range) for case, header in zip(cases, known, strict=True)
    ]
    return build(out, known, loads, options, workers=workers)


def some_images(cases: Sequence[Case]) -> Iterator[NDArray[np.generic]]:
    """The first channel of a few scans, from the first to the last of them."""
    for index in sorted({*np.linspace(0, len(cases) - 1, A_FEW, dtype=int).tolist()}):
        yield formats.read_image(cases[index].image[0]).array


def fingerprint(case: Case) -> str:
    """A hash that changes when the case or one of its files does (path, size, time of change; nothing is read)."""
    return digest(
        [case.id, case.patient, case.frame, case.classes, case.annotated, case.split],
        [_stamp(source) for source in (*case.image, case.full, case.partial)],
    )


def _stamp(source: Source | None) -> object:
    if source is None:
        return None
    try:
        # stat comes first: of a link in a circle resolve makes a RuntimeError.
        files = [(path.stat().st_size, path.stat().st_mtime_ns, str(path.resolve())) for path in source.files]
    except OSError as error:
        raise MixsegError(
            f"{error.filename} cannot be read ({error.strerror}): check the path.",
            "unreadable-file",
            file=error.filename,
        ) from None
    layers = [[str(layer.file), layer.value] for layer in source.layers]
    return [files, source.key, sorted((source.ids or {}).items()), *([layers] if layers else [])]


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
        fingerprint=fingerprint(case),
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


def checked(cases: Sequence[Case], headers: Sequence[Header]) -> Sequence[Header]:
    """The headers of scans that are about to be read; see ``check_geometry``."""
    for case, header in zip(cases, headers, strict=True):
        check_geometry(case, header)
    return headers


def read_native(case: Case, header: Header, *, grey: GreyRange) -> Native:
    """The voxels of a case, its image in 8 bits."""
    channels = [to_8_bits(formats.read_image(source).array, *grey) for source in case.image]
    images, low, high = zip(*channels, strict=True)
    full, drawn = (
        None if source is None else np.ascontiguousarray(formats.read_labels(source).array, np.uint8)
        for source in (case.full, case.partial)
    )
    # Files come in either memory order; everything from here on, random draws included, should not notice.
    return Native(header, np.ascontiguousarray(np.stack(images)), low, high, full, drawn)
