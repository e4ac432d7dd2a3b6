"""A folder of prepared scans, memory-mapped. Needs numpy alone; docs/reference/prepared-data.md has the layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Any, Literal, Self, TypedDict

import numpy as np

from mixseg.core.errors import MixsegError
from mixseg.core.schema import checked
from mixseg.core.text_files import read_json
from mixseg.core.types import Bytes, Kind, renamed
from mixseg.data.intensity import FAINT, faint
from mixseg.data.scan import Header, VoxelIndices

FORMAT = 1
ARRAYS = ("image", "full", "partial")
CROPPED, CROPPED_BEFORE = "cropped.npy", "beyond.npy"
"""What the grid cuts off, and the same of earlier versions."""
RENAMED = {"lost": "cropped_full", "lost_partial": "cropped_partial", "faded": "thin"}
"""Keys of their entries."""
TOO_THIN = 0.8
"""A structure of whose volume less is left on the training grid is too thin for it."""
A_FEW = 0.1
"""Of the masks: a scan in which a structure happens to be tiny is no fault of the grid."""


@dataclass(frozen=True)
class PreparedCase:
    """An entry of the store: a scan's header, how it lies on the prepared grid, and so the way back to its file.

    Attributes:
        header: Of the file: what the scan was before.
        dims: 2 for a stack of slices, 3 for a volume.
        shape: ``(K, H, W)`` in 2D; in 3D ``(I, J, K)``, of the source or resampled.
        spacing: Voxel size in mm along the axes of ``shape``.
        spacing_known: False where the source's format holds no voxel size, or all scans claim one that cannot be meant.
        offset: Voxels before this case in ``full.npy`` and ``partial.npy``; ``image.npy`` has as many per channel.
        has_partial: Whether the partial map has labels, drawn or made; it is all IGNORE otherwise.
        low: Intensity that became 0, per channel.
        high: Intensity that became 255, per channel.
        mean: Mean of the 8-bit image, per channel: with ``std`` it gives z-scores.
        std: Standard deviation of the 8-bit image, per channel.
        field: In 2D, the size of the resampled slices before they are cropped or padded to ``shape``; empty where each
            slice is stretched to it.
        cropped_full: How many foreground voxels of the full mask the crop cuts off; ``Prepared.cropped`` has them.
        cropped_partial: How many labelled voxels of the partial map it cuts off.
        thin: Classes of the full mask that are too thin for the grid.
    """

    header: Header
    dims: int
    shape: tuple[int, int, int]
    spacing: tuple[float, float, float]
    spacing_known: bool
    offset: int
    has_partial: bool
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    field: tuple[int, ...] = ()
    cropped_full: int = 0
    cropped_partial: int = 0
    thin: tuple[int, ...] = ()

    @property
    def id(self) -> str:
        """Unique in its dataset."""
        return self.header.id

    @property
    def patient(self) -> str:
        """Whose scan it is."""
        return self.header.patient

    @property
    def split(self) -> str:
        """The part that the layout on disk puts it in, or ""."""
        return self.header.split

    @property
    def annotated(self) -> tuple[str, ...] | None:
        """The classes that the annotator looked for; None means all of them."""
        return self.header.annotated

    @property
    def has_full(self) -> bool:
        """Whether the full map is one; it is all IGNORE otherwise."""
        return self.header.has_full

    @property
    def kind(self) -> Kind:
        """The strongest supervision that this scan has."""
        if self.has_full:
            return "full"
        return "partial" if self.has_partial else "unlabeled"

    @property
    def voxels(self) -> int:
        """How many voxels the label maps have."""
        return prod(self.shape)

    @property
    def is_faint(self) -> bool:
        """Whether a channel shows next to nothing in 256 grey values."""
        return any(0 < std < FAINT for std in self.std)

    def remarks(self) -> list[str]:
        """Sentences for whoever has it segmented: if it shows nothing, or the grid is smaller than the scan."""
        return [*faint([self.id] * self.is_faint), *self._cropped()]

    def _cropped(self) -> list[str]:
        if not any(have > kept for have, kept in zip(self.field, self.shape[1:], strict=False)):
            return []
        field, size = ("x".join(map(str, sides)) for sides in (self.field, self.shape[1:]))
        return [f"{self.id} has {field} pixels of the run's size: beyond the middle {size} all is called background."]

    def as_json(self) -> dict[str, Any]:
        """The entry of ``index.json``."""
        return asdict(self)

    @classmethod
    def from_json(cls, entry: Mapping[str, Any], *, channels: int, path: Path) -> Self:
        """The case that ``as_json``, or an earlier version, described in the file ``path``.

        Raises:
            MixsegError: If it is none.
        """
        try:
            now = renamed(entry if "header" in entry else _with_header(entry, channels), RENAMED)
            known = tuples(checked(dict(now), cls, path))
            made = cls(**{**known, "header": Header(**known["header"])})
            if min(*made.shape, 1 + made.offset) < 1:
                raise ValueError(f"no voxels, or from {made.offset} on")
        except (KeyError, TypeError, ValueError) as error:
            raise MixsegError(
                f"{path} describes a scan in a way that makes no sense ({error}): prepare the scans again.",
                "wrong-content",
                file=path,
            ) from None
        return made


def _with_header(entry: Mapping[str, Any], channels: int) -> dict[str, Any]:
    """An entry of version 0.1.0, which held some of the header beside the rest; nobody asks for what it lacks."""
    moved = {
        key: entry[key] for key in ("id", "patient", "frame", "annotated", "split", "source", "affine", "has_full")
    }
    spacing = np.linalg.norm(np.asarray(entry["affine"])[:3, :3], axis=0).tolist()
    header = {
        **moved,
        **{"classes": (), "channels": channels, "shape": entry["source_shape"], "spacing": spacing},
        **{"spacing_known": entry["spacing_known"], "has_drawn": entry["has_partial"], "fingerprint": ""},
    }
    return {**{key: value for key, value in entry.items() if key not in {*moved, "source_shape"}}, "header": header}


def tuples(value: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
    """``value`` from JSON with tuples for its lists, as frozen dataclasses hold them."""
    if isinstance(value, dict):
        return {name: tuples(item) for name, item in value.items()}
    return tuple(tuples(item) for item in value) if isinstance(value, list) else value


class _Options(TypedDict):
    dims: Literal[2, 3]


class _Index(TypedDict):
    classes: list[str]
    channels: int
    cases: list[dict[str, Any]]
    options: _Options
    hash: str
    content: str


class Prepared:
    """The scans of a prepared folder. Arrays are views of the mapped files: nothing is read before it is used.

    Attributes:
        folder: Where it lies.
        index: The content of ``index.json``.
        cases: One entry per scan, in the order of the arrays.
        classes: Class names by index, the background first.
        channels: How many channels each image has.
        options: What it was made like, by the names of ``PrepareOptions``.
        dims: 2 or 3.
        hash: Of the input files and the options; equal hashes need not be prepared twice.
        content: Of the arrays themselves: equal on every machine for equal data.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if not (folder / "index.json").is_file():
            raise MixsegError(
                f"{folder} is no prepared folder: make one with mixseg prepare.", "not-prepared", folder=folder
            )
        self.index: dict[str, Any] = read_json(folder / "index.json", dict[str, Any])
        if self.index.get("format") != FORMAT:
            raise MixsegError(
                f"{folder} was not prepared by this version of mixseg: prepare the scans again.",
                "other-version",
                folder=folder,
            )
        checked(self.index, _Index, folder / "index.json")
        self.classes: tuple[str, ...] = tuple(self.index["classes"])
        self.channels: int = self.index["channels"]
        self.cases = tuple(
            PreparedCase.from_json(entry, channels=self.channels, path=folder / "index.json")
            for entry in self.index["cases"]
        )
        self.options: dict[str, Any] = tuples(self.index["options"])
        self.dims: int = self.options["dims"]
        self.hash: str = self.index["hash"]
        self.content: str = self.index["content"]
        voxels = sum(case.voxels for case in self.cases)
        self._arrays = {name: _mapped(folder / f"{name}.npy", voxels * self._per_voxel(name)) for name in ARRAYS}

    def image(self, case: PreparedCase) -> Bytes:
        """``(K, channels, H, W)`` in 2D, ``(channels, I, J, K)`` in 3D, 0 to 255."""
        slices, *plane = case.shape
        shape = (slices, self.channels, *plane) if self.dims == 2 else (self.channels, *case.shape)
        return self._part("image", case).reshape(shape)

    def full(self, case: PreparedCase) -> Bytes:
        """``case.shape``: class indices of the full mask; all IGNORE where there is none."""
        return self._part("full", case).reshape(case.shape)

    def partial(self, case: PreparedCase) -> Bytes:
        """``case.shape``: class indices, IGNORE where unlabeled."""
        return self._part("partial", case).reshape(case.shape)

    def cropped(self, case: PreparedCase) -> VoxelIndices:
        """``(case.cropped_full, 4)``: what ``resample.cropped_foreground`` found outside the grid."""
        if not case.cropped_full:
            return np.empty((0, 4), np.int32)
        first = sum(other.cropped_full for other in self.cases if other.offset < case.offset)
        path = self.folder / CROPPED
        path = path if path.exists() else path.with_name(CROPPED_BEFORE)
        try:
            every = np.load(path, allow_pickle=False)
        except Exception as error:  # damage can break the reader anywhere
            raise MixsegError(
                f"{path} cannot be read ({error}): prepare the scans again.", "unreadable-file", file=path
            ) from None
        return np.asarray(every[first : first + case.cropped_full], np.int32)

    def remarks(self) -> list[str]:
        """Sentences about labels that the grid cuts off or is too coarse for, and about images that show nothing."""
        return [*self._cropped_labels(), *self._too_thin(), *faint([case.id for case in self.cases if case.is_faint])]

    def _too_thin(self) -> list[str]:
        masks = [case for case in self.cases if case.has_full]
        found = []
        for index, name in enumerate(self.classes):
            thin = [case for case in masks if index in case.thin]
            if len(thin) > A_FEW * len(masks):
                found.append(
                    f"The training grid is too coarse for {name}: {len(thin)} of {len(masks)} full masks keep less "
                    f"than {TOO_THIN:.0%} of it there, where scores are counted too. Smaller voxels (spacing), or a "
                    "larger size, keep it."
                )
        return found

    def _cropped_labels(self) -> list[str]:
        concerned = [case for case in self.cases if case.cropped_full + case.cropped_partial]
        if not concerned:
            return []
        full = sum(case.cropped_full for case in concerned)
        partial = sum(case.cropped_partial for case in concerned)
        worst = max(concerned, key=lambda case: (case.cropped_full, case.cropped_partial))
        size = "x".join(map(str, worst.shape[1:]))
        return [
            f"Slices of {size} pixels cut off {full} foreground voxels of full masks and {partial} labelled ones of "
            f"partial masks in {len(concerned)} of {len(self.cases)} scans (most in {worst.id}: {worst.cropped_full} "
            f"and {worst.cropped_partial}); scores count the former as missed, and nothing learns from the latter. A "
            "larger size, or spacing, keeps them."
        ]

    def slices(self) -> tuple[Bytes, Bytes, Bytes]:
        """All slices of a 2D plan of one size: images ``(N, channels, H, W)``, full and partial maps ``(N, H, W)``."""
        sizes = {case.shape[1:] for case in self.cases}
        if self.dims != 2 or len(sizes) != 1:
            raise MixsegError(
                f"The slices of {self.folder} differ in size: prepare them in 2D with a size to stack them.",
                "sizes-differ",
                folder=self.folder,
            )
        size = sizes.pop()
        image, full, partial = (self._arrays[name] for name in ARRAYS)
        return image.reshape(-1, self.channels, *size), full.reshape(-1, *size), partial.reshape(-1, *size)

    def __getitem__(self, id: str) -> PreparedCase:  # noqa: A002 - it is what a case calls it
        for case in self.cases:
            if case.id == id:
                return case
        raise MixsegError(
            f"{self.folder} holds no case {id}: it was prepared from other scans.",
            "unknown-scan",
            folder=self.folder,
            name=id,
        )

    def _part(self, name: str, case: PreparedCase) -> Bytes:
        scale = self._per_voxel(name)
        return self._arrays[name][case.offset * scale : (case.offset + case.voxels) * scale]

    def _per_voxel(self, name: str) -> int:
        return self.channels if name == "image" else 1


def _mapped(path: Path, size: int) -> Bytes:
    """The flat array of a file, mapped."""
    try:
        # Copy on write: nobody changes the file, and torch takes the array without a copy or a warning.
        array = np.load(path, mmap_mode="c", allow_pickle=False)
    except Exception as error:  # damage can break the reader anywhere
        raise MixsegError(
            f"{path} cannot be read ({error}): prepare the scans again.", "unreadable-file", file=path
        ) from None
    if not isinstance(array, np.ndarray) or array.dtype != np.uint8 or array.shape != (size,):
        raise MixsegError(
            f"{path} has not the {size} voxels that index.json says: prepare the scans again.",
            "broken-file",
            file=path,
        )
    # A plain array over the mapping: slices of np.memmap objects carry baggage that multiplies when there are many.
    return np.asarray(array)
