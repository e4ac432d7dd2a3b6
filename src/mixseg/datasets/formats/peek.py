"""What a file seems to hold, from its header and its first slices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mixseg.datasets.formats.base import NIFTI, NRRD, SEGMENTS, reading, suffix
from mixseg.datasets.formats.volumes import read

ENOUGH = 2**21
"""So many voxels show grey values where there are any."""


def declares_labels(path: Path) -> bool:
    """Whether the header says that these are labels; few that hold some do."""
    with reading(path):
        if suffix(path) in NIFTI:
            from mixseg.datasets.formats import nifti

            return nifti.declares_labels(path)
        if suffix(path) in NRRD:
            from mixseg.datasets.formats import nrrd

            return "Segment0_ID" in nrrd.header(path).meta
    return suffix(path) in SEGMENTS


def leading(path: Path) -> NDArray[np.generic]:
    """The first slices, as many as are needed; all of them where the format cannot be read in part."""
    if suffix(path) not in NIFTI:
        return read(path).array
    from mixseg.datasets.formats import nifti

    with reading(path):
        return nifti.leading(path, ENOUGH)
