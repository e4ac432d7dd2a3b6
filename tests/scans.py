"""Small scans on disk for the tests of data: real files, read through mixseg.datasets.formats."""

from pathlib import Path

import numpy as np

from mixseg.core.types import IGNORE, Case, Source
from mixseg.data.scan import Header
from mixseg.datasets import formats

CLASSES = ("background", "RV", "Myo", "LV")
FULL_IDS = {0: 0, 1: 1, 2: 2, 3: 3}
DRAWN_IDS = {**FULL_IDS, 4: IGNORE}
AFFINE = np.diag([-1.5, -1.25, 8.0, 1.0])


def discs(shape, seed):
    """Nested discs of the classes that move from slice to slice, noise over them, and one-voxel strokes."""
    rng = np.random.default_rng(seed)
    i, j, k = np.indices(shape)
    middle = np.array(shape[:2]) / 2 + rng.uniform(-2, 2, 2)
    radius = np.hypot(i - middle[0] - k / 3, j - middle[1])
    mask = np.select([radius < 4, radius < 6, radius < 9], [3, 2, 1], 0).astype(np.uint8)
    image = (100 * mask + 40 * rng.standard_normal(shape) + 300).astype(np.int16)
    strokes = np.full(shape, 4, np.uint8)
    row = int(middle[0])
    strokes[row, :, :] = mask[row, :, :]
    return image, mask, strokes


def write_case(folder: Path, patient: str, frame: str = "01", *, full=True, drawn=True, shape=(20, 24, 3), split=""):
    """One case of four classes, with the masks that are asked for."""
    name = f"{patient}_{frame}"
    arrays = discs(shape, seed=sum(map(ord, name)))
    files = [folder / f"{name}{kind}.nii.gz" for kind in ("", "_full", "_drawn")]
    for path, array in zip(files, arrays, strict=True):
        formats.write(path, array, affine=AFFINE)
    return Case(
        id=name,
        patient=patient,
        image=(Source((files[0],)),),
        full=Source((files[1],), ids=FULL_IDS) if full else None,
        partial=Source((files[2],), ids=DRAWN_IDS) if drawn else None,
        classes=CLASSES,
        frame=frame,
        split=split,
    )


def write_cases(folder: Path, patients: int, **options):
    """Two frames each of patients p00, p01, ..."""
    return [
        write_case(folder, f"p{number:02}", frame, **options) for number in range(patients) for frame in ("01", "09")
    ]


def header(shape, spacing, spacing_known=True, **others):
    """What is known of a scan of this shape with voxels of this size."""
    affine = tuple(map(tuple, np.diag([*spacing, 1.0]).tolist()))
    known = {"id": "c", "patient": "c", "frame": "", "classes": (), "annotated": None, "split": "", "channels": 1}
    there = {"source": "c", "has_full": False, "has_drawn": False, "fingerprint": ""}
    place = {"shape": shape, "affine": affine, "spacing": spacing, "spacing_known": spacing_known}
    return Header(**{**known, **place, **there, **others})
