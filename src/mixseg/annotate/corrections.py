"""What somebody has changed in a label map that was proposed: found by a copy of it as it was written.

The copies lie in ``.proposals`` beside the label maps. A new one is written before its map, and the older ones go when
the map is there: after a kill the map is one of them, whichever, but for what was changed since.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mixseg.core.errors import MixsegError
from mixseg.core.files import writing_arrays
from mixseg.core.types import Labels, Source
from mixseg.datasets import formats
from mixseg.inference.targets import Target

FOLDER = ".proposals"


class Corrections(NamedTuple):
    """What is there of an earlier proposal.

    Attributes:
        labels: ``(I, J, K)`` class indices, as the label map has them now.
        changed: Where somebody has changed them.
    """

    labels: Labels
    changed: NDArray[np.bool_]


def find_corrections(target: Target, classes: Sequence[str]) -> Corrections | None:
    """What was changed in the label map of a scan; None if there is no map, or none of ours.

    Raises:
        MixsegError: The map cannot be read, has a class that the run does not know, or lies on another grid.
    """
    path, copies = target.file(), _copies(target)
    if not path.exists() or not copies:
        return None
    labels = _read(path, classes)
    differing: list[NDArray[np.bool_]] = []
    for copy in copies:
        proposed = _load(copy)
        if proposed.shape != labels.shape:
            raise MixsegError(
                f"{path} has another grid than was proposed ({labels.shape} voxels, not {proposed.shape}): save it on "
                "the grid of the image, or remove it to have it made anew.",
                "geometry-differs",
                file=path,
            )
        differing.append(labels != proposed)
    return Corrections(labels, min(differing, key=lambda changed: int(changed.sum())))


def keep_copy(target: Target, labels: Labels) -> Path:
    """Leave a copy of a label map that is about to be written; returns its file."""
    name = hashlib.sha256(labels.tobytes()).hexdigest()[:16]
    path = _stem(target).with_name(f"{_stem(target).name}.{name}.npz")
    with writing_arrays(path) as keep:
        keep("labels", labels)
    return path


def forget_others(target: Target, kept: Path) -> None:
    """Remove the copies of earlier label maps of a scan."""
    for path in _copies(target):
        if path != kept:
            path.unlink(missing_ok=True)


def _stem(target: Target) -> Path:
    return target.out / FOLDER / target.case.id


def _copies(target: Target) -> list[Path]:
    stem = _stem(target)
    found = stem.parent.glob(f"*.{'[0-9a-f]' * 16}.npz") if stem.parent.is_dir() else ()
    return sorted(path for path in found if path.name.rpartition(".")[0].rpartition(".")[0] == stem.name)


def _load(path: Path) -> Labels:
    try:
        with np.load(path, allow_pickle=False) as found:
            return np.asarray(found["labels"], np.uint8)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise MixsegError(
            f"{path} is damaged ({error}), and without it nobody knows what was corrected: put the label map "
            "beside the scan as its strokes, or remove both to have it proposed anew.",
            "broken-file",
            file=path,
        ) from None


def _read(path: Path, classes: Sequence[str]) -> Labels:
    """A label map with the class indices of the run, whatever viewer has saved it."""
    volume = formats.read_ids(Source((path,)))
    ids = {index: index for index in range(len(classes))}
    if formats.suffix(path) in formats.SEGMENTS:
        own = [name.lower() for name in classes]
        names = formats.segment_names(path)
        ids = {0: 0} | {number: own.index(name.lower()) for number, name in names.items() if name.lower() in own}
    unknown = sorted(set(np.unique(volume.array).tolist()) - set(ids))
    if unknown:
        raise MixsegError(
            f"{path} has the label {unknown[0]}, which is no class of the run ({', '.join(classes[1:])}): rename it, "
            "or train a run on scans that have it.",
            "class-unknown",
            file=path,
            label=unknown[0],
        )
    table = np.zeros(max(ids) + 1, np.uint8)
    table[list(ids)] = list(ids.values())
    return np.asarray(table[volume.array])
