"""A checksum at the end of a checkpoint, as the comment of the zip file that it is: any program reads on as before."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path
from typing import BinaryIO

from mixseg.core.messages import log

SIGN = b"mixseg blake2b "
SIZE = 16
COMMENT = len(SIGN) + 2 * SIZE
"""Bytes of the comment; the two before it are its length, and the last that the zip format has to say."""
RECORD, OWN = b"PK\5\6", 22
"""How the last record of a zip file begins, and how long it is without the comment."""
CHUNK = 1 << 20


def append(path: Path) -> None:
    """Give a zip file that has no comment the checksum of all that it holds.

    Raises:
        ValueError: If it has one.
    """
    with path.open("r+b") as file:
        end = file.seek(-2, 2)
        if file.read() != bytes(2):
            raise ValueError(f"{path} has a comment already")
        file.seek(0)
        digest = _digest(file, end)
        file.seek(end)
        file.write(COMMENT.to_bytes(2, "little") + SIGN + digest)


def verify(path: Path) -> bool:
    """Whether a file is as it was when its checksum was made.

    One without, of an earlier version, is said to have none: the smaller checksums of its parts, which every zip file
    has and torch does not compare, are compared in its place.
    """
    with path.open("rb") as file:
        end = max(0, file.seek(0, 2) - COMMENT - 2)
        file.seek(end)
        tail = file.read()
        if tail[2:].startswith(SIGN):
            file.seek(0)
            return tail == COMMENT.to_bytes(2, "little") + SIGN + _digest(file, end)
    log.info(f"{path} has no checksum of its own: an earlier version wrote it.")
    return _parts_are_whole(path)


def _digest(file: BinaryIO, size: int) -> bytes:
    """Of the next ``size`` bytes, in hexadecimal digits."""
    state = hashlib.blake2b(digest_size=SIZE)
    while size and (chunk := file.read(min(CHUNK, size))):
        state.update(chunk)
        size -= len(chunk)
    return state.hexdigest().encode("ascii")


def _ends(tail: bytes) -> bool:
    """Whether the last record of a zip file is as long as it says."""
    start = tail.rfind(RECORD)
    length = int.from_bytes(tail[start + OWN - 2 : start + OWN], "little")
    return start >= 0 and start + OWN + length == len(tail)


def _parts_are_whole(path: Path) -> bool:
    """Whether a zip file goes to its end, and each part of it has its checksum; others are for others to judge."""
    if not zipfile.is_zipfile(path):
        return True
    try:
        with path.open("rb") as file:
            file.seek(-min(path.stat().st_size, OWN + COMMENT), 2)
            if not _ends(file.read()):
                return False
        with zipfile.ZipFile(path) as parts:
            return parts.testzip() is None
    except Exception:  # damage can break the reader anywhere
        return False
