"""The one way into zip files from anywhere, npz among them: what is in one is checked before it is unpacked."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import BytesIO
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from mixseg.core.errors import MixsegError, lacks_memory

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

METHODS = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: 1032, zipfile.ZIP_LZMA: 1 << 14}
"""What we write, and how many bytes one of it can at most become (of lzma about 7000 were seen, of zeros)."""
LARGEST = 1 << 32
"""Bytes of one member."""
MOST = 1 << 20
"""Members."""
ENCRYPTED = 1


class Archive:
    """The members of an open archive by name; each is read whole, and its checksum compared."""

    def __init__(self, path: Path, file: zipfile.ZipFile) -> None:
        self.path = path
        self._file = file
        self._members = {info.filename: info for info in file.infolist()}
        _check(path, file)

    def __contains__(self, name: str) -> bool:
        return name in self._members

    @property
    def names(self) -> list[str]:
        """Of the members, in their order."""
        return list(self._members)

    def read(self, name: str) -> bytes:
        """The bytes of a member.

        Raises:
            MixsegError: If it is not there.
        """
        if name not in self._members:
            raise MixsegError(
                f"{self.path} has no part {name!r}: it was cut short or is something else; copy or make it again.",
                "broken-file",
                file=self.path,
                part=name,
            )
        with sound(self.path):
            return self._file.read(self._members[name])


@contextmanager
def opened(path: Path) -> Iterator[Archive]:
    """The archive in ``path``.

    Raises:
        MixsegError: If it is none, is damaged, or holds what none of ours does: encrypted members, other ways to
            compress, doubled names, sizes that cannot be, paths that lead elsewhere.
    """
    with ExitStack() as stack:
        with sound(path):
            archive = Archive(path, stack.enter_context(zipfile.ZipFile(path)))
        yield archive


@contextmanager
def sound(path: Path) -> Iterator[None]:
    """Inside, whatever a damaged archive breaks is one sentence."""
    try:
        yield
    except MixsegError:
        raise
    except FileNotFoundError:
        raise MixsegError(f"{path} does not exist: check the path.", "file-missing", file=path) from None
    except Exception as error:  # damage can break a reader anywhere
        if lacks_memory(error):
            raise MixsegError(
                f"{path} takes more memory than there is: end other programs.", "out-of-memory", file=path
            ) from error
        raise MixsegError(
            f"{path} is damaged, or no archive of ours ({error}): copy or make it again.", "broken-file", file=path
        ) from error


def _check(path: Path, file: zipfile.ZipFile) -> None:
    infos = file.infolist()
    if len(infos) > MOST:
        raise _refused(path, f"it has {len(infos)} parts")
    there = path.stat().st_size
    seen: set[str] = set()
    for info in infos:
        name = info.filename
        if name in seen:
            raise _refused(path, f"two of its parts are called {name!r}")
        seen.add(name)
        if info.flag_bits & ENCRYPTED:
            raise _refused(path, f"its part {name!r} is encrypted")
        if info.compress_type not in METHODS:
            raise _refused(path, f"its part {name!r} is compressed in a way that we never use")
        if name.startswith(("/", "\\")) or ".." in name.replace("\\", "/").split("/"):
            raise _refused(path, f"its part {name!r} leads out of it")
        if info.compress_size > there or info.file_size > min(LARGEST, METHODS[info.compress_type] * there):
            raise _refused(path, f"its part {name!r} says that it has {info.file_size} bytes")


def _refused(path: Path, why: str) -> MixsegError:
    return MixsegError(f"{path} is no archive of ours: {why}; copy or make it again.", "broken-file", file=path)


def array_of(archive: Archive, name: str) -> NDArray[np.generic]:
    """The array that ``files.writing_arrays`` or ``np.savez`` calls ``name``; nothing is unpickled."""
    import numpy as np  # here, so that whoever reads text need not wait for it

    data = BytesIO(archive.read(f"{name}.npy"))
    with sound(archive.path):
        version = np.lib.format.read_magic(data)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(data)
        if dtype.hasobject or prod(shape) * dtype.itemsize != len(data.getbuffer()) - data.tell():
            raise ValueError(f"{name} is no array, or has another size than it says")
        data.seek(0)
        array: NDArray[np.generic] = np.lib.format.read_array(data, allow_pickle=False)
    return array


def array_names(archive: Archive) -> list[str]:
    """Of the arrays."""
    return [name.removesuffix(".npy") for name in archive.names]


def read_arrays(path: Path) -> dict[str, NDArray[np.generic]]:
    """All arrays of an npz file.

    Raises:
        MixsegError: As ``opened`` does.
    """
    with opened(path) as archive:
        return {name: array_of(archive, name) for name in array_names(archive)}
