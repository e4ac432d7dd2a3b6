"""How large each structure is: ``volumes.csv`` beside label maps, a row a scan."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from mixseg.core.errors import MixsegError
from mixseg.core.files import replacing
from mixseg.core.types import SIDECAR, VOLUMES_TABLE, Labels
from mixseg.data.prepare.store import PreparedCase
from mixseg.datasets.formats.label_files import FORMATS
from mixseg.inference.sidecar import REMEDY, Sidecar

SCAN = "scan"
"""The first column: the label map's path below the folder, without its suffix."""


def volumes_ml(
    labels: Labels, classes: Sequence[str], place: PreparedCase, nested: Mapping[str, str]
) -> dict[str, float] | None:
    """The volume of each class above the background on the grid of the image, of outer ones with those inside them.

    None where its voxels have no size.
    """
    if not place.spacing_known:
        return None
    voxel = abs(float(np.linalg.det(np.array(place.header.affine)[:3, :3]))) / 1000
    counts = np.zeros(len(classes), np.int64)
    for k in range(labels.shape[-1]):  # slice by slice: counting takes eight bytes a voxel
        counts += np.bincount(labels[..., k].ravel(), minlength=len(classes))
    voxels = {name: int(counts[index]) for index, name in enumerate(classes) if index}
    whole = dict(voxels)
    for inner, count in voxels.items():
        within = inner
        while within in nested:
            within = nested[within]
            whole[within] += count
    return {name: round(count * voxel, 4) for name, count in whole.items()}


def write_volumes(out: Path) -> None:
    """Write the table of all label maps in ``out`` and its folders that have a sidecar, of whatever command."""
    found: dict[str, dict[str, float]] = {}
    for path in sorted(out.rglob(f"*{SIDECAR}")):
        about, base = Sidecar.read(path), str(path).removesuffix(SIDECAR)
        if about and about.format in FORMATS and Path(base + FORMATS[about.format].suffix).exists():
            found[Path(base).relative_to(out).as_posix()] = about.volumes_ml or {}
    names = list(dict.fromkeys(name for volumes in found.values() for name in volumes))
    with replacing(out / VOLUMES_TABLE) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow([SCAN, *(f"{name}_ml" for name in names)])
        table.writerows([scan, *(volumes.get(name, "") for name in names)] for scan, volumes in found.items())


def check_table(out: Path) -> None:
    """Nothing, if there is no other table of that name.

    Raises:
        MixsegError: There is one that mixseg did not write.
    """
    path = out / VOLUMES_TABLE
    if not path.exists():
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        first = file.readline()
    if first.rstrip().split(",")[0] != SCAN:
        raise MixsegError(
            f"{path} would be overwritten, and mixseg predict did not write it: {REMEDY}", "would-overwrite", file=path
        )
