"""A scan on its own grid -> the same on the training grid: resampled, then labelled, then cropped.

The only way from voxels to a grid: that of the store, and so of what a training learns from and is scored on, and that
of each image which a run predicts.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mixseg.core.errors import MixsegError
from mixseg.core.types import IGNORE, Bytes, Labels
from mixseg.data.prepare.options import PrepareOptions
from mixseg.data.prepare.store import TOO_THIN, PreparedCase
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
from mixseg.data.scan import Header, Native, Scan, VoxelIndices, spacing_not_meant
from mixseg.datasets.partial_labels import GENERATORS


def lay_out(headers: Sequence[Header], options: PrepareOptions) -> list[PreparedCase]:
    """How each scan will lie on the grid, before one is read."""
    cases = []
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
            has_partial=options.partial != "none" and (header.has_drawn or (generated and header.has_full)),
            field=field,
        )
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


def scan_on_grid(native: Native, options: PrepareOptions) -> Scan:
    """An image on the training grid, without labels, with its entry, which is complete."""
    case = lay_out([native.header], options)[0]
    image = image_on_grid(native.image, case)
    mean, std = moments(image, case)
    case = replace(case, low=native.low, high=native.high, mean=mean, std=std)
    return Scan(case.id, image, None, None, mean, std, case.spacing if case.spacing_known else None, None, case)


def image_on_grid(image: Bytes, case: PreparedCase) -> Bytes:
    """``(channels, I, J, K)`` -> ``(K, channels, H, W)`` in 2D, ``(channels, *case.shape)`` in 3D."""
    size, final = _sizes(case)
    return centred(resize_image(_stacked(image, case), size, smooth=_keeps_shape(case)), final, 0)


def mask_on_grid(mask: Labels, case: PreparedCase, options: PrepareOptions) -> Labels:
    """A full mask on the resampled grid, before it is cropped, with the classes to segment alone."""
    size, _ = _sizes(case)
    resize = resize_masks if _keeps_shape(case) else resize_labels
    return _targets(case.header.classes, options)[resize(_stacked(mask, case), size)]


def thinned(mask: Labels, on_grid: Labels, case: PreparedCase, options: PrepareOptions) -> tuple[int, ...]:
    """The classes of a mask that are too thin for the grid."""
    return too_thin(_targets(case.header.classes, options)[mask], on_grid)


def strokes_on_grid(drawn: Labels, case: PreparedCase, options: PrepareOptions) -> Labels:
    """Drawn partial labels on the resampled grid, before it is cropped."""
    size, _ = _sizes(case)
    return _targets(case.header.classes, options)[resize_strokes(_stacked(drawn, case), size)]


def generated(mask: Labels, case: PreparedCase, options: PrepareOptions) -> Labels:
    """Partial labels from a mask on the resampled grid: of a scan they depend on the seed and its id alone."""
    rng = np.random.default_rng([options.seed, zlib.crc32(case.id.encode())])
    return GENERATORS[options.partial](mask, rng, axis=0 if options.dims == 2 else -1)


def cropped(labels: Labels, case: PreparedCase) -> Labels:
    """Labels on the grid itself."""
    return np.ascontiguousarray(centred(labels, _sizes(case)[1], IGNORE))


def cut_off(mask: Labels, case: PreparedCase) -> VoxelIndices:
    """The foreground that ``cropped`` leaves out."""
    return cropped_foreground(mask, _sizes(case)[1])


def _sizes(case: PreparedCase) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The resampled size, and that of the grid."""
    final = case.shape[3 - case.dims :]
    return case.field or final, final


def _keeps_shape(case: PreparedCase) -> bool:
    return case.dims == 3 or bool(case.field)


def _stacked(array: Bytes, case: PreparedCase) -> Bytes:
    return to_slices(array) if case.dims == 2 else array


def labelled(labels: Labels) -> int:
    """How many voxels have a class."""
    return int((labels != IGNORE).sum())


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
