"""``mixseg.json`` beside the scans: what somebody says about them, and what was understood."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from filelock import FileLock

from mixseg.core.colours import structure_colour
from mixseg.core.errors import MixsegError, did_you_mean
from mixseg.core.files import write_json
from mixseg.core.text_files import read_json
from mixseg.datasets import formats
from mixseg.datasets.formats.base import SEGMENTS
from mixseg.datasets.layouts.table import LOOKED_FOR, ScanRow, ScanTable, State

NAME = "mixseg.json"
VERSION = 1
KEPT = ("proposed", "reviewed")
"""States of a scan that no file shows."""
WAIT = 60
"""Seconds to wait for another process that writes it."""


@dataclass(frozen=True)
class Entry:
    """What is said of one scan.

    Attributes:
        images: Its files, one per channel; nothing leaves them to signs.
        labels: Its label files; None leaves them to signs.
        structures: How each was annotated.
        background: The id of the background in a label map whose 0 is unlabeled.
        state: How far the scan is: "proposed" labels are nobody's yet.
        patient: Whose scan it is, or "".
        drawn: The hash of the label files of which this was said, or "".
    """

    images: tuple[Path, ...] = ()
    labels: tuple[Path, ...] | None = None
    structures: Mapping[str, State] = field(default_factory=dict)
    background: int | None = None
    state: str = ""
    patient: str = ""
    drawn: str = ""

    @property
    def holds(self) -> bool:
        """Whether the label files are those of which ``structures`` was said: whoever went on drawing asks anew."""
        return not self.drawn or self.drawn == hash_of(self.labels or ())


@dataclass(frozen=True)
class Description:
    """The content of the file.

    Attributes:
        classes: Id in plain label maps -> name, in the order of the classes; names without an id have negative ones.
        scans: By id.
        full: Globs of files and scans that are finished masks.
        scribbles: Likewise of strokes.
        priority: The structures whose voxels those are that several cover, the first of them.
    """

    classes: Mapping[int, str] = field(default_factory=dict)
    scans: Mapping[str, Entry] = field(default_factory=dict)
    full: tuple[str, ...] = ()
    scribbles: tuple[str, ...] = ()
    priority: tuple[str, ...] = ()


def read(root: Path) -> Description:
    """What ``mixseg.json`` in ``root`` says; nothing if there is none.

    Raises:
        MixsegError: It is broken, or an entry is not of its form, or names a file outside.
    """
    path = root / NAME
    content = read_json(path, missing_ok=True)
    if content is None:
        return Description()
    if not isinstance(content, dict):
        raise _wrong(path, "it", "an object")
    scans = _typed(path, content, "scans", dict)
    return Description(
        _classes(path, _typed(path, content, "classes", list)),
        {str(name): _entry(path, str(name), entry) for name, entry in scans.items()},
        *(_texts(path, content, key) for key in ("full", "scribbles", "priority")),
    )


def write(table: ScanTable) -> Path:
    """Write what was understood to ``mixseg.json``, and keep what else it holds."""
    path = table.folder / NAME
    with FileLock(table.folder / f".{NAME}.lock", timeout=WAIT):
        before = read_json(path, missing_ok=True)
        content = dict(before) if isinstance(before, dict) else {}
        scans = dict(content.get("scans") or {})
        for row in table.rows:
            scans[row.id] = _merged(scans.get(row.id), row, table.folder)
        known = {each["name"]: each for each in content.get("classes") or () if "name" in each}
        new = {
            "version": VERSION,
            "classes": [_class(*each, known) for each in enumerate(_numbers(table))],
            "scans": scans,
            "full": content.get("full", []),
            "scribbles": content.get("scribbles", []),
            "priority": list(table.priority),
        }
        write_json(path, {**content, **new})
    return path


def _class(index: int, of: tuple[str, int], known: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    name, value = of
    colour = {"colour": structure_colour(index)} if index else {}
    return {"name": name, "id": value, **colour, **known.get(name, {})}


def _numbers(table: ScanTable) -> list[tuple[str, int]]:
    """The id of each class in plain label maps; its index where there are none, or where they differ."""
    found = dict(enumerate(table.classes))
    ids = {index: index for index in found}
    for source in (source for row in table.rows for source in (row.case.full, row.case.partial) if source):
        if not source.layers and formats.suffix(source.path) not in SEGMENTS:
            ids |= {index: value for value, index in (source.ids or {}).items() if index in ids and index}
    clear = len(set(ids.values())) == len(ids)
    return [(name, ids[index] if clear else index) for index, name in found.items()]


def _merged(before: object, row: ScanRow, root: Path) -> dict[str, Any]:
    """The entry of a scan. What is unsure is no state of a structure until somebody makes it one."""
    old = before if isinstance(before, dict) else {}
    labels = [_relative(path, root) for path in row.labels]
    states = {reading.state for reading in row.structures.values()}
    state = "finished" if states and states <= set(LOOKED_FOR) and not row.unsure else "drawn"
    new = {
        "images": [_relative(path, root) for path in row.images],
        "labels": None if not labels else labels[0] if len(labels) == 1 else labels,
        "structures": {name: reading.state for name, reading in row.structures.items() if reading.sure},
        "unsure": {name: f"{reading.state}? {reading.why}" for name, reading in row.unsure.items()},
        "background": row.background,
        "patient": row.case.patient,
        "drawn": hash_of(row.labels),
        "state": old.get("state") if old.get("state") in KEPT else state if labels else "untouched",
        "why": row.problem or row.why,
    }
    return {**old, **new}


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


def _classes(path: Path, entries: list[Any]) -> dict[int, str]:
    found: dict[int, str] = {}
    for place, entry in enumerate(entries):
        name = entry.get("name") if isinstance(entry, dict) else None
        value = entry.get("id", -1000 - place) if isinstance(entry, dict) else None
        if not isinstance(name, str) or not isinstance(value, int):
            raise _wrong(path, "an entry of classes", '{"name": ..., "id": ...}')
        if value in found:
            raise MixsegError(
                f"{path} gives {value} to {found[value]} and to {name}: give every class an id of its own.",
                "duplicate-name",
                file=path,
                label=value,
            )
        found[value] = name
    return found


def _entry(path: Path, name: str, entry: object) -> Entry:
    if not isinstance(entry, dict):
        raise _wrong(path, f"scan {name}", "an object")
    labels = entry.get("labels")
    structures = _typed(path, entry, "structures", dict)
    for structure, state in structures.items():
        if state not in get_args(State):
            raise MixsegError(
                f"{path}: {structure} of {name} is {state!r}: {did_you_mean(str(state), get_args(State))}",
                "invalid-value",
                file=path,
                key="structures",
                value=state,
            )
    background = entry.get("background")
    if background is not None and not isinstance(background, int):
        raise _wrong(path, f"background of {name}", "an id or null")
    return Entry(
        tuple(_inside(path, each) for each in _texts(path, entry, "images")),
        None if labels is None else tuple(_inside(path, each) for each in _texts(path, entry, "labels")),
        structures,
        background,
        *(str(entry.get(key) or "") for key in ("state", "patient", "drawn")),
    )


def hash_of(files: Iterable[Path]) -> str:
    """Of the bytes of label files; "" without any."""
    state = hashlib.blake2b(digest_size=16)
    files = [path for path in files if path.is_file()]
    for path in files:
        with path.open("rb") as file:
            while block := file.read(1 << 22):
                state.update(block)
    return state.hexdigest() if files else ""


def _inside(path: Path, name: str) -> Path:
    """A file below the folder of ``mixseg.json``: no name in it leads elsewhere."""
    file = path.parent / name
    if not file.resolve().is_relative_to(path.parent.resolve()):
        raise MixsegError(
            f"{path} names {name}, which lies outside of its folder: copy the file there.",
            "unsafe-name",
            file=path,
            name=name,
        )
    return file


def _typed(path: Path, content: Mapping[str, Any], key: str, kind: type) -> Any:  # noqa: ANN401 - of that kind
    value = content.get(key)
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise _wrong(path, key, "a list" if kind is list else "an object")
    return value


def _texts(path: Path, content: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = content.get(key) or []
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        raise _wrong(path, key, "a list of texts")
    return tuple(values)


def _wrong(path: Path, what: str, form: str) -> MixsegError:
    return MixsegError(f"{path}: {what} should be {form}: correct it.", "wrong-content", file=path, key=what)
