"""Prepared folders as versions up to 0.1.0 wrote them: three flat arrays with all scans. Read, not written."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from io import BytesIO
from itertools import accumulate
from math import prod
from pathlib import Path

import numpy as np

from mixseg.core.errors import MixsegError
from mixseg.core.types import Bytes
from mixseg.data.scan import VoxelIndices

FORMAT = 1
CROPPED, CROPPED_BEFORE = "cropped.npy", "beyond.npy"
"""What the grid cuts off, and the same of earlier versions."""


class FlatArrays:
    """The arrays of such a folder: mapped, nothing is read before it is used.

    Args:
        folder: Where they lie.
        shapes: Of the scans, in the order of the arrays.
        channels: Of each image.
        cropped: How many foreground voxels of each scan lie beyond the grid.
    """

    def __init__(
        self, folder: Path, shapes: Sequence[tuple[int, ...]], *, channels: int, cropped: Sequence[int]
    ) -> None:
        self.folder, self.channels = folder, channels
        self.ends = list(accumulate(map(prod, shapes), initial=0))
        self.cropped_ends = list(accumulate(cropped, initial=0))
        sizes = {"image": self.ends[-1] * channels, "full": self.ends[-1], "partial": self.ends[-1]}
        self.arrays = {name: _mapped(folder / f"{name}.npy", size) for name, size in sizes.items()}

    def part(self, name: str, index: int) -> Bytes:
        """One array of the scan ``index``, flat."""
        scale = self.channels if name == "image" else 1
        return self.arrays[name][self.ends[index] * scale : self.ends[index + 1] * scale]

    def cropped(self, index: int) -> VoxelIndices:
        """What the grid cuts off of its full mask."""
        path = self.folder / CROPPED
        path = path if path.exists() else path.with_name(CROPPED_BEFORE)
        try:
            every = np.load(path, allow_pickle=False)
        except Exception as error:  # damage can break the reader anywhere
            raise _unreadable(path, error) from None
        return np.asarray(every[self.cropped_ends[index] : self.cropped_ends[index + 1]], np.int32)


def remove(folder: Path) -> None:
    """Remove the arrays of such a folder."""
    for name in ("image.npy", "full.npy", "partial.npy", CROPPED, CROPPED_BEFORE):
        (folder / name).unlink(missing_ok=True)


def content_of(sizes: Sequence[int], arrays: Iterable[Iterable[Bytes]], cropped: VoxelIndices) -> str:
    """The hash that such a folder has of these arrays, each in parts: what runs of those versions were trained on."""
    state = hashlib.blake2b(digest_size=16)
    for size, parts in zip(sizes, arrays, strict=True):
        header = BytesIO()
        np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (size,)})
        state.update(header.getvalue())
        for part in parts:
            state.update(np.ascontiguousarray(part).data)
    if len(cropped):
        last = BytesIO()
        np.save(last, cropped)
        state.update(last.getvalue())
    return state.hexdigest()


def _mapped(path: Path, size: int) -> Bytes:
    """The flat array of a file, mapped."""
    try:
        array = np.load(path, mmap_mode="c", allow_pickle=False)
    except Exception as error:  # damage can break the reader anywhere
        raise _unreadable(path, error) from None
    if array.dtype != np.uint8 or array.shape != (size,):
        raise MixsegError(
            f"{path} has {array.size} voxels where index.json says {size}: prepare the scans again.",
            "broken-file",
            file=path,
        )
    return np.asarray(array)


def _unreadable(path: Path, error: Exception) -> MixsegError:
    return MixsegError(f"{path} cannot be read ({error}): prepare the scans again.", "unreadable-file", file=path)
