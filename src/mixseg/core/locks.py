"""A lock on a file: one process has it at a time, and the system frees it even after a kill."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import IO, Any

try:
    from fcntl import LOCK_EX, LOCK_NB, flock

    def _lock(file: IO[Any]) -> None:
        flock(file, LOCK_EX | LOCK_NB)

except ImportError:  # Windows
    import msvcrt

    def _lock(file: IO[Any]) -> None:
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined] # not known elsewhere


PAUSE = 0.02


def take(file: IO[Any], *, patience: float = math.inf) -> bool:
    """Lock ``file`` until it is closed; False if somebody else still has it after ``patience`` seconds."""
    until = time.monotonic() + patience
    while True:
        try:
            _lock(file)
        except (BlockingIOError, PermissionError):  # as Linux and as Windows say that it is taken
            if time.monotonic() >= until:
                return False
            time.sleep(PAUSE)
        else:
            return True


def is_taken(path: Path) -> bool:
    """Whether somebody has the lock on ``path``. To ask is to have it for a moment: who wants it should be patient."""
    try:
        with path.open("r+") as file:
            return not take(file, patience=0)
    except FileNotFoundError:
        return False
