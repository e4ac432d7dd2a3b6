"""The label map of a NIfTI image by a network that mixseg exported. Needs numpy, nibabel and onnxruntime alone.

python runner.py MODEL.onnx IMAGE.nii.gz [SECOND_CHANNEL.nii.gz ...] LABELS.nii.gz
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections.abc import Sequence
from typing import Any, TypeAlias

import nibabel
import numpy as np
import onnxruntime

Array: TypeAlias = Any
Session: TypeAlias = Any
AT_ONCE = 16


def main(words: Sequence[str]) -> int:
    """Read, segment, write."""
    if len(words) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    session = onnxruntime.InferenceSession(words[0], providers=["CPUExecutionProvider"])
    about = json.loads(session.get_modelmeta().custom_metadata_map["mixseg"])
    files: list[Any] = [nibabel.load(name) for name in words[1:-1]]
    if len(files) != about["channels"]:
        print(f"{words[0]} takes {about['channels']} channel(s), and {len(files)} are given.", file=sys.stderr)
        return 2
    images = [np.asanyarray(file.dataobj) for file in files]
    spacing = np.linalg.norm(files[0].affine[:3, :3], axis=0).tolist()
    labels = segment(session, about, np.stack([np.atleast_3d(image) for image in images]), spacing)
    first = files[0]
    nibabel.save(type(first)(labels.reshape(images[0].shape), first.affine, first.header), words[-1])
    return 0


def segment(session: Session, about: dict[str, Any], image: Array, spacing: Sequence[float]) -> Array:
    """``(channels, I, J, K)`` -> the index of the class of each voxel, ``(I, J, K)`` uint8."""
    grey = np.stack([to_8_bits(channel, about) for channel in image])
    if about["dims"] == 2:
        grey = np.moveaxis(grey, -1, 0)  # (K, channels, I, J): slices are rows of a batch
    own = grey.shape[-about["dims"] :]
    size = resampled(own, spacing, about)
    keeps_shape = about["dims"] == 3 or bool(about["spacing"] or about["long_side"])
    grid = np.rint(resize(grey, size, smooth=keeps_shape))
    spread = tuple(axis for axis in range(grid.ndim) if axis != (1 if about["dims"] == 2 else 0))
    final = tuple(about["size"] or size) if about["dims"] == 2 else size
    kept: tuple[Any, ...] = kept_part(size, final)
    mean, std = (of(grid[..., *kept], axis=spread, keepdims=True) for of in (np.mean, np.std))
    grid = centred(grid, final, 0)
    fed = grid / 255 if about["intensity"] == "unit" else (grid - mean) / np.maximum(std, 1e-3)
    fed = fed.astype(np.float32)
    if about["dims"] == 2:
        rows = [fed[start : start + AT_ONCE] for start in range(0, len(fed), AT_ONCE)]
        probs = np.moveaxis(np.concatenate([run(session, some) for some in rows]), 1, 0)
        background, others = centred(probs[:1], size, 1), centred(probs[1:], size, 0)
        probs = np.moveaxis(resize(np.concatenate([background, others]), own, smooth=keeps_shape), 1, -1)
    else:
        probs = resize(by_windows(session, fed, about), own, smooth=True)
    labels = probs.argmax(axis=0).astype(np.uint8)
    for index in about["largest"]:
        labels[(labels == index) & ~largest(labels == index)] = 0
    return labels


def run(session: Session, rows: Array) -> Array:
    """The class probabilities of some rows."""
    return np.asarray(session.run(None, {"image": rows})[0])


def to_8_bits(image: Array, about: dict[str, Any]) -> Array:
    """Grey values from 0 to 255, from what the metadata calls black and white."""
    values = image.astype(np.float64)
    low, high = ends(values, about["clip"], about.get("clip_by", "percentiles"))
    return np.rint(((values - low) * (255 / (high - low or 1))).clip(0, 255))


def ends(values: Array, clip: Sequence[float] | None, by: str) -> Sequence[float]:
    """The values that become black and white: "outliers" is minimum and maximum unless a few voxels take these up."""
    if by == "values" and clip:
        return clip
    if by == "percentiles" and clip:
        low, high = np.percentile(values, clip)
        return low, high
    whole = (values.min(), values.max())
    if by != "outliers":
        return whole
    step = max(1, math.ceil((values.size / 2**20) ** (1 / values.ndim)))
    some = values[(slice(None, None, step),) * values.ndim].ravel()
    solid = some[some > -900]
    is_ct = len(solid) < len(some) and ((solid > -200) & (solid < 300)).sum() >= 0.2 * max(1, len(solid))
    body = solid[solid < 2000] if is_ct else some[some != whole[0]]
    low, high = np.percentile(body if len(body) else some, (0.5, 99.5))
    if low == high or whole[1] - whole[0] <= 10 * (high - low):
        return whole
    low, high = np.percentile(body, clip or (0.5, 99.5))
    return low, high


def resampled(own: Sequence[int], spacing: Sequence[float], about: dict[str, Any]) -> tuple[int, ...]:
    """The number of voxels that a scan (a slice, in 2D) has on the grid of the training."""
    extent = [n * mm for n, mm in zip(own, spacing, strict=False)]
    if about["spacing"]:
        wanted = about["spacing"]
    elif about["long_side"]:
        wanted = [max(extent) / about["long_side"]] * len(own)
    else:
        return tuple(about["size"] or own)
    return tuple(max(1, round(length / mm)) for length, mm in zip(extent, wanted, strict=True))


def resize(array: Array, size: Sequence[int], *, smooth: bool) -> Array:
    """The last axes to another number of voxels of the same extent: linear; ``smooth`` averages on a coarser one."""
    out = array.astype(np.float32)
    for axis, target in enumerate(size, start=array.ndim - len(size)):
        source = array.shape[axis]
        centre = (np.arange(target) + 0.5) * (source / target) - 0.5
        reach = source / target if smooth and target < source else 1.0
        if source != target:
            centre = centre if reach > 1 else centre.clip(0, source - 1)
            weight = (1 - np.abs(centre[:, None] - np.arange(source)) / reach).clip(min=0)
            weight = (weight / weight.sum(axis=1, keepdims=True)).astype(np.float32)
            out = np.moveaxis(np.tensordot(weight, out, (1, axis)), 0, axis)
    return out


def kept_part(of: Sequence[int], within: Sequence[int]) -> tuple[Any, ...]:
    """The part of a grid that lies within another one round the same centre."""
    spare = [max(0, have - want) // 2 for have, want in zip(of, within, strict=True)]
    return tuple(slice(gap, gap + min(pair)) for gap, *pair in zip(spare, of, within, strict=True))


def centred(array: Array, size: Sequence[int], fill: float) -> Array:
    """The last axes cropped or padded to ``size`` round their centre."""
    old = array.shape[array.ndim - len(size) :]
    out = np.full((*array.shape[: array.ndim - len(size)], *size), fill, array.dtype)
    out[..., *kept_part(size, old)] = array[..., *kept_part(old, size)]
    return out


def by_windows(session: Session, volume: Array, about: dict[str, Any]) -> Array:
    """Class probabilities ``(classes, *S)`` of a volume ``(channels, *S)``, averaged over windows that overlap."""
    own, patch = volume.shape[1:], about["patch"]
    inside: list[Any] = []
    for axis, (have, want) in enumerate(zip(own, patch, strict=True), start=1):
        before = max(0, want - have) // 2
        volume = volume.take((np.arange(max(have, want)) - before).clip(0, have - 1), axis=axis)
        inside.append(slice(before, before + have))
    steps = about["starts_every"] or [max(1, side // 2) for side in patch]
    starts = [
        sorted({*range(0, have - side, min(step, side)), have - side})
        for have, side, step in zip(volume.shape[1:], patch, steps, strict=True)
    ]
    weight = np.ones(patch, np.float32)
    for axis, side in enumerate(patch if about["window"] == "gaussian" else ()):
        distance = (np.arange(side) - (side - 1) / 2).reshape([-1 if at == axis else 1 for at in range(3)])
        weight = weight * np.exp(-(distance**2) / (2 * (side / 8) ** 2)).astype(np.float32)
    weight = weight.clip(min=1e-3 if about["window"] == "gaussian" else 1)
    total = np.zeros(volume.shape[1:], np.float32)
    sums = np.zeros((len(about["classes"]), *total.shape), np.float32)
    for corner in itertools.product(*starts):
        box = tuple(slice(start, start + side) for start, side in zip(corner, patch, strict=True))
        sums[:, *box] += weight * run(session, volume[None, :, *box])[0]
        total[box] += weight
    return (sums / total)[:, *inside]


def largest(mask: Array) -> Array:
    """The largest connected component of a mask; voxels that touch by a corner are connected."""
    places = np.argwhere(mask)
    if not len(places):
        return mask
    box = tuple(slice(low, high + 1) for low, high in zip(places.min(axis=0), places.max(axis=0), strict=True))
    wide = np.zeros([side.stop - side.start + 2 for side in box], np.int64)
    middle = wide[1:-1, 1:-1, 1:-1]
    middle[mask[box]] = np.arange(1, len(places) + 1)
    shifts = [shift for shift in itertools.product((0, 1, 2), repeat=3) if shift != (1, 1, 1)]
    while True:  # every voxel takes the highest number that it can see, and then the number that this one has taken
        before = middle.copy()
        for i, j, k in shifts:
            i_, j_, k_ = (side - 2 for side in wide.shape)
            np.maximum(middle, np.where(before > 0, wide[i : i + i_, j : j + j_, k : k + k_], 0), out=middle)
        numbers = middle[before > 0]
        middle[before > 0] = np.maximum(numbers, numbers[numbers - 1])
        if np.array_equal(before, middle):
            break
    out = np.zeros_like(mask)
    out[box] = middle == np.bincount(middle[middle > 0]).argmax()
    return out


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
