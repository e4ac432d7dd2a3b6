"""Scans on their own grid -> a prepared folder. A function passed in says where they come from: files, an archive."""

from __future__ import annotations

import hashlib
import json
import math
import os
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap

from mixseg.core.errors import MixsegError
from mixseg.core.files import explained, replacing_folder, write_json
from mixseg.core.types import IGNORE, Bytes, Labels
from mixseg.core.workers import run_all
from mixseg.data.prepare.options import PrepareOptions
from mixseg.data.prepare.store import ARRAYS, CROPPED, FORMAT, TOO_THIN, Prepared, PreparedCase
from mixseg.data.resample import (
    centred,
    cropped_foreground,
    kept_part,
    resize_image,
    resize_labels,
    resize_masks,
    resize_strokes,
    size_at,
    to_slices,
)
from mixseg.data.scan import Header, Native, Scan, VoxelIndices, check_headers, spacing_not_meant
from mixseg.datasets.partial_labels import GENERATORS

INDEX = "index.json"
PREPARED = "prepared folder"


@dataclass(frozen=True)
class _Job:
    """One scan, for a worker process: read it, bring it to the grid, write it where it belongs."""

    folder: Path
    case: PreparedCase
    load: Callable[[], Native]
    options: PrepareOptions


def digest(*parts: object) -> str:
    """A short hash of anything JSON can hold."""
    return hashlib.blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=16).hexdigest()


def key_of(fingerprints: Sequence[str], options: PrepareOptions) -> str:
    """The hash of inputs and options: what a prepared folder is made from."""
    return digest(FORMAT, list(fingerprints), asdict(options))


def existing(out: Path, key: str) -> Prepared | None:
    """The folder ``out`` if it is whole and was made from ``key``."""
    try:
        found = Prepared(out)
    except (MixsegError, KeyError, TypeError):
        return None
    return found if found.hash == key else None


def build(
    out: Path,
    headers: Sequence[Header],
    loads: Sequence[Callable[[], Native]],
    options: PrepareOptions,
    *,
    workers: int | None,
) -> Prepared:
    """Write the prepared folder ``out``, whole or not at all.

    Args:
        out: Replaced if it is a prepared folder.
        headers: One per scan, in the order of the arrays.
        loads: For each scan a function, to be called in another process, that reads it.
        options: The grid and the labels on it.
        workers: Processes; ``None`` is one per core.
    """
    names, channels = check_headers(headers)
    classes = options.classes(names)
    cases = lay_out(headers, options)
    voxels = sum(case.voxels for case in cases)
    key = key_of([header.fingerprint for header in headers], options)
    with replacing_folder(out, marker=INDEX, what=PREPARED, is_there=lambda: existing(out, key) is not None) as folder:
        with explained(out):
            for name in ARRAYS:
                _allocate(folder / f"{name}.npy", voxels * (channels if name == "image" else 1))
        jobs = [_Job(folder, case, load, options) for case, load in zip(cases, loads, strict=True)]
        ids = [case.id for case in cases]
        filled = run_all(_fill, jobs, names=ids, label="preparing", workers=workers)
        cropped = np.concatenate([places for _, places in filled])
        if len(cropped):
            np.save(folder / CROPPED, cropped)
        index = {
            "format": FORMAT,
            "hash": key,
            "content": _content(folder),
            "options": asdict(options),
            "classes": classes,
            "channels": channels,
            "cases": [case.as_json() for case, _ in filled],
        }
        write_json(folder / INDEX, index)
    return Prepared(out)


def lay_out(headers: Sequence[Header], options: PrepareOptions) -> list[PreparedCase]:
    """Where each scan will lie in the arrays, before one is read."""
    cases = []
    offset = 0
    generated = options.partial in GENERATORS
    meant = not spacing_not_meant(headers)
    for header in headers:
        shape, spacing, field = _placed(header, options)
        case = PreparedCase(
            header=header,
            dims=options.dims,
            shape=shape,
            spacing=spacing,
            spacing_known=header.spacing_known and meant,
            offset=offset,
            has_partial=options.partial != "none" and (header.has_drawn or (generated and header.has_full)),
            field=field,
        )
        offset += case.voxels
        cases.append(case)
    return cases


def _placed(
    header: Header, options: PrepareOptions
) -> tuple[tuple[int, int, int], tuple[float, float, float], tuple[int, ...]]:
    """Shape and spacing on the prepared grid; in 2D also the size of the resampled slices, before they are cropped."""
    (i, j, k), (di, dj, dk) = header.shape, header.spacing
    if options.dims == 3:
        a, b, c = _resampled(header, options)
        return (a, b, c), (di * i / a, dj * j / b, dk * k / c), ()
    field = _resampled(header, options) if options.spacing or options.long_side else ()
    height, width = options.size or field or (i, j)
    rows, columns = field or (height, width)
    return (k, height, width), (dk, di * i / rows, dj * j / columns), field


def _resampled(header: Header, options: PrepareOptions) -> tuple[int, ...]:
    """The size of a resampled scan, of its slices in 2D."""
    if options.spacing and not header.spacing_known:
        raise MixsegError(
            f"{header.source} holds no voxel size, so it cannot be resampled to {options.spacing} mm: leave spacing "
            "out, or for slices give long_side, a number of pixels.",
            "voxel-size-unknown",
            file=header.source,
        )
    shape, spacing = header.shape[: options.dims], header.spacing[: options.dims]
    return size_at(shape, spacing, options.spacing, options.long_side)


