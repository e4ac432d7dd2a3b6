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

BROKEN = "cannot be read, it is truncated or damaged: copy or export it again."
"""What the library said stays in the traceback: it speaks of its own insides."""
TOO_LARGE = (
    "takes more memory than there is: end other programs or take a larger machine; copy or export it again if it "
    "should be smaller."
)


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
    raise MixsegError(f"{path} is of no known format: convert it to one of {', '.join(SUFFIXES)}.")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever a library raises while it reads ``path`` into one sentence with a remedy."""
    try:
        if path.stat().st_size == 0:
            raise MixsegError(f"{path} is empty (zero bytes): copy or export it again.")
        path.open("rb").close()  # a missing permission, for which libraries have errors of their own
        yield
    except OSError as error:
        raise MixsegError(f"{path} {_reason(error)}") from error
    except (RuntimeError, ValueError, KeyError, EOFError, MemoryError, OverflowError, zlib.error) as error:
        # SimpleITK raises RuntimeError for everything, nibabel ValueError or EOFError for missing bytes.
        raise MixsegError(f"{path} {TOO_LARGE if lacks_memory(error) else BROKEN}") from error
    except Exception as error:
        if type(error).__module__.startswith("nibabel"):  # its own exceptions derive from Exception alone
            raise MixsegError(f"{path} {BROKEN}") from error
        raise


def grey(array: NDArray[np.generic], path: Path) -> NDArray[np.generic]:
    """The one channel of a colour image ``(..., channels)`` that is grey."""
    channels = np.moveaxis(array, -1, 0)[:3]  # a fourth one is opacity
    if (channels != channels[:1]).any():
        raise MixsegError(f"{path} is in colour: save it with one grey channel, or one file per channel.")
    return np.asarray(channels[0])


def _reason(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "does not exist (or is a link to nothing): check the path."
    if isinstance(error, PermissionError):
        return "may not be read (no permission): ask its owner, or copy it to a folder of yours."
    if error.errno == errno.ELOOP:
        return "is a symbolic link that leads back to itself: remove it, or link to the file that is meant."
    if isinstance(error, IsADirectoryError):
        return "is a folder: give a file."
    return TOO_LARGE if error.errno == errno.ENOMEM else BROKEN
