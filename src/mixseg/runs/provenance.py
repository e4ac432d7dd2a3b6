"""Which code made a run: the commit of its sources, and a hash of them that anybody can compute from the commit."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import tarfile
from collections.abc import Iterable
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
COMMIT_VARIABLE = "MIXSEG_COMMIT"
"""Says the commit where the sources lie without their repository, as on a node that they were copied to."""


def commit() -> str | None:
    """The commit of the sources that run: as told, else as git knows it, with ``-dirty`` where they differ from it."""
    given = os.environ.get(COMMIT_VARIABLE)
    if given:  # a copy may lie in a repository whose commit says nothing of it; ``source_hash`` proves what was told
        return given
    try:
        _git("ls-files", "--error-unmatch", PACKAGE.name + "/__init__.py", at=PACKAGE.parent)
        return _git("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*", at=PACKAGE).decode().strip()
    except (OSError, subprocess.CalledProcessError):  # installed below somebody's repository is not in it
        return None


def source_hash() -> str:
    """Of the package's modules as they lie there."""
    return _hashed((path.relative_to(PACKAGE).as_posix(), path.read_bytes()) for path in PACKAGE.rglob("*.py"))


def source_hash_of(commit: str, repository: Path) -> str:
    """Of the package's modules as a commit of ``repository`` has them.

    Raises:
        subprocess.CalledProcessError: If there is no such commit.
    """
    packed = _git("archive", "--format=tar", commit, "src/mixseg", at=repository)
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        files = {
            member.name.removeprefix("src/mixseg/"): archive.extractfile(member)
            for member in archive.getmembers()
            if member.name.endswith(".py")
        }
        return _hashed((name, file.read()) for name, file in files.items() if file)


def _hashed(files: Iterable[tuple[str, bytes]]) -> str:
    found = hashlib.sha256()
    for name, content in sorted(files):
        found.update(f"{name}\0{len(content)}\0".encode() + content)
    return found.hexdigest()[:32]


def _git(*words: str, at: Path) -> bytes:
    return subprocess.run(["git", "-C", str(at), *words], capture_output=True, check=True).stdout