def to_grid(native: Native, case: PreparedCase, options: PrepareOptions) -> tuple[Scan, PreparedCase]:
    """A scan on the prepared grid: resampled, then labelled, then cropped. With its entry, which is complete now.

    The only way from voxels to a grid: that of the store, and so of what a training learns from and is scored on, and
    that of each image which a run predicts.
    """
    stack = to_slices if options.dims == 2 else np.asarray
    keeps_shape = options.dims == 3 or bool(case.field)
    size = case.field or case.shape[3 - options.dims :]
    final = case.shape[3 - options.dims :]
    image = centred(resize_image(stack(native.image), size, smooth=keeps_shape), final, 0)
    table = _targets(native.header.classes, options)
    full = partial = cropped = None
    thin: tuple[int, ...] = ()
    if native.full is not None:
        full = table[(resize_masks if keeps_shape else resize_labels)(stack(native.full), size)]
        thin = too_thin(table[native.full], full)
        cropped = cropped_foreground(full, final)
    if options.partial in GENERATORS and full is not None:
        rng = np.random.default_rng([options.seed, zlib.crc32(case.id.encode())])
        partial = GENERATORS[options.partial](full, rng, axis=0 if options.dims == 2 else -1)
    elif options.partial != "none" and native.drawn is not None:
        partial = table[resize_strokes(stack(native.drawn), size)]
    kept = None if partial is None else centred(partial, final, IGNORE)
    mean, std = moments(image, case)
    case = replace(
        case,
        low=native.low,
        high=native.high,
        mean=mean,
        std=std,
        thin=thin,
        cropped_full=0 if cropped is None else len(cropped),
        cropped_partial=_labelled(partial) - _labelled(kept),
    )
    spacing = case.spacing if case.spacing_known else None
    full = None if full is None else centred(full, final, IGNORE)
    return Scan(case.id, image, full, kept, mean, std, spacing, cropped, case), case


def _labelled(labels: Labels | None) -> int:
    return 0 if labels is None else int((labels != IGNORE).sum())


def too_thin(before: Labels, after: Labels) -> tuple[int, ...]:
    """Classes, but for the background, of whose share of a mask less than ``TOO_THIN`` is left on another grid."""
    was, left = (np.bincount(mask.ravel(), minlength=IGNORE + 1)[:IGNORE] / mask.size for mask in (before, after))
    return tuple(index for index in np.flatnonzero(left < TOO_THIN * was).tolist() if index)


def _targets(classes: tuple[str, ...], options: PrepareOptions) -> Labels:
    """Class index -> index among the targets, 0 for the others; IGNORE stays."""
    kept = options.classes(classes)
    table = np.full(IGNORE + 1, IGNORE, np.uint8)
    table[: len(classes)] = [kept.index(name) if name in kept else 0 for name in classes]
    return table


def _allocate(path: Path, size: int) -> None:
    """An array file of the right size, for the workers to fill."""
    open_memmap(path, mode="w+", dtype=np.uint8, shape=(size,)).flush()
    if hasattr(os, "posix_fallocate"):
        # Take the space now: a mapped write to a full disk ends the process without a word.
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)


def _fill(job: _Job) -> tuple[PreparedCase, VoxelIndices]:
    """Write one scan into the arrays; return its entry, now complete, and what the grid cuts off."""
    scan, case = to_grid(job.load(), job.case, job.options)
    for name in ARRAYS:
        part: Bytes | None = getattr(scan, name)
        channels = scan.channels if name == "image" else 1
        target = open_memmap(job.folder / f"{name}.npy", mode="r+")
        target[case.offset * channels : (case.offset + case.voxels) * channels] = (
            IGNORE if part is None else part.ravel()
        )
        target.flush()
    return case, np.empty((0, 4), np.int32) if scan.cropped is None else scan.cropped


def moments(image: Bytes, case: PreparedCase) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel of an image on the prepared grid, without what was padded."""
    if case.field:
        rows, columns = kept_part(case.shape[1:], case.field)
        image = image[..., rows, columns]
    mean, std = zip(*map(_moments, np.moveaxis(image, 1 if case.dims == 2 else 0, 0)), strict=True)
    return mean, std


def _moments(image: Bytes) -> tuple[float, float]:
    """Mean and standard deviation, from counts in whole numbers: the same to the last digit in any memory order."""
    counts = np.bincount(image.ravel(), minlength=256)
    grey = np.arange(256)
    total, first, second = (int((counts * grey**power).sum()) for power in (0, 1, 2))
    return first / total, math.sqrt(total * second - first**2) / total


def _content(folder: Path) -> str:
    """The hash of the arrays, which are on the disk when this returns."""
    state = hashlib.blake2b(digest_size=16)
    for path in (*(folder / f"{name}.npy" for name in ARRAYS), folder / CROPPED):
        if path.name == CROPPED and not path.exists():
            continue
        with path.open("r+b") as file:  # Windows syncs only what it may write
            while block := file.read(1 << 22):
                state.update(block)
            os.fsync(file.fileno())
    return state.hexdigest()
