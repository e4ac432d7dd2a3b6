"""The arrays of the store, each a file called by what went into it: whole or absent, with a checksum. numpy alone.

An image is an ordinary ``.npy``, which is mapped. Labels are compressed by zlib: the coordinates of what is labelled
where that is little, as it is of strokes, and all voxels where it is not. What is all IGNORE has no file. Beside each
array lies a small ``.json`` with its checksum and what was found out while it was made; it is written last, and says
that the entry is there. So a kill loses the entry at work alone, and of two processes that make the same one either is
right.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mixseg.core.errors import MixsegError
from mixseg.core.files import replacing
from mixseg.core.types import IGNORE, Bytes, Labels
from mixseg.data.scan import VoxelIndices

ENTRIES = "entries"
"""The folder that they lie in."""
PARTS = ("image", "full", "partial")
"""The arrays of a scan."""
FEW = 8
"""Fewer than one in so many voxels labelled are written by their coordinates. Measured in benchmarks/store.py."""
NOTHING = np.empty((0, 4), np.int32)
LEVEL = 6
"""Of zlib."""

Facts = dict[str, Any]
"""What was found out while an entry was made, its checksum among it."""


class Entry(NamedTuple):
    """One array of one scan.

    Attributes:
        key: The hash of what it was made from.
        checksum: Of its values, however they are written.
    """

    key: str
    checksum: str


def checksum(*arrays: Bytes | VoxelIndices) -> str:
    """Equal for equal arrays, on every machine."""
    state = hashlib.blake2b(digest_size=16)
    for array in arrays:
        state.update(f"{array.dtype.str}{array.shape}".encode())
        state.update(np.ascontiguousarray(array).data)
    return state.hexdigest()


def is_key(text: str) -> bool:
    """Whether it is a hash, and so no way to another folder."""
    return re.fullmatch("[0-9a-f]{32}", text) is not None


def array_file(store: Path, part: str, key: str) -> Path:
    """Where the values of an entry lie."""
    return store / ENTRIES / key[:2] / f"{key}.{'npy' if part == 'image' else 'labels'}"


def write_image(store: Path, key: str, image: Bytes, facts: Mapping[str, Any]) -> Facts:
    """Write an image; returns what ``read_facts`` will."""
    path, image = array_file(store, "image", key), np.ascontiguousarray(image)
    with replacing(path) as temporary, temporary.open("wb") as file:
        # Not np.save: of a full disk it does not say that it is full.
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(image))
        file.write(image.data)
    return _finished(path, {"checksum": checksum(image), **facts})


def write_labels(
    store: Path, key: str, labels: Labels, facts: Mapping[str, Any], beyond: VoxelIndices = NOTHING
) -> Facts:
    """Write labels and what the grid cuts off of them; returns what ``read_facts`` will."""
    path = array_file(store, "full", key)
    at = np.flatnonzero(labels != IGNORE)
    arrays: list[NDArray[Any]] = [beyond, labels]
    if len(at) * FEW < labels.size:
        steps = np.diff(at, prepend=0).astype(np.uint32 if labels.size < 2**32 else np.uint64)
        arrays = [beyond, steps, labels.ravel()[at]]
    content = BytesIO()
    for array in arrays:
        np.save(content, array)
    with replacing(path) as temporary:
        temporary.write_bytes(zlib.compress(content.getbuffer(), LEVEL))
    return _finished(path, {"checksum": checksum(labels, beyond), **facts})


def _finished(path: Path, facts: Facts) -> Facts:
    with replacing(path.with_suffix(".json")) as temporary:
        temporary.write_text(json.dumps(facts))
    return facts


def read_facts(store: Path, part: str, key: str) -> Facts | None:
    """What was found out while an entry was made, its checksum among it; None if it is not there or broken."""
    path = array_file(store, part, key)
    try:
        found = json.loads(path.with_suffix(".json").read_text())
        return found if path.is_file() and isinstance(found, dict) and "checksum" in found else None
    except (OSError, ValueError):
        return None


def read_image(store: Path, entry: Entry, shape: tuple[int, ...], *, verify: bool) -> Bytes:
    """An image, mapped: nothing is read before it is used, but to verify it.

    Raises:
        MixsegError: It is not there, or not what was written.
    """
    path = array_file(store, "image", entry.key)
    try:
        # Copy on write: nobody changes the file, and torch takes the array without a copy or a warning. A plain array
        # over the mapping: slices of np.memmap objects carry baggage that multiplies when there are many.
        image = np.asarray(np.load(path, mmap_mode="c", allow_pickle=False))
    except Exception as error:  # damage can break the reader anywhere
        raise damaged(path, error) from None
    if image.shape != shape or image.dtype != np.uint8 or (verify and checksum(image) != entry.checksum):
        raise damaged(path, "its checksum is another")
    return image


def read_labels(store: Path, entry: Entry, shape: tuple[int, ...], *, verify: bool) -> tuple[Labels, VoxelIndices]:
    """Labels, and what the grid cuts off of them.

    Raises:
        MixsegError: They are not there, or not what was written.
    """
    path = array_file(store, "full", entry.key)
    try:
        content = BytesIO(zlib.decompress(path.read_bytes()))
        arrays = [np.load(content, allow_pickle=False)]
        while content.tell() < len(content.getbuffer()):
            arrays.append(np.load(content, allow_pickle=False))
        beyond, *rest = arrays
        labels = rest[0] if len(rest) == 1 else _scattered(*rest, shape=shape)
    except Exception as error:  # damage can break the reader anywhere
        raise damaged(path, error) from None
    if labels.shape != shape or labels.dtype != np.uint8 or (verify and checksum(labels, beyond) != entry.checksum):
        raise damaged(path, "its checksum is another")
    return labels, beyond


def _scattered(steps: NDArray[Any], values: Labels, *, shape: tuple[int, ...]) -> Labels:
    labels = np.full(shape, IGNORE, np.uint8)
    labels.reshape(-1)[np.cumsum(steps, dtype=np.int64)] = values
    return labels


def damaged(path: Path, why: object) -> MixsegError:
    """The sentence about an entry that cannot be used; the others can."""
    return MixsegError(
        f"{path} is damaged or missing ({why}): mixseg store verify {path.parents[2]} --drop takes such entries out, "
        "and the same command again prepares them anew.",
        "broken-entry",
        file=path,
        store=path.parents[2],
    )


def listed(store: Path) -> set[str]:
    """The keys of the entries of which both files are there."""
    names = Counter(file.name.partition(".")[0] for file in files(store))
    return {key for key, count in names.items() if count == 2}


def files(store: Path) -> Iterator[os.DirEntry[str]]:
    """All files of entries, half-written ones too."""
    with suppress(FileNotFoundError), os.scandir(store / ENTRIES) as folders:
        for folder in folders:
            with suppress(NotADirectoryError), os.scandir(folder) as inside:
                yield from inside
