"""What was understood of a folder of scans: a row a scan, why it is read so, and what could not be placed.

Whoever shows, asks or writes something about a folder before training reads this table; ``cases`` of it are trained on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from mixseg.core.errors import MixsegError
from mixseg.core.types import Case

State = Literal["finished", "strokes", "absent", "untouched"]
"""Of one structure in one scan: outlined to its border; painted in part; looked for and not there; not looked for."""

LOOKED_FOR: tuple[State, ...] = ("finished", "absent")
"""The states in which a voxel without the structure is known not to be of it."""

UNSURE = "unsure"
"""The kind of a scan of which somebody has to say whether its labels are finished."""


@dataclass(frozen=True)
class Reading:
    """How one structure of one scan was annotated.

    Attributes:
        state: What its voxels mean, or probably mean.
        why: The grounds, as a clause.
        sure: Whether training may rest on it.
    """

    state: State
    why: str
    sure: bool = True


@dataclass(frozen=True)
class ScanRow:
    """One scan, as it was understood.

    Attributes:
        case: Its id, patient, images and labels, as training would read them.
        structures: By the name of the class; nothing where the scan has no labels, or its layout fixes their meaning.
        background: The id of the background in a label map whose 0 is unlabeled, or None.
        why: The grounds for taking these images and labels together, and for their meaning, as a clause.
        problem: Why the scan cannot be used, in a sentence; "" if it can.
    """

    case: Case
    structures: Mapping[str, Reading] = field(default_factory=lambda: MappingProxyType({}))
    background: int | None = None
    why: str = ""
    problem: str = ""

    @property
    def id(self) -> str:
        """Of the scan."""
        return self.case.id

    @property
    def images(self) -> tuple[Path, ...]:
        """A file per channel (or the first of its slices)."""
        return tuple(source.path for source in self.case.image)

    @property
    def labels(self) -> tuple[Path, ...]:
        """The label maps, without repetition."""
        sources = [source for source in (self.case.full, self.case.partial) if source is not None]
        return tuple(dict.fromkeys(path for source in sources for path in source.files))

    @property
    def unsure(self) -> dict[str, Reading]:
        """The structures that somebody has to decide about."""
        return {name: reading for name, reading in self.structures.items() if not reading.sure}

    @property
    def kind(self) -> str:
        """How the scan is supervised: full, partial or unlabeled; unsure while somebody has to say; bad if unusable."""
        if self.problem:
            return "bad"
        return UNSURE if self.unsure else self.case.kind

    def described(self, root: Path) -> dict[str, Any]:
        """The row for a program; files as they are called below ``root``."""
        return {
            "scan": self.id,
            "patient": self.case.patient,
            "images": [_below(path, root) for path in self.images],
            "labels": [_below(path, root) for path in self.labels],
            "kind": self.kind,
            "structures": {name: asdict(reading) for name, reading in self.structures.items()},
            "background": self.background,
            "why": self.why,
            "problem": self.problem,
        }


@dataclass(frozen=True)
class Unplaced:
    """A file that belongs to no row, with what would settle it.

    Attributes:
        file: The file (or folder).
        sentence: What it seems to be, and the single change by which it would be read.
    """

    file: Path
    sentence: str


@dataclass(frozen=True)
class ScanTable:
    """What was understood of a folder.

    Attributes:
        folder: Where the scans lie.
        layout: A row of ``DATASETS``.
        classes: Names by class index, the background first.
        rows: A scan each.
        unplaced: The files that were not understood.
        meanings: What was found of the whole folder, such as what label ids mean, a sentence each.
        priority: Where structures overlap, whose voxels they are: the first of them here.
    """

    folder: Path
    layout: str
    classes: tuple[str, ...]
    rows: tuple[ScanRow, ...]
    unplaced: tuple[Unplaced, ...] = ()
    meanings: tuple[str, ...] = ()
    priority: tuple[str, ...] = ()

    @property
    def cases(self) -> list[Case]:
        """The scans that can be used."""
        return [row.case for row in self.rows if not row.problem]

    @property
    def unsure(self) -> list[ScanRow]:
        """The scans whose labels somebody has to decide about."""
        return [row for row in self.rows if row.kind == UNSURE]

    @property
    def problems(self) -> list[str]:
        """A sentence per scan that cannot be used, and per file that was not understood."""
        return [row.problem for row in self.rows if row.problem] + [each.sentence for each in self.unplaced]

    @property
    def described(self) -> list[dict[str, Any]]:
        """The rows for a program, and the files that were not understood."""
        strange = [{"file": _below(each.file, self.folder), "problem": each.sentence} for each in self.unplaced]
        return [*(row.described(self.folder) for row in self.rows), *strange]

    def to_frame(self) -> Any:  # noqa: ANN401 - pandas need not be there
        """A DataFrame with a row a scan and the state of each class, if pandas is installed; else a list of dicts."""
        rows = []
        for row in self.rows:
            states = {name: row.structures[name] for name in self.classes[1:] if name in row.structures}
            described = {key: value for key, value in row.described(self.folder).items() if key != "structures"}
            files = {key: ", ".join(described[key]) for key in ("images", "labels")}
            classes = {name: f"{reading.state}{'' if reading.sure else '?'}" for name, reading in states.items()}
            rows.append({**described, **files, **dict.fromkeys(self.classes[1:], ""), **classes})
        try:
            pandas = import_module("pandas")
        except ImportError:
            return rows
        return pandas.DataFrame(rows)

    def check_sure(self) -> None:
        """Nothing, if the meaning of all labels is known.

        Raises:
            MixsegError: With the list of what somebody has to decide, and how that is said.
        """
        unsure = self.unsure
        if not unsure:
            return
        lines = "\n".join(
            f"  {row.id}: {name} seems {reading.state} ({reading.why})"
            for row in unsure
            for name, reading in row.unsure.items()
        )
        raise MixsegError(
            f"{self.folder}: finished masks or strokes? {len(unsure)} of {len(self.rows)} scans are unclear:\n{lines}\n"
            f"Say it with --full GLOB or --scribbles GLOB (such as --scribbles {_glob(unsure[0])!r}), or let "
            f"`mixseg inspect {self.folder} --write` write mixseg.json there, and correct it.",
            "labels-unsure",
            folder=self.folder,
            scans=[row.id for row in unsure],
            files=[str(path) for row in unsure for path in row.labels],
        )


def of_cases(folder: Path, layout: str, cases: Sequence[Case], meanings: Sequence[str] = ()) -> ScanTable:
    """The table of a layout that fixes what lies where."""
    rows = tuple(ScanRow(case, why=f"the layout {layout}") for case in cases)
    classes = cases[0].classes if cases else ()
    return ScanTable(folder, layout, classes, rows, meanings=tuple(meanings))


def _below(path: Path, root: Path) -> str:
    """A file as it is called below ``root``, if it lies there."""
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


def _glob(row: ScanRow) -> str:
    return row.labels[0].name if row.labels else row.id
