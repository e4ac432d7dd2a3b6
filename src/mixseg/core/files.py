"""Files that are whole or absent: written beside the target, then moved over it."""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
import socket
import tempfile
import zipfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixseg.core.errors import NO_LETTER, MixsegError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WRITING = f".writing-{socket.gethostname()}-"
"""How names begin of what a process of this machine is writing; its number follows."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the folder of ``path`` (same suffixes); on success it takes its place.

    A kill leaves the old file or the new one. A full disk or a folder without permission is one sentence.
    """
    if path.is_dir():
        raise MixsegError(f"{path} is a folder: name a file.", "not-a-file", file=path)
    if path.exists() and not path.is_file():  # a device such as /dev/null, which a file would take the place of
        raise MixsegError(f"{path} is no file that could be replaced: name another.", "not-a-file", file=path)
    temporary: Path | None = None
    try:
        with explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            prefix, suffix = f"{WRITING}{os.getpid()}-", "".join(path.suffixes[-2:])
            handle, name = tempfile.mkstemp(prefix=prefix, suffix=suffix, dir=path.parent)
            os.close(handle)
            temporary = Path(name)
            yield temporary
            with temporary.open("r+b") as written:  # Windows syncs only what it may write
                os.fsync(written.fileno())
            # mkstemp makes files for the owner alone; what users share should follow their umask.
            umask = os.umask(0)
            os.umask(umask)
            temporary.chmod(0o666 & ~umask)
            temporary.replace(path)
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def sweep(folder: Path) -> None:
    """Remove the files that a process of this machine was writing in ``folder`` when it was killed."""
    for leftover in folder.glob(f"{WRITING}*") if folder.is_dir() else ():
        if not alive(leftover.name.removeprefix(WRITING).partition("-")[0]):
            leftover.unlink(missing_ok=True)


def alive(pid: str) -> bool:
    """Whether a process of this number may be running here; so may what is no number."""
    if os.name != "posix" or not pid.isdigit():  # elsewhere signal 0 is not a question
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Inside, a full disk or a missing permission is one sentence about ``path``."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            sentence = f"No space left to write {path}: free some, or choose another folder, and start again."
            raise MixsegError(sentence, "disk-full", file=path) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise MixsegError(
                f"No permission to write {path}: choose a folder of yours.", "no-permission", file=path
            ) from error
        if error.errno == errno.EFBIG:
            sentence = f"{path} is larger than a file may be: raise the limit (ulimit -f), or choose another folder."
            raise MixsegError(sentence, "file-too-large", file=path) from error
        raise


@contextmanager
def writing_arrays(path: Path) -> Iterator[Callable[[str, NDArray[np.generic]], None]]:
    """Inside, ``keep(name, array)`` adds an array, which must not change any more, to the archive ``path``.

    What ``np.savez_compressed`` writes and ``np.load`` reads, less tightly packed in a third of the time, by a thread
    of its own; what goes wrong there is raised by a later call, or at the end.
    """
    import numpy as np  # here, so that whoever reads JSON need not wait for it

    with (
        replacing(path) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed,
        ThreadPoolExecutor(max_workers=1, thread_name_prefix="archive") as pool,
    ):

        def write(name: str, array: NDArray[np.generic]) -> None:
            with packed.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)

        kept: deque[Future[None]] = deque()

        def keep(name: str, array: NDArray[np.generic]) -> None:
            kept.append(pool.submit(write, name, array))
            while kept and kept[0].done():
                kept.popleft().result()

        try:
            yield keep
            for each in kept:
                each.result()
        finally:
            pool.shutdown(cancel_futures=True)  # there is nothing left to write unless something went wrong


LONGEST_NAME = 200
"""Bytes: a file may be called by 255, of which ours add some."""


