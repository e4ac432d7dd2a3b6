"""Anybody's folder: images and labels found by what they hold and how they are called, nothing copied or renamed."""

from __future__ import annotations

from pathlib import Path

from mixseg.core.types import Case
from mixseg.datasets.labels import LabelFlags
from mixseg.datasets.layouts.base import Say, silent, unique
from mixseg.datasets.layouts.own.dicom import find_dicom
from mixseg.datasets.layouts.own.files import examine, list_files
from mixseg.datasets.layouts.own.scans import find_scans
from mixseg.datasets.layouts.table import ScanTable

__all__ = ["cases", "fits", "images", "table"]


def fits(root: Path) -> bool:
    """Whether there is anything that may be an image."""
    listing = list_files(root)
    return bool(listing.voxels or listing.dicom)


def table(root: Path, flags: LabelFlags | None = None) -> ScanTable:
    """What is understood of a folder."""
    from mixseg.datasets.layouts.own.understand import understand  # here, as what it measures with takes long to import

    return understand(root, flags or LabelFlags())


def cases(root: Path, flags: LabelFlags | None = None, say: Say = silent) -> list[Case]:
    """One case per scan whose files can be used.

    Raises:
        MixsegError: It is not clear how the labels were drawn.
    """
    found = table(root, flags)
    for sentence in found.meanings:
        say(sentence)
    found.check_sure()
    return unique(found.cases, root)


def images(root: Path) -> list[Case]:
    """The scans alone: labels are looked at to tell them from images, and no more."""
    listing = list_files(root)
    found = [each for each in examine(listing.voxels, root) if each.role == "image"]
    scans, _ = find_scans(found, root, find_dicom(root, listing.dicom).scans)
    return unique([Case(scan.id, scan.patient, tuple(image.source for image in scan.images)) for scan in scans], root)
