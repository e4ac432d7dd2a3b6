"""Which library reads a file, and one sentence for each way in which a file can be broken."""

from __future__ import annotations

import errno
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mixseg.core.errors import MixsegError, lacks_memory
from mixseg.core.types import Volume
from mixseg.datasets.formats.geometry import Geometry

NIFTI = (".nii.gz", ".nii")
SEGMENTS = (".seg.nrrd",)
ITK = (".nrrd", ".nhdr", ".mha", ".mhd", ".png", ".bmp", ".tif", ".tiff", ".jpg", ".jpeg")
HDF5 = (".h5", ".hdf5")
SUFFIXES = (*NIFTI, *SEGMENTS, *ITK, *HDF5)
"""What can be read; a suffix comes before those that it ends with."""

TRANSPOSED = ".T"
"""After an h5 key: the file holds (K, J, I), as SimpleITK hands arrays to numpy, or (J, I) for one slice."""


class Format(Protocol):
    """What each of the modules beside this one offers."""

    def read(self, path: Path, key: str = "") -> Volume:
        """Voxels and geometry."""

    def geometry(self, path: Path, key: str = "") -> Geometry:
        """The geometry alone."""


def suffix(path: Path) -> str:
    """The part of the name that says the format: ``a.b.nii.gz`` -> ".nii.gz"; "" if no format is known by it."""
    name = path.name.lower()
    return next((known for known in SUFFIXES if name.endswith(known) and len(name) > len(known)), "")


def stem(path: Path) -> str:
    """The name without the part that says the format: ``a.b.nii.gz`` -> "a.b"."""
    return path.name[: len(path.name) - len(suffix(path))]


def format_of(path: Path) -> Format:
    """The module that reads ``path``. Libraries are imported when a file needs them: each takes a fifth of a second."""
    ending = suffix(path)
    if ending in NIFTI:
        from mixseg.datasets.formats import nifti

        return nifti
    if ending in SEGMENTS:
        from mixseg.datasets.formats import segments

        return segments
    if ending in ITK:
        from mixseg.datasets.formats import itk

        return itk
    if ending in HDF5:
        from mixseg.datasets.formats import hdf5

        return hdf5
    raise MixsegError(
        f"{path} is of no known format: convert it to one of {', '.join(SUFFIXES)}.", "unknown-format", file=path
    )


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever a library raises while it reads ``path`` into one sentence with a remedy."""
    try:
        if path.stat().st_size == 0:
            raise MixsegError(f"{path} is empty (zero bytes): copy or export it again.", "empty-file", file=path)
        path.open("rb").close()  # a missing permission, for which libraries have errors of their own
        yield
    except OSError as error:
        raise _unreadable(path, error) from error
    except (RuntimeError, ValueError, KeyError, EOFError, MemoryError, OverflowError, zlib.error) as error:
        # SimpleITK raises RuntimeError for everything, nibabel ValueError or EOFError for missing bytes.
        raise (_too_large(path) if lacks_memory(error) else _broken(path)) from error
    except Exception as error:
        if type(error).__module__.startswith("nibabel"):  # its own exceptions derive from Exception alone
            raise _broken(path) from error
        raise


def grey(array: NDArray[np.generic], path: Path) -> NDArray[np.generic]:
    """The one channel of a colour image ``(..., channels)`` that is grey."""
    channels = np.moveaxis(array, -1, 0)[:3]  # a fourth one is opacity
    if (channels != channels[:1]).any():
        raise MixsegError(
            f"{path} is in colour: save it with one grey channel, or one file per channel.", "colour-image", file=path
        )
    return np.asarray(channels[0])


def _unreadable(path: Path, error: OSError) -> MixsegError:
    """What the system has against reading ``path``."""
    if isinstance(error, FileNotFoundError):
        sentence = f"{path} does not exist (or is a link to nothing): check the path."
        return MixsegError(sentence, "file-missing", file=path)
    if isinstance(error, PermissionError):
        sentence = f"{path} may not be read (no permission): ask its owner, or copy it to a folder of yours."
        return MixsegError(sentence, "no-permission", file=path)
    if error.errno == errno.ELOOP:
        sentence = f"{path} is a symbolic link that leads back to itself: remove it, or link to the file that is meant."
        return MixsegError(sentence, "dead-link", file=path)
    if isinstance(error, IsADirectoryError):
        return MixsegError(f"{path} is a folder: give a file.", "not-a-file", file=path)
    return _too_large(path) if error.errno == errno.ENOMEM else _broken(path)


def _too_large(path: Path) -> MixsegError:
    return MixsegError(
        f"{path} takes more memory than there is: end other programs or take a larger machine; copy or export it again "
        "if it should be smaller.",
        "out-of-memory",
        file=path,
    )


def _broken(path: Path) -> MixsegError:
    """What the library said stays in the traceback: it speaks of its own insides."""
    sentence = f"{path} cannot be read, it is truncated or damaged: copy or export it again."
    return MixsegError(sentence, "broken-file", file=path)
