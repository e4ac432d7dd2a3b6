"""The log of a run: one JSON line a look."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from mixseg.files import explained, replacing

Tell = Callable[[Mapping[str, Any]], None]
"""Is given each entry after it was written."""


class Log:
    """``log.jsonl``, and whoever else is to be told of every look.

    Lines from after ``keep_until`` belong to steps that are done again, and go.

    Attributes:
        last: The latest entry; empty before the first.
    """

    def __init__(self, path: Path, *, keep_until: int, tell: Iterable[Tell] = ()) -> None:
        self.path = path
        self.tell = tuple(tell)
        kept = [entry for entry in read_log(path) if entry["step"] <= keep_until]
        with replacing(path) as temporary:
            temporary.write_text("".join(json.dumps(entry) + "\n" for entry in kept))
        self.last: Mapping[str, Any] = kept[-1] if kept else {}

    def write(self, entry: Mapping[str, Any]) -> None:
        """Append one line. What is not a number, such as a score without validation scans, becomes null."""
        with explained(self.path), self.path.open("a") as file:
            file.write(json.dumps(_strict(entry), allow_nan=False) + "\n")
        self.last = entry
        for tell in self.tell:
            tell(entry)


def _strict(value: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
    """``value`` with null for nan and the infinities, which JSON does not know."""
    if isinstance(value, Mapping):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_log(path: Path) -> list[dict[str, Any]]:
    """The entries of a log; a last line that a kill cut short is left out."""
    if not path.exists():
        return []
    entries = []
    for line in path.read_text().splitlines():
        try:
            entries.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return entries
