"""What label ids are called: in ITK-SNAP's label descriptions, dataset.json and BIDS tables."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mixseg.core.errors import MixsegError
from mixseg.core.text_files import read_json

ITK_SNAP = re.compile(r'^\s*(\d+)\s+\d+\s+\d+\s+\d+\s+[\d.]+\s+[01]\s+[01]\s+"(.*)"\s*$')
"""A line of a label description: IDX R G B A VIS MSH "NAME"."""

LONGEST = 2**20
"""A text file with more bytes describes no labels."""

CLEAR = "clear label"
"""What ITK-SNAP calls 0."""


@dataclass(frozen=True)
class Naming:
    """The names of ids, and the file that says so.

    Attributes:
        file: The text file; of segments, one that holds some.
        names: Id -> name, without 0 but where that is named background.
    """

    file: Path
    names: Mapping[int, str]


def read_namings(texts: Iterable[Path]) -> list[Naming]:
    """What each of ``texts`` calls ids, if it does."""
    readers = {".txt": _itk_snap, ".label": _itk_snap, ".tsv": _bids, ".json": _dataset}
    found = [Naming(path, readers[path.suffix.lower()](path)) for path in texts]
    return [naming for naming in found if naming.names]


def naming_for(label: Path, namings: Iterable[Naming]) -> tuple[dict[int, str], str]:
    """The names of the ids of one label map, by the files nearest to it, and a sentence if two of these disagree."""
    above = list(label.parents)
    near = sorted(
        (naming for naming in namings if naming.file.parent in above), key=lambda one: above.index(one.file.parent)
    )
    found: dict[int, tuple[str, Path]] = {}
    for naming in near:
        for value, name in naming.names.items():
            other, file = found.setdefault(value, (name, naming.file))
            if other.lower() != name.lower() and file.parent == naming.file.parent:
                return {}, (
                    f"{label} has two meanings: {value} is {other} in {file} and {name} in {naming.file}: correct "
                    "one of the two."
                )
    return {value: name for value, (name, _) in found.items()}, ""


def _itk_snap(path: Path) -> dict[int, str]:
    matches = [ITK_SNAP.match(line) for line in _lines(path)]
    found = {int(match[1]): match[2].strip() for match in matches if match}
    return {value: name for value, name in found.items() if name and name.lower() != CLEAR}


def _bids(path: Path) -> dict[int, str]:
    rows = csv.DictReader(_lines(path), delimiter="\t")
    pairs = [(row.get("index") or row.get("value"), row.get("name")) for row in rows]
    return {int(value): name for value, name in pairs if value and value.isdigit() and name}


def _dataset(path: Path) -> dict[int, str]:
    """The ``labels`` of a dataset.json, name -> id as nnU-Net has it, or id -> name as it had."""
    if path.name != "dataset.json":
        return {}
    try:
        content = read_json(path)
    except MixsegError:
        return {}
    labels = content.get("labels") if isinstance(content, dict) else None
    found: dict[int, str] = {}
    for key, value in labels.items() if isinstance(labels, dict) else ():
        if isinstance(value, int):
            found[value] = str(key)
        elif str(key).isdigit() and isinstance(value, str):
            found[int(key)] = value
    return found


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines() if path.stat().st_size < LONGEST else []
    except OSError:
        return []
