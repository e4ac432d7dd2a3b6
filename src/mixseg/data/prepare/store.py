"""Prepared scans, and the index that names them. Needs numpy alone; docs/reference/prepared-data.md has the layout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Literal, Self, TypedDict

import numpy as np

from mixseg.core.errors import MixsegError
from mixseg.core.schema import checked
from mixseg.core.text_files import read_json
from mixseg.core.types import IGNORE, Bytes, Kind, renamed
from mixseg.data.intensity import FAINT, faint
from mixseg.data.prepare import entries, flat
from mixseg.data.scan import Header, VoxelIndices

FORMAT = 2
INDEX, INDICES = "index.json", "index-*.json"
"""What a store is described in: by itself, or for runs with different options."""
RENAMED = {"lost": "cropped_full", "lost_partial": "cropped_partial", "faded": "thin"}
"""Keys of a scan in an index of earlier versions, and what they are called now."""
TOO_THIN = 0.8
"""A structure of whose volume less is left on the training grid is too thin for it."""
A_FEW = 0.1
"""Of the masks: a scan in which a structure happens to be tiny is no fault of the grid."""


@dataclass(frozen=True)
class PreparedCase:
    """A scan in the store: its header, how it lies on the prepared grid, and so the way back to its file.

    Attributes:
        header: Of the file: what the scan was before.
        dims: 2 for a stack of slices, 3 for a volume.
        shape: ``(K, H, W)`` in 2D; in 3D ``(I, J, K)``, of the source or resampled.
        spacing: Voxel size in mm along the axes of ``shape``.
        spacing_known: False where the source's format holds no voxel size, or all scans claim one that cannot be meant.
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
        return {**vars(self), "header": vars(self.header)}  # not asdict, which copies all in ten times as long

    @classmethod
    def from_json(cls, entry: Mapping[str, Any], *, channels: int, path: Path) -> Self:
        """The case that ``as_json``, or an earlier version, described in the file ``path``.

        Raises:
            MixsegError: If it is none.
        """
        try:
            now = renamed(entry if "header" in entry else _with_header(entry, channels), RENAMED)
            there = {key: value for key, value in now.items() if key not in ("parts", "offset")}  # where it lies
            known = tuples(checked(there, cls, path))
            made = cls(**{**known, "header": Header(**known["header"])})
            if min(made.shape) < 1:
                raise ValueError("no voxels")
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
        **{"classes": [], "channels": channels, "shape": entry["source_shape"], "spacing": spacing},
        **{"spacing_known": entry["spacing_known"], "has_drawn": entry["has_partial"], "fingerprint": ""},
    }
    return {**{key: value for key, value in entry.items() if key not in {*moved, "source_shape"}}, "header": header}


