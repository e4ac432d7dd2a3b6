"""The files of a folder that may be images or labels, and which of the two each is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mixseg.core.errors import MixsegError
from mixseg.core.progress import track
from mixseg.core.types import CLASSES, VOLUMES_TABLE, Source
from mixseg.datasets import formats
from mixseg.datasets.formats.base import NIFTI, SEGMENTS
from mixseg.datasets.layouts.base import entries
from mixseg.datasets.layouts.own import names
from mixseg.datasets.layouts.table import Unplaced

VOLUMES = (*NIFTI, *SEGMENTS, ".nrrd", ".nhdr", ".mha", ".mhd")
PICTURES = (".png", ".bmp", ".tif", ".tiff", ".jpg", ".jpeg")
TEXTS = (".txt", ".label", ".tsv", ".json")
INDEX = "DICOMDIR"
"""The table of contents of a disc, which holds no slices."""

DEPTH = 8
"""So many folders deep files are looked for."""

MANY = 100
"""From this many files on, opening them takes long enough for a progress bar."""

FEW_VALUES, MOST_VALUES = 16, 512
"""A map of so few whole numbers is one of labels; one of up to so many, if equal ones lie together."""
TOGETHER = 0.6
"""The share of the painted voxels of labels whose neighbour holds the same."""

Role = Literal["image", "label", "either"]


@dataclass(frozen=True)
class Found:
    """A file, and what it seems to be.

    Attributes:
        path: Below the folder.
        role: "either" where neither its name nor its voxels say: one value in all of them.
        place: Where its voxels lie; None if that cannot be read.
        values: The ids of a label map that has no segments.
        low: The lowest grey value that was seen.
        problem: Why it cannot be used, in a sentence.
        series: Of DICOM: all files of an image, or of the image that a label map was drawn on.
    """

    path: Path
    role: Role = "image"
    place: formats.Geometry | None = None
    values: tuple[int, ...] = ()
    low: float = 0.0
    problem: str = ""
    series: tuple[Path, ...] = ()

    @property
    def parts(self) -> tuple[str, ...]:
        """Of its name; slices are called by numbers, and the folder that they lie in says more."""
        return names.tokens(self.path.parent.name) if self.is_series else names.of_file(self.path)

    @property
    def is_series(self) -> bool:
        """Whether it is an image of DICOM slices."""
        return bool(self.series) and self.role == "image"

    @property
    def source(self) -> Source:
        """Where an image is read from."""
        return Source(self.series or (self.path,))


@dataclass
class Listing:
    """The files below a folder.

    Attributes:
        voxels: Those that may be images or labels.
        dicom: Those of DICOM.
        texts: Those that may say what label ids mean.
        strange: The links that lead out of it.
    """

    voxels: list[Path] = field(default_factory=list)
    dicom: list[Path] = field(default_factory=list)
    texts: list[Path] = field(default_factory=list)
    strange: list[Unplaced] = field(default_factory=list)


def list_files(root: Path) -> Listing:
    """The files below ``root``.

    Pictures count where there are no volumes: beside those they are screenshots. Runs, and maps that a run predicted,
    are left alone.
    """
    found = Listing()
    _visit(root, root.resolve(), DEPTH, found)
    found.voxels = [path for path in found.voxels if formats.suffix(path) in VOLUMES] or found.voxels
    return found


def _visit(folder: Path, root: Path, depth: int, found: Listing) -> None:
    inside = entries(folder)
    there = {path.name for path in inside}
    if {"config.json", "environment.json"} <= there or (CLASSES in there and _predicted(inside)):
        return
    for path in inside:
        if path.is_symlink() and not path.resolve().is_relative_to(root):
            found.strange.append(
                Unplaced(path, f"{path} is a link out of the folder and is not followed: copy what it leads to here.")
            )
        elif path.is_symlink() and path.is_dir():
            continue  # what it leads to is found where it lies
        elif path.is_dir():
            if depth:
                _visit(path, root, depth - 1, found)
        elif formats.suffix(path) in (*VOLUMES, *PICTURES):
            found.voxels.append(path)
        elif path.suffix.lower() in TEXTS:
            found.texts.append(path)
        elif path.name != INDEX and formats.is_dicom(path):
            found.dicom.append(path)


def _predicted(inside: Sequence[Path]) -> bool:
    """Whether a run left its answers there."""
    return any(path.name.endswith(".mixseg.json") or path.name == VOLUMES_TABLE for path in inside)


def examine(paths: Sequence[Path], root: Path) -> list[Found]:
    """Each file with its role."""
    with ThreadPoolExecutor(max_workers=4) as pool:  # decompressing, the slow part, runs outside the interpreter lock
        results: Iterable[Found] = pool.map(_examine, paths, [root] * len(paths))
        found = list(track(results, "looking at files", total=len(paths)) if len(paths) >= MANY else results)
    return _settled(found, root)


def _examine(path: Path, root: Path) -> Found:
    named = bool(names.LABEL_WORDS & {*names.of_file(path), *names.of_folders(path, root)})
    guess: Role = "label" if named or formats.suffix(path) in SEGMENTS else "image"
    try:
        place = formats.read_geometry(path)
    except MixsegError as error:
        return Found(path, guess, problem=str(error))
    try:
        array = None if formats.declares_labels(path) else formats.leading(path)
        role = "label" if array is None else _role(array, path)
        if role == "label" and formats.suffix(path) not in SEGMENTS:
            return Found(path, role, place, tuple(formats.count_ids(path)))
    except MixsegError as error:
        return Found(path, guess, place, problem=str(error))
    if role == "either" and named:
        role = "label"
    grey = array is not None and array.size and array.dtype.kind in "iuf"
    return Found(path, role, place, low=float(np.min(array)) if grey and array is not None else 0.0)


def _role(array: NDArray[np.generic], path: Path) -> Role:
    """What the voxels say: labels are few whole numbers, and equal ones lie together."""
    values = _few(array)
    if values == 1:  # nothing in the first slices, perhaps
        array = formats.read(path).array
        values = _few(array)
    if values == 1:
        return "either"
    return "label" if values and (values <= FEW_VALUES or _lie_together(array)) else "image"


def _few(array: NDArray[np.generic]) -> int:
    """How many values there are, if they are few and may be ids, next to whole and none far below 0; else 0."""
    if array.dtype.kind not in "biuf" or len(np.unique(array.ravel()[:: max(1, array.size // 4096)])) > MOST_VALUES:
        return 0
    values = np.unique(array).astype(np.float64)
    if len(values) > MOST_VALUES or not np.isfinite(values).all():
        return 0
    ids = len(values) <= 2 or (np.abs(values - np.rint(values)).max() < 1e-2 and values.min() >= -1)
    return len(values) if ids else 0


def _lie_together(array: NDArray[np.generic]) -> bool:
    painted = array[:-1] != 0
    total = int(painted.sum())
    return total > 0 and int((painted & (array[:-1] == array[1:])).sum()) > TOGETHER * total


def _settled(found: list[Found], root: Path) -> list[Found]:
    """The same with a role each, and a sentence about names that say "label" of what holds grey values."""
    label_names = {_unnumbered(each) for each in found if each.role == "label"}
    images = [each for each in found if each.role == "image" and not each.problem]
    called = [each for each in images if names.LABEL_WORDS & set(each.parts)]
    settled = []
    for each in found:
        if each.role == "either":
            each = replace(each, role="label" if _unnumbered(each) in label_names else "image")
        if each in called and len(called) < len(images):
            sentence = (
                f"{each.path} is called a label and holds grey values: rename it if it is an image, or export the "
                "labels again as whole numbers."
            )
            each = replace(each, role="label", problem=sentence)
        settled.append(each)
    return settled


def _unnumbered(each: Found) -> frozenset[str]:
    """What a name has in common with those of the same file of other scans."""
    return frozenset(part for part in each.parts if not any(map(str.isdigit, part)))
