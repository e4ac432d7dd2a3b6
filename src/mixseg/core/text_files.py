"""The one way in for text: JSON, JSON lines and CSV from anywhere, checked before anything is made of them.

A file is UTF-8, not larger, deeper or longer in its numbers than anything that we write, and names no key twice.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

from mixseg.core.errors import MixsegError
from mixseg.core.schema import checked

LARGEST = 1 << 28
"""Bytes: the log of a million validations."""
DEEPEST = 64
"""Objects and lists within each other."""
LONGEST_NUMBER = 40
"""Digits of a whole number: twice those of a 64-bit one."""
LONGEST_CELL = 1 << 17
"""Letters of a field of CSV."""


def read_text(path: Path) -> str:
    """The text of a file, without the byte order mark that some editors put before it.

    Raises:
        MixsegError: If it is no UTF-8, or too large.
        OSError: If the system refuses it.
    """
    with path.open("rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise MixsegError(
            f"{path} is larger than {LARGEST >> 20} MB, which no such file needs: mend or remove it.",
            "text-too-large",
            file=path,
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MixsegError(
            f"{path} is not UTF-8 text (byte {error.start + 1} is none of it): save it as UTF-8.",
            "not-utf-8",
            file=path,
            byte=error.start + 1,
        ) from None


def parse_json(text: str | bytes, path: Path, kind: object = Any) -> Any:  # noqa: ANN401 - whatever JSON holds
    """What JSON text holds, of the types that ``kind`` asks for; see ``core.schema``.

    Args:
        text: The text; bytes from within another file are UTF-8.
        path: The file that it is from.
        kind: The type to check it against.

    Raises:
        MixsegError: If it is no JSON, too deep, has a number or a key that makes no sense, or is of another type.
    """
    try:
        content = json.loads(
            text if isinstance(text, str) else text.decode("utf-8-sig"),
            parse_int=_whole,
            parse_float=_finite,
            parse_constant=_refuse,
            object_pairs_hook=_unique,
        )
    except (ValueError, RecursionError) as error:
        why = "its parts lie too deep in each other" if isinstance(error, RecursionError) else error
        raise MixsegError(f"{path} is not valid JSON ({why}): mend or remove it.", "invalid-json", file=path) from None
    if _deeper(content, DEEPEST):
        raise MixsegError(
            f"{path} holds lists or objects more than {DEEPEST} deep in each other: mend or remove it.",
            "invalid-json",
            file=path,
        )
    return checked(content, kind, path)


def read_json(path: Path, kind: object = Any, *, missing_ok: bool = False) -> Any:  # noqa: ANN401
    """Read a JSON file; a missing or broken one is one sentence, or a missing one None. See ``parse_json``."""
    try:
        text = read_text(path)
    except (FileNotFoundError, NotADirectoryError):
        if missing_ok:
            return None
        raise MixsegError(f"{path} does not exist: check the path.", "file-missing", file=path) from None
    except MixsegError as error:
        if error.code != "not-utf-8":
            raise
        why = f"byte {error.fields['byte']} is not UTF-8"
        raise MixsegError(
            f"{path} is not valid JSON ({why}): save it as UTF-8, or remove it.", "invalid-json", file=path
        ) from None
    return parse_json(text, path, kind)


def read_json_lines(path: Path, kind: object = Any) -> Iterator[Any]:
    """What the lines of a file hold; none if there is no file. A last line that a kill cut short is left out."""
    if not path.exists():
        return
    lines = read_text(path).split("\n")
    for number, line in enumerate(lines, start=1):
        try:
            if line.strip():
                yield parse_json(line, path, kind)
        except MixsegError as error:
            if number == len(lines) and error.code == "invalid-json":  # one that is whole ends with a new line
                return
            raise


def read_table(path: Path) -> list[dict[str, str]]:
    """The lines of a CSV file by the names in its first one; what a line lacks is "".

    Raises:
        MixsegError: If it is no CSV: a column without a name or with that of another, a line of more fields.
        OSError: If the system refuses it.
    """
    text = read_text(path)
    try:
        rows = list(csv.reader(StringIO(text, newline=""), strict=True))
    except csv.Error as error:
        raise _no_table(path, error) from None
    names = rows[0] if rows else []
    if len(set(names)) < len(names):
        raise _no_table(path, "two columns have one name")
    for number, row in enumerate(rows, start=1):
        if len(row) > len(names) or any("\0" in cell or len(cell) > LONGEST_CELL for cell in row):
            raise _no_table(path, f"line {number} has more fields than the first")
    return [dict(zip(names, row + [""] * (len(names) - len(row)), strict=True)) for row in rows[1:] if row]


def _no_table(path: Path, why: object) -> MixsegError:
    return MixsegError(
        f"{path} is no table of comma-separated values ({why}): mend or remove it.", "invalid-csv", file=path
    )


def _whole(text: str) -> int:
    if len(text) > LONGEST_NUMBER:
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:LONGEST_NUMBER]}, which is larger than any")
    return number


def _refuse(word: str) -> None:
    raise ValueError(f"{word}, which is no number to JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice[:LONGEST_NUMBER]!r} is there twice")
    return found


def _deeper(content: Any, most: int) -> bool:  # noqa: ANN401 - whatever JSON holds
    level = [content]
    for _ in range(most + 1):
        inside = (each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list))
        level = [child for each in inside for child in each if isinstance(child, dict | list)]
        if not level:
            return False
    return True