def tuples(value: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
    """``value`` from JSON with tuples for its lists, as frozen dataclasses hold them."""
    if isinstance(value, dict):
        return {name: tuples(item) for name, item in value.items()}
    return tuple(tuples(item) for item in value) if isinstance(value, list) else value


def _parts(case: Mapping[str, Any], path: Path) -> dict[str, entries.Entry]:
    """The entries of a scan; a key is a hash, and leads nowhere else."""
    found = checked(case.get("parts", {}), dict[str, tuple[str, str]], path)
    if "image" not in found or any(
        part not in entries.PARTS or not entries.is_key(key) for part, (key, _) in found.items()
    ):
        raise MixsegError(
            f"{path} names an entry that no store has: prepare the scans again.", "wrong-content", file=path
        )
    return {part: entries.Entry(*entry) for part, entry in found.items()}


class _Options(TypedDict):
    dims: Literal[2, 3]


class _Index(TypedDict):
    classes: list[str]
    channels: int
    cases: list[dict[str, Any]]
    options: _Options
    hash: str
    content: str


def _only_index(folder: Path) -> str:
    """The name of the index of a store that has one: `mixseg train` calls those of its runs by their options.

    Raises:
        MixsegError: It has several, and nobody says which.
    """
    if (folder / INDEX).is_file() or not folder.is_dir():
        return INDEX
    found = sorted(path.name for path in folder.glob(INDICES))
    if len(found) > 1:
        raise MixsegError(
            f"{folder} has {len(found)} indices, of runs with other grids or labels: prepare the scans with "
            "`mixseg prepare`, or pack them.",
            "several-indices",
            folder=folder,
            names=found,
        )
    return found[0] if found else INDEX


class Prepared:
    """The scans that an index names. An array is read when it is asked for, an image when it is used.

    Attributes:
        folder: The store: where index and entries lie.
        name: Of the index, a store may have several.
        index: Its content.
        cases: One per scan, in the order that they were given in.
        classes: Class names by index, the background first.
        channels: How many channels each image has.
        options: What it was made like, by the names of ``PrepareOptions``.
        dims: 2 or 3.
        hash: Of what the scans and the options are: equal ones need not be prepared twice.
        content: Of the arrays themselves: equal on every machine for equal data.

    Raises:
        MixsegError: There is no index, or one of a later version.
    """

    def __init__(self, folder: Path, index: str = "") -> None:
        index = index or _only_index(folder)
        self.folder, self.name = folder, index
        if not (folder / index).is_file():
            raise MixsegError(
                f"{folder} is no prepared folder: make one with mixseg prepare.", "not-prepared", folder=folder
            )
        self.index: dict[str, Any] = read_json(folder / index, dict[str, Any])
        if self.index.get("format") not in (flat.FORMAT, FORMAT):
            raise MixsegError(
                f"{folder} was not prepared by this version of mixseg: prepare the scans again.",
                "other-version",
                folder=folder,
            )
        checked(self.index, _Index, folder / index)
        self.classes: tuple[str, ...] = tuple(self.index["classes"])
        self.channels: int = self.index["channels"]
        self.cases = tuple(
            PreparedCase.from_json(entry, channels=self.channels, path=folder / index) for entry in self.index["cases"]
        )
        self.options: dict[str, Any] = tuples(self.index["options"])
        self.dims: int = self.options["dims"]
        self.hash: str = self.index["hash"]
        self.content: str = self.index["content"]
        is_flat = self.index["format"] == flat.FORMAT
        self._parts = [{} if is_flat else _parts(entry, folder / index) for entry in self.index["cases"]]
        self._at = {case.id: number for number, case in enumerate(self.cases)}
        self._verified: set[str] = set()
        self._flat: flat.FlatArrays | None = self._mapped_flat() if is_flat else None

    def image(self, case: PreparedCase) -> Bytes:
        """``(K, channels, H, W)`` in 2D, ``(channels, I, J, K)`` in 3D, 0 to 255."""
        slices, *plane = case.shape
        shape = (slices, self.channels, *plane) if self.dims == 2 else (self.channels, *case.shape)
        entry = self.entry("image", case)
        if self._flat is not None or entry is None:
            return self._from_flat("image", case).reshape(shape)
        image = entries.read_image(self.folder, entry, shape, verify=entry.key not in self._verified)
        self._verified.add(entry.key)
        return image

    def full(self, case: PreparedCase) -> Bytes:
        """``case.shape``: class indices of the full mask; all IGNORE where there is none."""
        return self._labels("full", case)[0]

    def partial(self, case: PreparedCase) -> Bytes:
        """``case.shape``: class indices, IGNORE where unlabeled."""
        return self._labels("partial", case)[0]

    def cropped(self, case: PreparedCase) -> VoxelIndices:
        """``(case.cropped_full, 4)``: what ``resample.cropped_foreground`` found outside the grid."""
        if not case.cropped_full:
            return entries.NOTHING
        return self._labels("full", case)[1] if self._flat is None else self._flat.cropped(self._at[case.id])

    def entry(self, part: str, case: PreparedCase) -> entries.Entry | None:
        """Where an array of a scan lies in the store; None if it is all IGNORE, or the folder of an earlier version."""
        return self._parts[self._at[case.id]].get(part)

    def all_entries(self) -> Iterator[entries.Entry]:
        """All that the index names."""
        return (entry for parts in self._parts for entry in parts.values())

    def holds(self, content: str) -> bool:
        """Whether these are the arrays of this hash, which may be one that an earlier version made of them."""
        if content == self.content or "-" in content or "-" not in self.content:
            return content == self.content
        voxels = sum(case.voxels for case in self.cases)
        arrays = [map(read, self.cases) for read in (self.image, self.full, self.partial)]
        cropped = np.concatenate([self.cropped(case) for case in self.cases])
        return content == flat.content_of((voxels * self.channels, voxels, voxels), arrays, cropped)

    def _labels(self, part: str, case: PreparedCase) -> tuple[Bytes, VoxelIndices]:
        if self._flat is not None:
            return self._from_flat(part, case).reshape(case.shape), entries.NOTHING
        entry = self.entry(part, case)
        if entry is None:
            return np.full(case.shape, IGNORE, np.uint8), entries.NOTHING
        found = entries.read_labels(self.folder, entry, case.shape, verify=entry.key not in self._verified)
        self._verified.add(entry.key)
        return found

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
        image, full, partial = (
            np.concatenate([read(case) for case in self.cases]) for read in (self.image, self.full, self.partial)
        )
        return image, full, partial

    def __getitem__(self, id: str) -> PreparedCase:  # noqa: A002 - it is what a case calls it
        if id in self._at:
            return self.cases[self._at[id]]
        raise MixsegError(
            f"{self.folder} holds no case {id}: it was prepared from other scans.",
            "unknown-scan",
            folder=self.folder,
            name=id,
        )

    def _mapped_flat(self) -> flat.FlatArrays:
        return flat.FlatArrays(
            self.folder,
            [case.shape for case in self.cases],
            channels=self.channels,
            cropped=[case.cropped_full for case in self.cases],
        )

    def _from_flat(self, part: str, case: PreparedCase) -> Bytes:
        assert self._flat is not None, f"{case.id} has no {part}"
        return self._flat.part(part, self._at[case.id])