def check_name(what: str, name: str, where: object) -> None:
    """Nothing, or one sentence about a name after which no file can be called, or one that lies in another folder."""
    if NO_LETTER.search(name.replace("\0", "/")) or len(name.encode()) > LONGEST_NAME:
        raise MixsegError(
            f"The {what} {name!r} in {where} has letters that are none (a new line, or such as are not UTF-8), or more "
            f"than {LONGEST_NAME} bytes: rename it.",
            "unsafe-name",
            kind=what,
            name=name,
            where=where,
        )
    if not name.strip(".") or any(sign in name for sign in "/\\\0"):
        raise MixsegError(
            f"The {what} {name!r} in {where} cannot be part of a file name: rename it, without / and \\, "
            "and not with dots alone.",
            "unsafe-name",
            kind=what,
            name=name,
            where=where,
        )


def write_json(path: Path, content: Any) -> None:  # noqa: ANN401 - whatever json takes
    """Write ``content`` as indented JSON, atomically; what is not a number, such as an undefined score, is null."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(strict(content), indent=1, allow_nan=False) + "\n", encoding="utf-8")


def strict(value: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
    """``value`` with null for nan and the infinities, which JSON does not know."""
    if isinstance(value, Mapping):
        return {key: strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [strict(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def replacing_folder(
    path: Path, *, marker: str, what: str = "", is_there: Callable[[], bool] = lambda: False
) -> Iterator[Path]:
    """Yield an empty folder beside ``path``; on success it takes its place, on failure it goes.

    Args:
        path: The folder to write. One that exists is replaced only if it is empty or holds ``marker``.
        marker: The file that says that such a folder is one of ours; "" where none is replaced.
        what: What such a folder is called.
        is_there: Whether what lies there by now is as good. Another process was quicker, and may be reading it: it
            stays, and ours goes.
    """
    check_replaceable(path, marker, what)
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


def check_replaceable(
    path: Path, marker: str, what: str = "", *, harmless: Callable[[Path], bool] = lambda inside: False
) -> None:
    """An error if ``path`` is something that must not be replaced by a new folder: see ``check_not_foreign``."""
    if path.is_dir() and path.samefile("."):  # whoever stands in it would stand in one that is gone
        raise MixsegError(
            f"{path} is the current folder, which cannot be replaced by a new one: name another folder.",
            "folder-in-use",
            folder=path,
        )
    check_not_foreign(path, marker, what, harmless=harmless)


def check_not_foreign(
    path: Path, marker: str, what: str = "", *, harmless: Callable[[Path], bool] = lambda inside: False
) -> None:
    """Nothing, or one sentence if ``path`` is a file, or a folder that holds something else than we write there.

    Args:
        path: The folder to write to, which need not exist.
        marker: The file that says that such a folder is one of ours; "" where none may hold anything.
        what: What such a folder is called.
        harmless: Whether something that lies in it says nothing against its being one of ours.
    """
    if path.exists() and not path.is_dir():
        raise MixsegError(f"{path} is a file: choose a folder as --out.", "not-a-folder", folder=path)
    inside = sorted(path.iterdir()) if path.is_dir() else []
    foreign = [each.name for each in inside if not harmless(each)]
    # The marker is asked for last: another process may begin such a folder at this moment, and writes it first.
    if foreign and not (marker and (path / marker).is_file()):
        known = f"is no {what} (it has no {marker}), and it " if marker else ""
        raise MixsegError(
            f"{path} {known}is not empty ({foreign[0]}): choose a new or an empty folder as --out.",
            "folder-not-empty",
            folder=path,
            holds=foreign[0],
        )


def _sweep(path: Path) -> None:
    """Remove what a process of this machine that was killed has left beside ``path``."""
    prefix = f".{path.name}{WRITING}"
    for leftover in path.parent.glob(f"{prefix}*") if path.parent.is_dir() else ():
        pid = leftover.name.removeprefix(prefix).removesuffix("-old")
        if not alive(pid):
            shutil.rmtree(leftover, ignore_errors=True)
