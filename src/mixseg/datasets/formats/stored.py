"""Where and how the voxels of a file lie, as a text header says; and reading them, checked against the file before."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from mixseg.core.errors import MixsegError
from mixseg.core.types import Bytes
from mixseg.datasets.formats.base import check_size
from mixseg.datasets.formats.compressed import CHUNK, EXPANSION, inflated

Encoding = Literal["raw", "deflate", "text", "hex"]

GROWTH: dict[Encoding, float] = {"raw": 1, "deflate": EXPANSION, "text": 8, "hex": 0.5}
"""How many bytes of voxels a byte of the file can at most hold."""

LONGEST_HEADER = 1 << 22
"""Bytes of a text header: those of a thousand segments with their terms in a terminology are an eighth of it."""


@dataclass(frozen=True)
class Stored:
    """The voxels of one scan on disk.

    Attributes:
        path: The file that says it, for sentences.
        files: Where they lie, each with an equal share: the same file, or others beside it.
        dtype: Of a voxel, its byte order included.
        sizes: The axes, the fastest first.
        encoding: How they are written.
        start: The byte of each file at which they begin; -1 where they end with the file.
        lines: How many lines are to be skipped from there.
        skip: How many bytes then, which are compressed with the others.
    """

    path: Path
    files: tuple[Path, ...]
    dtype: np.dtype[Any]
    sizes: tuple[int, ...]
    encoding: Encoding
    start: int = 0
    lines: int = 0
    skip: int = 0

    def voxels(self) -> NDArray[np.generic]:
        """The voxels, the slowest axis first, as SimpleITK hands them to numpy.

        Raises:
            MixsegError: If they are more than a file may hold.
            ValueError: If the files cannot hold, or do not hold, what the header says.
        """
        size = prod(self.sizes) * self.dtype.itemsize
        there = sum(max(0, file.stat().st_size - max(0, self.start)) for file in self.files)
        check_size(self.path, size, int(there * GROWTH[self.encoding]))
        share = size // len(self.files)
        parts = [self._part(file, share) for file in self.files]
        whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return whole.view(self.dtype).reshape(self.sizes[::-1])

    def _part(self, path: Path, size: int) -> Bytes:
        with path.open("rb") as file:
            file.seek(self.start if self.start >= 0 else path.stat().st_size - size)
            for _ in range(self.lines):
                file.readline(LONGEST_HEADER)
            return READERS[self.encoding](file, size + self.skip, self.dtype)[self.skip :]


def _raw(file: BinaryIO, size: int, _dtype: np.dtype[Any]) -> Bytes:
    result = np.fromfile(file, np.uint8, size)
    if len(result) < size:
        raise ValueError(f"{len(result)} bytes instead of {size}")
    return result


def _text(file: BinaryIO, size: int, dtype: np.dtype[Any]) -> Bytes:
    numbers = np.array(file.read().split(), np.bytes_).astype(dtype)[: size // dtype.itemsize]
    if numbers.nbytes < size:
        raise ValueError(f"{len(numbers)} numbers are too few")
    return numbers.view(np.uint8)


def _hex(file: BinaryIO, size: int, _dtype: np.dtype[Any]) -> Bytes:
    result = np.frombuffer(bytes.fromhex(file.read().decode("ascii")), np.uint8)[:size]
    if len(result) < size:
        raise ValueError(f"{len(result)} bytes instead of {size}")
    return result


READERS: dict[Encoding, Callable[[BinaryIO, int, np.dtype[Any]], Bytes]] = {
    "raw": _raw,
    "deflate": lambda file, size, _dtype: inflated(file, size),
    "text": _text,
    "hex": _hex,
}


def beside(path: Path, names: Iterable[str]) -> tuple[Path, ...]:
    """The files that the header in ``path`` names, which lie in its folder or below.

    Raises:
        MixsegError: If one of them leads elsewhere, or is not there.
    """
    found = []
    for name in names:
        file = path.parent / name
        if not name or "\0" in name or Path(name).is_absolute() or ".." in Path(name).parts:
            raise MixsegError(
                f"{path} says that its voxels lie in {name!r}, outside its folder: put both files into one folder, "
                "and name the file alone.",
                "file-elsewhere",
                file=path,
                other=name,
            )
        if not file.is_file():
            raise MixsegError(
                f"{path} says that its voxels lie in {name!r}, which is not there: copy that file, too.",
                "file-missing",
                file=path,
                other=name,
            )
        found.append(file)
    if not found:
        raise ValueError("no file of voxels is named")
    return tuple(found)


def numbered(pattern: str, first: str, last: str, step: str) -> list[str]:
    """``"slice%03d.raw", 1, 9, 2``: the names of the files.

    Raises:
        ValueError: If these are no numbers, or too many, or the pattern has another place than one for a number.
    """
    numbers = range(int(first), int(last) + (1 if int(step) > 0 else -1), int(step))
    if len(numbers) > CHUNK:
        raise ValueError(f"{len(numbers)} files")
    try:
        return [pattern % number for number in numbers]
    except TypeError as error:
        raise ValueError(f"{pattern!r} is no pattern of names") from error


def floats(text: str, count: int) -> list[float]:
    """So many numbers, between blanks.

    Raises:
        ValueError: If there are more or fewer, or they are none.
    """
    found = [float(word) for word in text.split()]
    if len(found) != count:
        raise ValueError(f"{len(found)} numbers instead of {count}")
    return found
