"""Scans in memory: what ``mixseg.scan`` makes of arrays, and training and prediction take."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from mixseg.core.errors import MixsegError
from mixseg.core.types import IGNORE, Bytes, Labels
from mixseg.data.intensity import MIN_MAX, GreyRange, to_8_bits
from mixseg.data.scan import Header, Native


def scan(
    name: str,
    image: ArrayLike,
    full: ArrayLike | None = None,
    partial: ArrayLike | None = None,
    *,
    spacing: tuple[float, float, float] | None = None,
) -> Native:
    """A scan to train on or to validate with, from arrays of any dtype.

    Args:
        name: Unique among the scans of a run.
        image: ``(I, J, K)`` with the slices along the last axis, one slice ``(I, J)``, or channels ``(C, I, J, K)``.
            Its smallest and largest value become black and white, channel by channel.
        full: A class index for every voxel, 0 being the background; same axes, without channels.
        partial: The same, with 255 (or -1) where nothing is labelled. Without both, the scan has no labels.
        spacing: Voxel size in mm; scores are then in mm too.
    """
    if not isinstance(name, str):
        raise MixsegError(
            f"A scan is called by a text, mixseg.scan(name, image, ...): this is {type(name)}.",
            "wrong-type",
            key="name",
            type=type(name).__name__,
        )
    return make_scan(name, image, full, partial, spacing=spacing)


def make_scan(
    name: str,
    image: ArrayLike,
    full: ArrayLike | None = None,
    partial: ArrayLike | None = None,
    *,
    spacing: tuple[float, float, float] | None = None,
    grey: GreyRange = MIN_MAX,
) -> Native:
    """A scan whose grey values end where ``grey`` says, as those of a run on files may."""
    channels = [to_8_bits(channel, *grey) for channel in _channels(image, name)]
    images, low, high = zip(*channels, strict=True)
    shape = images[0].shape
    labels = [_labels(given, shape, f"{name}: {what}") for given, what in ((full, "full"), (partial, "partial"))]
    if labels[0] is not None and (unlabeled := np.mean(labels[0] == IGNORE)):
        raise MixsegError(
            f"{name}: full labels have a class for every voxel, and {unlabeled:.2%} of these are {IGNORE} or -1, "
            "unlabeled: give them as partial=.",
            "unlabeled-in-full-mask",
            case=name,
        )
    voxels = np.ascontiguousarray(np.stack(images))
    header = _header(name, voxels, *labels, spacing=None if spacing is None else _spacing(spacing, name))
    return Native(header, voxels, low, high, *labels)


def _header(
    name: str, image: Bytes, full: Labels | None, drawn: Labels | None, *, spacing: tuple[float, float, float] | None
) -> Header:
    """What the header of a file would say; the classes are for the training to name."""
    state = hashlib.blake2b(repr((name, spacing, image.shape)).encode(), digest_size=16)
    for array in (image, full, drawn):
        state.update(b"-" if array is None else np.ascontiguousarray(array).data)
    channels, i, j, k = image.shape
    size = spacing or (1.0, 1.0, 1.0)
    return Header(
        id=name,
        patient=name,
        frame="",
        classes=(),
        annotated=None,
        split="",
        channels=channels,
        shape=(i, j, k),
        affine=tuple(tuple(map(float, row)) for row in np.diag([*size, 1.0])),
        spacing=size,
        spacing_known=spacing is not None,
        source=name,
        has_full=full is not None,
        has_drawn=drawn is not None,
        fingerprint=state.hexdigest(),
    )


def _array(given: ArrayLike, what: str) -> NDArray[Any]:
    if isinstance(given, torch.Tensor):
        given = given.detach().cpu()
        given = given.float() if given.dtype == torch.bfloat16 else given  # which numpy does not have
    if isinstance(given, np.ma.MaskedArray):
        raise MixsegError(
            f"{what}: a masked array would lose its mask here, fill it first, with .filled(...).",
            "masked-array",
            where=what,
        )
    try:
        return np.asarray(given)
    except ValueError as error:  # of lists alone
        raise MixsegError(
            f"{what}: rows of different lengths make no array, give all of them one length.", "ragged-array", where=what
        ) from error


def _channels(image: ArrayLike, name: str) -> list[NDArray[np.generic]]:
    """The channels of an image, each ``(I, J, K)``."""
    array = _array(image, f"{name}: the image")
    if array.ndim == 2:
        array = array[..., None]
    if array.ndim == 3:
        array = array[None]
    if array.ndim != 4 or not array.size or array.dtype.kind not in "biuf":
        raise MixsegError(
            f"{name}: an image is an array of numbers (I, J), (I, J, K) or (channels, I, J, K), "
            f"not {array.dtype} of {array.shape}.",
            "not-an-image",
            case=name,
            shape=array.shape,
            dtype=str(array.dtype),
        )
    with np.errstate(over="ignore"):
        finite = array.dtype.kind != "f" or np.isfinite(array.astype(np.float32)).all()
    if not finite:
        raise MixsegError(
            f"{name}: the image holds nan, inf or what float32 cannot hold: replace them first, with np.clip or "
            "np.nan_to_num for example.",
            "not-finite",
            case=name,
        )
    return list(array)


def _spacing(given: Sequence[float], name: str) -> tuple[float, float, float]:
    """The voxel size in mm along I, J, K, from any three numbers above 0."""
    sizes = _array(given, f"{name}: spacing")
    if sizes.shape != (3,) or sizes.dtype.kind not in "iuf" or not ((sizes > 0) & (sizes < 1e4)).all():
        raise MixsegError(
            f"{name}: spacing is the voxel size along I, J, K, three numbers of mm between 0 and 10000, not {given}.",
            "invalid-value",
            key="spacing",
            case=name,
        )
    i, j, k = sizes.tolist()
    return float(i), float(j), float(k)


def _labels(given: ArrayLike | None, shape: tuple[int, ...], what: str) -> Labels | None:
    """Class indices, and IGNORE in partial labels, from whole numbers of any dtype."""
    if given is None:
        return None
    array = _array(given, f"{what} labels")
    if array.ndim == 2:
        array = array[..., None]
    if array.shape != shape:
        raise MixsegError(
            f"{what} labels have the shape {array.shape}, and the image has {shape}: they must agree.",
            "shapes-differ",
            where=what,
            shape=array.shape,
            expected=shape,
        )
    if array.dtype.kind in "if":
        array = np.where(array == -1, np.int16(IGNORE), array)  # which widens int8, where 255 would be -1 again
    with np.errstate(invalid="ignore"):  # nan is told below
        labels = array.astype(np.uint8) if array.dtype.kind in "biuf" else None
    if labels is None or not np.array_equal(labels, array):
        raise MixsegError(
            f"{what} labels hold values that are no class index: use whole numbers from 0 to 254, and in partial "
            f"labels {IGNORE} or -1 where nothing is labelled.",
            "not-label-ids",
            where=what,
        )
    return np.ascontiguousarray(labels)
