"""What the layouts share: the row of the table, walking folders, and the names of patients."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from mixseg.core.errors import MixsegError
from mixseg.core.files import check_name
from mixseg.core.types import Case
from mixseg.datasets.labels import LabelFlags
from mixseg.datasets.layouts.table import ScanTable

Key = TypeVar("Key")

Say = Callable[[str], None]
"""Takes the sentence about what the label ids of a folder were found to mean."""

FRAME = re.compile(r"(patient\d+)_frame(\d+)")


def silent(_sentence: str) -> None:
    """Nobody listens."""


@dataclass(frozen=True)
class Dataset:
    """A row of ``DATASETS``: a layout of files that people have.

    Attributes:
        cases: ``(root, flags, say) -> list[Case]``; raises MixsegError if the structure of the folder is wrong. What is
            wrong inside single files is found by ``check``.
        fits: Whether a folder looks like this layout; quick, reads no voxels.
        about: One clause for the command line's help and the docs.
        images: ``root -> list[Case]`` without labels, where ``cases`` may have to ask what those mean.
        table: ``(root, flags) -> ScanTable``, where there is more to say of a scan than its case.
    """

    cases: Callable[[Path, LabelFlags, Say], list[Case]]
    fits: Callable[[Path], bool]
    about: str
    images: Callable[[Path], list[Case]] | None = None
    table: Callable[[Path, LabelFlags], ScanTable] | None = None


def entries(folder: Path) -> list[Path]:
    """What lies in ``folder``, sorted, without hidden files; a folder that cannot be listed is one sentence."""
    with _listing(folder):
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def subfolders(folder: Path) -> list[Path]:
    """The folders in ``folder``; a link that leads nowhere or in a circle is one sentence."""
    found = []
    for path in entries(folder):
        with _listing(path):
            if path.is_dir():
                found.append(path)
            elif path.is_symlink() and not path.exists():
                raise MixsegError(
                    f"{path} is a symbolic link that leads nowhere or back to itself: remove or mend it.",
                    "dead-link",
                    folder=path,
                )
    return found


def subfolders_by_part(root: Path, parts: Mapping[str, str]) -> list[tuple[Path, str]]:
    """The folders in ``root``, or those in its folders named in ``parts``, which then say the split; else it is ""."""
    halves = [(folder, parts[folder.name]) for folder in subfolders(root) if folder.name in parts]
    return [(folder, split) for half, split in halves or [(root, "")] for folder in subfolders(half)]


@contextmanager
def _listing(folder: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise MixsegError(
            f"{folder} does not exist (or is a link to nothing): check the path.", "folder-missing", folder=folder
        ) from None
    except NotADirectoryError:
        raise MixsegError(
            f"{folder} is not a folder: give the folder that holds the scans.", "not-a-folder", folder=folder
        ) from None
    except PermissionError:
        raise MixsegError(
            f"{folder} may not be listed (no permission): ask its owner, or copy it.", "no-permission", folder=folder
        ) from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise MixsegError(
                f"{folder} is a symbolic link that leads back to itself: remove it, or link to what is meant.",
                "dead-link",
                folder=folder,
            ) from None
        raise MixsegError(
            f"{folder} cannot be listed ({error.strerror}): check the disk.", "unreadable-folder", folder=folder
        ) from error


def files_below(folder: Path, *, depth: int) -> list[Path]:
    """The files in ``folder`` and ``depth`` levels below; a link to a folder above is followed once."""
    found: list[Path] = []
    seen: set[Path] = set()

    def visit(place: Path, left: int) -> None:
        if place.resolve() in seen:
            return
        seen.add(place.resolve())
        folders = subfolders(place)
        found.extend(path for path in entries(place) if path not in folders)
        for inner in folders if left else []:
            visit(inner, left - 1)

    visit(folder, depth)
    return found


def keyed(paths: Iterable[Path], key: Callable[[Path], Key]) -> dict[Key, Path]:
    """Each path under its key; two paths with one key are refused by name."""
    result: dict[Key, Path] = {}
    for path in paths:
        other = result.setdefault(key(path), path)
        if other != path:
            raise MixsegError(
                f"{other} and {path} are two files for one scan: rename or remove one of them.",
                "duplicate-scan",
                file=path,
                other=other,
            )
    return result


def unique(cases: list[Case], root: Path) -> list[Case]:
    """The cases, of which there must be some, each with an id of its own."""
    if not cases:
        raise MixsegError(
            f"{root} holds no scans: check the path, and see docs/reference/layouts.md for the layouts.",
            "no-scans",
            folder=root,
        )
    first: dict[str, Case] = {}
    for case in cases:
        check_name("scan", case.id, root)
        check_name("patient", case.patient, root)
        other = first.setdefault(case.id, case)
        if other is not case:
            raise MixsegError(
                f"{other.image[0].path} and {case.image[0].path} are two scans with one id, {case.id}: rename one.",
                "duplicate-scan",
                case=case.id,
                file=case.image[0].path,
                other=other.image[0].path,
            )
    return cases


def patient_and_frame(case: str) -> tuple[str, str]:
    """``patient007_frame01`` -> ("patient007", "01"); any other id is a patient with one scan."""
    match = FRAME.match(case)
    return (match[1], match[2]) if match else (case, "")
