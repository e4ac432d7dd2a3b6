"""Which library reads a file, and one sentence for each way in which a file can be broken."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
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
NRRD = (".nrrd", ".nhdr")
META = (".mha", ".mhd")
PICTURES = (".png", ".bmp", ".tif", ".tiff", ".jpg", ".jpeg")
"""Formats without a voxel size: whatever resolution they hold is a printer's."""
ITK = (*NRRD, *META, *PICTURES)
HDF5 = (".h5", ".hdf5")
SUFFIXES = (*NIFTI, *SEGMENTS, *ITK, *HDF5)
"""What can be read; a suffix comes before those that it ends with."""

LARGEST = 1 << 32
"""Bytes of voxels, as they are read, that one file may hold: 4 GiB, a float of 4 bytes in each of 1024^3 voxels."""

LPS_TO_RAS = np.diag([-1.0, -1.0, 1.0, 1.0])

DICOM = (".dcm", ".dicom", ".ima")
"""How files of slices are often called; most archives call them by numbers alone."""

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


def is_dicom(path: Path) -> bool:
    """Whether it is a file of DICOM slices, by its name or by its first bytes."""
    if suffix(path):
        return False
    try:
        if not path.is_file() or path.suffix.lower() in DICOM:
            return path.is_file()
        with path.open("rb") as file:
            return file.read(132)[128:] == b"DICM"
    except OSError:
        return False


def format_of(path: Path) -> Format:
    """The module that reads ``path``. Libraries are imported when a file needs them: each takes a fifth of a second."""
    ending = suffix(path)
    if ending in NIFTI:
        from mixseg.datasets.formats import nifti

        return nifti
    if ending in SEGMENTS:
        from mixseg.datasets.formats import segments

        return segments
    if ending in NRRD:
        from mixseg.datasets.formats import nrrd

        return nrrd
    if ending in META:
        from mixseg.datasets.formats import metaimage

        return metaimage
    if ending in PICTURES:
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
    except MixsegError:
        raise
    except Exception as error:  # damage can break a reader anywhere, below Python too
        raise (_too_large(path) if lacks_memory(error) else _broken(path)) from error


def check_size(path: Path, claimed: int, at_most: int) -> None:
    """Nothing, if voxels of ``claimed`` bytes may be read: asked before there is memory for them.

    Args:
        path: Whose header claims it.
        claimed: Bytes of the voxels in memory.
        at_most: Bytes that the file, unfolded, can hold.

    Raises:
        MixsegError: If they are more than ``LARGEST``.
        MemoryError: If there is no memory for them.
        ValueError: If the file cannot hold them.
    """
    if claimed > LARGEST:
        np.empty(claimed, np.uint8)
        raise MixsegError(
            f"{path} holds {claimed / 2**30:.1f} GiB of voxels, and one file may hold {LARGEST / 2**30:g}: crop or "
            "resample the scan, or store it in a smaller type.",
            "scan-too-large",
            file=path,
            bytes=claimed,
        )
    if claimed > at_most:
        raise ValueError(f"{claimed} bytes of voxels in a file that holds {at_most} at most")


def checked_axes(sizes: Sequence[int], path: Path) -> tuple[int, int, int]:
    """The sizes of the three axes of a scan.

    Raises:
        MixsegError: If there are more.
    """
    if any(n != 1 for n in sizes[3:]):
        raise MixsegError(
            f"{path} holds {len(sizes)} axes of sizes {tuple(sizes)}: save each 3D scan as a file of its own.",
            "wrong-axes",
            file=path,
            axes=len(sizes),
        )
    i, j, k = (*sizes[:3], 1, 1)[:3]
    return i, j, k


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
