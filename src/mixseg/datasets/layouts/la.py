"""The 2018 left atrium challenge's own layout: ``ID/lgemri.nrrd`` and ``ID/laendo.nrrd`` (0 / 255)."""

from __future__ import annotations

from pathlib import Path

from mixseg.core.errors import MixsegError
from mixseg.core.types import Case, Source
from mixseg.datasets import formats
from mixseg.datasets.labels import LabelFlags, given
from mixseg.datasets.layouts.base import Say, entries, keyed, silent, subfolders_by_part, unique

CLASSES = ("background", "left atrium")
MASK_IDS = {0: 0, 1: 1, 255: 1}
"""The challenge wrote 255; copies that were binarised hold 1."""

SPLITS = {"Training Set": "train", "Testing Set": "test"}


def cases(root: Path, flags: LabelFlags | None = None, say: Say = silent) -> list[Case]:
    """One case per folder; one without ``laendo`` is unlabeled."""
    decision = given("LA masks", MASK_IDS, CLASSES, why="the layout's own map", flags=flags or LabelFlags())
    found = [_case(folder, split, dict(decision.ids)) for folder, split in _scans(root)]
    say(decision.sentence)
    return unique(found, root)


def fits(root: Path) -> bool:
    """Whether there is a folder with a scan called ``lgemri``."""
    return bool(_scans(root))


def _scans(root: Path) -> list[tuple[Path, str]]:
    return [
        (folder, split)
        for folder, split in subfolders_by_part(root, SPLITS)
        if any(path.name.startswith(("lgemri.", "laendo.")) for path in entries(folder))
    ]


def _case(folder: Path, split: str, ids: dict[int, int]) -> Case:
    files = keyed((path for path in entries(folder) if formats.suffix(path)), formats.stem)
    if "lgemri" not in files:
        raise MixsegError(
            f"{folder} has a mask but no scan: add lgemri.nrrd or remove the folder.", "scan-missing", folder=folder
        )
    mask = files.get("laendo")
    return Case(
        id=folder.name,
        patient=folder.name,
        image=(Source((files["lgemri"],)),),
        full=None if mask is None else Source((mask,), ids=ids),
        classes=CLASSES,
        split=split,
    )
