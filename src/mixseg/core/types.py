"""The nouns that every part shares: Volume, Source, Case, Part, Batch. Shapes are written here once.

Notation: ``B`` images in a batch, ``C`` channels or classes, ``S`` two or three spatial axes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:  # reading and preparing files needs no torch, which takes seconds to import
    from torch import Tensor

IGNORE = 255
"""An unlabeled voxel in memory. A scan without a mask is all IGNORE, so that "no labels" needs no code."""

Bytes = NDArray[np.uint8]
"""Grey values in 8 bits, or any other small whole numbers."""

Labels = Bytes
"""Class indices, and IGNORE where nothing is labelled."""

CLASSES = "classes.json"
"""Beside predicted label maps: the names of the classes by index."""

VOLUMES_TABLE = "volumes.csv"
"""Likewise: the ml of each structure, a row a scan."""

SIDECAR = ".mixseg.json"
"""What follows the name of a scan in the name of the file that says how its label map was made."""

ENTROPY, PROBABILITY = "_entropy", "_probability_"
"""What follows the name of a scan in the names of maps that lie beside its label map."""

Kind = Literal["full", "partial", "unlabeled"]
"""How a scan is supervised: every voxel labelled, some of them, none."""

KINDS: tuple[Kind, ...] = ("full", "partial", "unlabeled")

Sees = Literal["mixed", "full", "all-full", "unlabeled", "proposals"]
"""Which labels a run may look at; ``data.supervision.see`` says what each means."""

Device = Literal["auto", "cpu", "cuda", "mps"]
"""Where to compute; "auto" takes the GPU if there is one."""

Branch = Literal["student", "teacher", "both"]
"""Of a run with two branches: which one predicts, or the mean of both."""


@dataclass(frozen=True)
class Volume:
    """An array with its place in space.

    Attributes:
        array: ``(I, J, K)`` in the index order of the file; a single slice has ``K = 1``.
        affine: ``(4, 4)``, voxel index to millimetres in RAS+ (nibabel's convention, for every format).
        spacing_known: False where the format holds no voxel size (png, h5): distances in mm make no sense then.
    """

    array: NDArray[np.generic]
    affine: NDArray[np.float64] = field(default_factory=lambda: np.eye(4))
    spacing_known: bool = True

    @property
    def spacing(self) -> tuple[float, float, float]:
        """Voxel size in mm along each array axis."""
        i, j, k = np.sqrt((self.affine[:3, :3] ** 2).sum(axis=0))
        return float(i), float(j), float(k)


class Layer(NamedTuple):
    """One structure of a label map that is put together: the voxels of ``file`` that hold ``value``.

    A DICOM segmentation lies on the grid of a series, whose files are ``grid``.
    """

    file: Path
    value: int
    grid: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Source:
    """Where one array lies on disk.

    Attributes:
        files: One file; or one file per slice, stacked along the last axis; or those of a DICOM series, which say
            themselves where they lie; or those of the layers.
        key: The name of the array inside an h5 file.
        ids: For label maps: id in the file -> class index in memory, or IGNORE. ``None`` for images.
        grid: For DICOM segmentations, which hold painted slices alone: the files of the series below them.
        layers: Of a label map that is put together from structures, of one file each or overlapping in one: they are
            numbered 1, 2, 3, ..., which are the ids then, and where several cover a voxel, it is the first one's.
    """

    files: tuple[Path, ...]
    key: str = ""
    ids: Mapping[int, int] | None = None
    grid: tuple[Path, ...] = ()
    layers: tuple[Layer, ...] = ()

    @property
    def path(self) -> Path:
        """The (first) file: the one to name in a message."""
        return self.files[0]


@dataclass(frozen=True)
class Case:
    """One scan on disk and what is known about it.

    Attributes:
        id: Unique in its dataset; predictions carry it as their file name.
        patient: Splits never separate the scans of one patient.
        image: One source per channel.
        full: A mask in which every voxel is labelled with one of the classes that were looked for, if there is one.
        partial: Scribbles, points or any other mask with unlabeled voxels, if there is one.
        classes: Names by class index; the first is the background.
        frame: Which of the patient's scans this is (a cardiac phase, a time point), or "".
        annotated: The classes that whoever labelled this scan looked for; ``None`` means all of them.
        split: "train", "val" or "test" where the layout on disk says so, else "".
        hidden: A reference mask for evaluation only; training never opens it.
    """

    id: str
    patient: str
    image: tuple[Source, ...]
    full: Source | None = None
    partial: Source | None = None
    classes: tuple[str, ...] = ("background", "foreground")
    frame: str = ""
    annotated: tuple[str, ...] | None = None
    split: str = ""
    hidden: Source | None = None

    @property
    def kind(self) -> Kind:
        """The strongest supervision that this scan has; a mask in which a class was not looked for is partial."""
        if self.full is not None and not unsearched(self.annotated, self.classes):
            return "full"
        return "unlabeled" if self.full is None and self.partial is None else "partial"


def unsearched(annotated: Iterable[str] | None, classes: tuple[str, ...]) -> list[str]:
    """The ``classes`` above the background that nobody looked for: "background" may stand for any of them."""
    return [] if annotated is None else [name for name in classes[1:] if name not in annotated]


class Part(NamedTuple):
    """The rows of a batch that share one kind of supervision; there may be none.

    A tuple, as Batch is, so that Fabric and DDP can walk through it.

    Attributes:
        image: ``(B, C, *S)`` float.
        full: ``(B, *S)`` uint8 class indices or IGNORE; all IGNORE unless the kind is "full".
        partial: ``(B, *S)`` uint8 class indices or IGNORE; all IGNORE if the kind is "unlabeled".
    """

    image: Tensor
    full: Tensor
    partial: Tensor

    @property
    def rows(self) -> int:
        """How many images there are."""
        return self.image.shape[0]


class Batch(NamedTuple):
    """What one training step sees, by kind of supervision. Supervision is data, not code."""

    full: Part
    partial: Part
    unlabeled: Part

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts that have rows, the fully labelled one first."""
        return tuple(part for part in self if part.rows)


EARLIER_NAMES = {"bare": "unlabeled", "mix": "cutmix", "looks": "validation", "unlabelled": "unlabeled"}
"""What files of earlier versions call otherwise: kinds of supervision, terms of the loss, phases of a run."""


def renamed(content: Mapping[str, Any], names: Mapping[str, str] = EARLIER_NAMES) -> dict[str, Any]:
    """The same with today's names for its keys; a key that has its new name already wins."""
    return {new: value for key, value in content.items() if (new := names.get(key, key)) == key or new not in content}
