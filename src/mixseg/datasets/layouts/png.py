"""Folders of slices: ``{trainFull,trainSemi,val,test}/{Img,GT,WeaklyAnnotations}/patientXXXX_PP_S.png``.

PP is the phase and S the slice, so a case is a patient in a phase. GT is complete; in WeaklyAnnotations only the
foreground is painted and 0 is unlabeled. The masks of ``trainSemi`` are for evaluation: training never sees them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from mixseg.core.errors import MixsegError
from mixseg.core.types import IGNORE, Case, Source
from mixseg.datasets import formats
from mixseg.datasets.labels import Decision, LabelFlags, given
from mixseg.datasets.layouts.base import Say, entries, keyed, silent, subfolders, unique

SPLITS = {"trainFull": "train", "trainSemi": "train", "val": "val", "test": "test"}
SLICE = re.compile(r"(.+)_(\d+)_(\d+)")
IMAGES, MASKS, STROKES = "Img", "GT", "WeaklyAnnotations"

Stacks = dict[str, tuple[Path, ...]]
"""``patientXXXX_PP`` -> its slices in numeric order."""


def cases(root: Path, flags: LabelFlags | None = None, say: Say = silent) -> list[Case]:
    """One case per patient and phase, its slices stacked in numeric order."""
    parts = {folder.name: _part(folder) for folder in subfolders(root) if folder.name in SPLITS}
    if not parts:
        raise MixsegError(
            f"{root} has none of {', '.join(SPLITS)} in it: give the folder that directly holds them.",
            "unknown-layout",
            folder=root,
        )
    masks, strokes = _decide(root, parts, flags or LabelFlags())
    say(masks.sentence)
    say(strokes.sentence)
    found = [
        _case(name, part, stacks, masks, strokes) for part, stacks in parts.items() for name in sorted(stacks[IMAGES])
    ]
    return unique(found, root)


def fits(root: Path) -> bool:
    """Whether one of the four folders is there, with images in it."""
    return any((folder / IMAGES).is_dir() for folder in subfolders(root) if folder.name in SPLITS)


def _part(folder: Path) -> dict[str, Stacks]:
    there = {path.name for path in subfolders(folder)}
    stacks = {name: _stacks(folder / name) if name in there else {} for name in (IMAGES, MASKS, STROKES)}
    for name in (MASKS, STROKES):
        for case, paths in stacks[name].items():
            images = {path.name for path in stacks[IMAGES].get(case, ())}
            odd = {path.name for path in paths} ^ images
            if odd:
                raise MixsegError(
                    f"{min(odd)} is in only one of {folder / IMAGES} and {folder / name}: complete them.",
                    "slice-missing",
                    folder=folder,
                    file=min(odd),
                )
    return stacks


def _stacks(folder: Path) -> Stacks:
    slices: dict[str, list[Path]] = defaultdict(list)
    for path in entries(folder):
        if path.suffix.lower() != ".png":
            continue
        match = SLICE.fullmatch(path.stem)
        if match is None:
            raise MixsegError(
                f"{path} is not called PATIENT_PHASE_SLICE.png: rename or remove it.", "wrong-file-name", file=path
            )
        slices[f"{match[1]}_{match[2]}"].append(path)
    numbered = {case: keyed(paths, lambda path: int(path.stem.rpartition("_")[2])) for case, paths in slices.items()}
    return {case: tuple(paths[number] for number in sorted(paths)) for case, paths in numbered.items()}


def _decide(root: Path, parts: dict[str, dict[str, Stacks]], flags: LabelFlags) -> tuple[Decision, Decision]:
    """The meaning of the ids in GT and in WeaklyAnnotations; values such as 85, 170, 255 become classes 1, 2, 3."""
    painted = {
        name: _values(paths for stacks in parts.values() for paths in stacks[name].values())
        for name in (MASKS, STROKES)
    }
    values = painted[MASKS] or painted[STROKES]
    classes = ("background", *(["foreground"] if len(values) < 2 else [f"class {value}" for value in values]))
    foreground = {value: index for index, value in enumerate(values, start=1)} or {1: 1}
    if len(values) == len(painted[STROKES]) == 1:  # one of them may be stored as 1 and the other as 255
        foreground[painted[STROKES][0]] = 1
    why = "the layout's own map"
    masks = given(f"{root}: {MASKS}", {0: 0, **foreground}, classes, why=why, flags=LabelFlags())
    strokes = given(f"{root}: {STROKES}", {0: IGNORE, **foreground}, classes, why=why, flags=flags)
    return masks, strokes


def _values(stacks: Iterable[tuple[Path, ...]]) -> list[int]:
    """The ids above 0 that occur; a file that cannot be read is passed over here and found by ``check``."""
    counts: Counter[int] = Counter()
    for paths in stacks:
        for path in paths:
            try:
                counts.update(formats.count_ids(path))
            except MixsegError:
                continue
    return sorted(value for value in counts if value)


def _case(name: str, part: str, stacks: dict[str, Stacks], masks: Decision, strokes: Decision) -> Case:
    patient, _, phase = name.rpartition("_")
    mask = Source(stacks[MASKS][name], ids=masks.ids) if name in stacks[MASKS] else None
    stroke = Source(stacks[STROKES][name], ids=strokes.ids) if name in stacks[STROKES] else None
    return Case(
        id=name,
        patient=patient,
        image=(Source(stacks[IMAGES][name]),),
        full=None if part == "trainSemi" else mask,
        partial=stroke,
        classes=masks.classes,
        frame=phase,
        split=SPLITS[part],
        hidden=mask if part == "trainSemi" else None,
    )
