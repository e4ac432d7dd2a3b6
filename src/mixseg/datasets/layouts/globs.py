"""``--full GLOB`` and ``--scribbles GLOB``: which scans and label files are meant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from mixseg.core.errors import MixsegError, did_you_mean
from mixseg.core.types import IGNORE, Case
from mixseg.datasets.labels import LabelFlags


def names_of(scan: str, labels: Iterable[Path], root: Path) -> list[str]:
    """What a glob may call the labels of a scan: its id, and the files, with their folders or without."""
    files = [file.relative_to(root) if file.is_relative_to(root) else file for file in labels]
    return [scan, *(name for file in files for name in (file.as_posix(), file.name))]


def matching(globs: Iterable[str], names: Sequence[str]) -> str | None:
    """The first of ``globs`` that one of ``names`` fits."""
    return next((glob for glob in globs if any(fnmatchcase(name, glob) for name in names)), None)


def check_known(flags: LabelFlags, names: Sequence[Sequence[str]], root: Path) -> None:
    """Nothing, if each glob fits something: a label map that was meant would be read otherwise, unnoticed.

    Raises:
        MixsegError: A glob fits no scan and no label file, or two that contradict each other fit one.
    """
    for glob in (*flags.full, *flags.scribbles):
        if not any(matching([glob], each) for each in names):
            nearest = did_you_mean(glob, [name for each in names for name in each])
            raise MixsegError(
                f"{glob} fits no scan and no label file of {root}: {nearest}", "unknown-scan", name=glob, folder=root
            )
    both = next((each for each in names if matching(flags.full, each) and matching(flags.scribbles, each)), None)
    if both:
        raise MixsegError(
            f"{both[0]} is named by --full and by --scribbles: leave it out of one of the two.",
            "flags-contradict",
            flag="--full",
            where=both[0],
        )


def as_flagged(case: Case, flags: LabelFlags, root: Path) -> Case:
    """A case whose layout took its labels for finished, or for strokes, as flags take them."""
    names = names_of(case.id, [file for source in (case.full, case.partial) if source for file in source.files], root)
    if case.full is not None and matching(flags.scribbles, names):
        drawn = replace(case.full, ids={**(case.full.ids or {}), 0: IGNORE})
        return replace(case, full=None, partial=case.partial or drawn)
    if case.full is None and case.partial is not None and matching(flags.full, names):
        return replace(case, full=replace(case.partial, ids={**(case.partial.ids or {}), 0: 0}), partial=None)
    return case
