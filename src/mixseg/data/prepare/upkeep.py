"""What lies in a store, whether it is whole, and what no index names any more."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from mixseg.core.errors import MixsegError
from mixseg.core.files import explained
from mixseg.core.progress import Progress
from mixseg.data.prepare import entries
from mixseg.data.prepare.build import sweep_entries
from mixseg.data.prepare.store import Prepared, PreparedCase

AT_WORK = 3600.0
"""Seconds that an entry without an index stays: another process may be making more, and will name it then."""


class Row(NamedTuple):
    """A scan in an index.

    Attributes:
        named_by: The name of the index.
        case: The scan.
        sizes: Bytes on the disk of each of its arrays; of one that is all IGNORE there are none.
    """

    named_by: str
    case: PreparedCase
    sizes: dict[str, int]


@dataclass(frozen=True)
class Damage:
    """An array that cannot be used.

    Attributes:
        case: Of which scan.
        part: Which of its arrays.
        error: What is wrong with it, and what helps.
        entry: Where it lies.
    """

    case: str
    part: str
    error: MixsegError
    entry: entries.Entry


def indexes(store: Path) -> list[Prepared]:
    """All indexes of a store.

    Raises:
        MixsegError: There is none, or one was written by a later version.
    """
    found = sorted(path.name for path in store.glob("index*.json"))
    return [Prepared(store, name) for name in found or ["index.json"]]


def rows(store: Path) -> list[Row]:
    """The scans of all indexes with the bytes that their arrays take."""
    sizes = {file.name: file.stat().st_size for file in entries.files(store)}
    found = []
    for prepared in indexes(store):
        for case in prepared.cases:
            of = {part: prepared.entry(part, case) for part in entries.PARTS}
            paths = {part: entries.array_file(store, part, entry.key) for part, entry in of.items() if entry}
            found.append(Row(prepared.name, case, {part: sizes.get(path.name, 0) for part, path in paths.items()}))
    return found


def damages(store: Path) -> Iterator[Damage]:
    """The arrays of all indexes that are not what was written; every one is read."""
    every = [
        (prepared, case, part, entry)
        for prepared in indexes(store)
        for case in prepared.cases
        for part in entries.PARTS
        if (entry := prepared.entry(part, case)) is not None
    ]
    seen: set[str] = set()
    with Progress("verifying", total=len(every)) as bar:
        for prepared, case, part, entry in every:
            if entry.key not in seen:
                seen.add(entry.key)
                try:
                    (prepared.image if part == "image" else getattr(prepared, part))(case)
                except MixsegError as error:
                    yield Damage(case.id, part, error, entry)
            bar.step(case.id)


def drop(store: Path, damage: Damage) -> None:
    """Take an entry out: whoever prepares the scan next makes it anew."""
    path = entries.array_file(store, damage.part, damage.entry.key)
    with explained(path):
        for file in (path.with_suffix(".json"), path):  # the one that says that it is there goes first
            file.unlink(missing_ok=True)


def collect(store: Path, *, all_: bool = False) -> tuple[int, int]:
    """Remove entries that no index names; how many there were, and their bytes.

    Args:
        store: Where they lie.
        all_: Those of the last hour too, which another process may be about to name.
    """
    named = {entry.key for prepared in indexes(store) for entry in prepared.all_entries()}
    sweep_entries(store)
    count = size = 0
    before = time.time() - (0 if all_ else AT_WORK)
    with explained(store):
        for file in list(entries.files(store)):
            key = file.name.partition(".")[0]
            stat = file.stat()
            if key and key not in named and stat.st_mtime <= before:
                with suppress(FileNotFoundError):
                    Path(file.path).unlink()
                count, size = count + file.name.endswith(".json"), size + stat.st_size
    return count, size
