"""Folders that are whole or absent: written beside the target, then moved over it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mixseg.errors import MixsegError
from mixseg.files import WRITING, alive, explained


@contextmanager
def replacing_folder(path: Path, *, marker: str, is_there: Callable[[], bool] = lambda: False) -> Iterator[Path]:
    """Yield an empty folder beside ``path``; on success it takes its place, on failure it goes.

    Args:
        path: The folder to write. One that exists is replaced only if it is empty or holds ``marker``.
        marker: The file that says that such a folder is one of ours.
        is_there: Whether what lies there by now is as good. Another process was quicker, and may be reading it: it
            stays, and ours goes.
    """
    refuse_foreign(path, marker)
    path = path.absolute()
    _sweep(path)
    temporary = path.with_name(f".{path.name}{WRITING}{os.getpid()}")
    old = temporary.with_name(temporary.name + "-old")
    try:
        with explained(path):
            temporary.mkdir(parents=True)
        yield temporary
        with explained(path):
            while not _moved(temporary, path) and not is_there():
                with suppress(FileNotFoundError):  # another process has moved it just now
                    path.rename(old)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        if old.exists() and not path.exists():  # the second of the two moves failed
            old.rename(path)
        shutil.rmtree(old, ignore_errors=True)


def _moved(temporary: Path, path: Path) -> bool:
    """Whether ``temporary`` has taken the place of ``path``: not if a folder is there."""
    try:
        temporary.rename(path)
    except OSError:
        if not path.is_dir():
            raise
        return False
    return True


def refuse_foreign(path: Path, marker: str) -> None:
    """An error if ``path`` is something that must not be replaced."""
    if path.exists() and not path.is_dir():
        raise MixsegError(f"{path} is a file: choose a folder to write to.")
    if path.is_dir() and path.samefile("."):  # whoever stands in it would stand in one that is gone
        raise MixsegError(f"{path} is the current folder, which cannot be replaced by a new one: name another folder.")
    if path.is_dir() and any(path.iterdir()) and not (path / marker).is_file():
        raise MixsegError(f"{path} holds other files and would be replaced: choose a new or an empty folder.")


def _sweep(path: Path) -> None:
    """Remove what a process of this machine that was killed has left beside ``path``."""
    prefix = f".{path.name}{WRITING}"
    for leftover in path.parent.glob(f"{prefix}*") if path.parent.is_dir() else ():
        pid = leftover.name.removeprefix(prefix).removesuffix("-old")
        if not alive(pid):
            shutil.rmtree(leftover, ignore_errors=True)
