"""The ACDC challenge's own layout: ``patientNNN/patientNNN_frameFF[_gt|_scribble].nii.gz``, 4D films beside them."""

from __future__ import annotations

import re
from pathlib import Path

from mixseg.core.errors import MixsegError
from mixseg.core.types import IGNORE, Case, Source
from mixseg.datasets import formats
from mixseg.datasets.labels import LabelFlags, given
from mixseg.datasets.layouts.base import Say, entries, keyed, patient_and_frame, silent, subfolders_by_part, unique

CLASSES = ("background", "RV", "Myo", "LV")
MASK_IDS = {0: 0, 1: 1, 2: 2, 3: 3}
SCRIBBLE_IDS = {**MASK_IDS, 4: IGNORE}

PATIENT = re.compile(r"patient\d+")
SCAN = re.compile(r"patient\d+_frame\d+")
SPLITS = {"training": "train", "testing": "test"}


def cases(root: Path, flags: LabelFlags | None = None, say: Say = silent) -> list[Case]:
    """One case per frame, with its full mask and its hand-drawn scribbles where they lie beside it."""
    scribbles = given("ACDC scribbles", SCRIBBLE_IDS, CLASSES, why="the layout's own map", flags=flags or LabelFlags())
    found = [case for folder, split in _patients(root) for case in _frames(folder, split, dict(scribbles.ids))]
    if any(case.partial is not None for case in found):
        say(scribbles.sentence)
    if any(case.full is not None for case in found):
        say(given("ACDC masks", MASK_IDS, CLASSES, why="the layout's own map", flags=LabelFlags()).sentence)
    return unique(found, root)


def fits(root: Path) -> bool:
    """Whether there is a patient folder with a frame in it."""
    return any(SCAN.match(path.name) for folder, _ in _patients(root)[:3] for path in entries(folder))


def _patients(root: Path) -> list[tuple[Path, str]]:
    """The patient folders, directly below or in ``training`` and ``testing``, which then say the split."""
    return [(folder, split) for folder, split in subfolders_by_part(root, SPLITS) if PATIENT.fullmatch(folder.name)]


def _frames(folder: Path, split: str, scribble_ids: dict[int, int]) -> list[Case]:
    files = keyed((path for path in entries(folder) if SCAN.match(path.name) and formats.suffix(path)), formats.stem)
    frames = sorted({match[0] for stem in files if (match := SCAN.match(stem))})
    found = []
    for name in frames:
        if name not in files:
            orphan = next(path for stem, path in files.items() if stem.startswith(name))
            raise MixsegError(
                f"{orphan} has no scan {name}.nii.gz beside it: add the scan or remove the file.",
                "scan-missing",
                file=orphan,
            )
        patient, frame = patient_and_frame(name)
        mask, scribble = files.get(f"{name}_gt"), files.get(f"{name}_scribble")
        found.append(
            Case(
                id=name,
                patient=patient,
                image=(Source((files[name],)),),
                full=None if mask is None else Source((mask,), ids=MASK_IDS),
                partial=None if scribble is None else Source((scribble,), ids=scribble_ids),
                classes=CLASSES,
                frame=frame,
                split=split,
            )
        )
    return found
