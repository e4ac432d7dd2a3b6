"""The h5 files of the semi-supervised benchmarks: SSL4MIS and WSL4MIS (volumes, slices, list files), UA-MT.

``NAME.h5`` is a volume and ``NAME_slice_S.h5`` one of its slices, with arrays image, label and perhaps scribble, slices
first; ``ID/mri_norm2.h5`` is UA-MT's, slices last. Where a scan lies there both ways, the volume is taken.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from pathlib import Path

from mixseg.core.errors import MixsegError
from mixseg.core.types import IGNORE, Case, Source
from mixseg.datasets import formats
from mixseg.datasets.labels import Decision, LabelFlags, detect, given
from mixseg.datasets.layouts import acdc, la
from mixseg.datasets.layouts.base import FRAME, Say, files_below, keyed, patient_and_frame, silent, unique

UA_MT = "mri_norm2.h5"
SLICE = re.compile(r"(.+?)_slice_?(\d+)")
DEPTH = 3

Files = dict[str, tuple[Path, ...]]


def cases(root: Path, flags: LabelFlags | None = None, say: Say = silent) -> list[Case]:
    """One case per volume, with its full mask and scribbles where the file holds them."""
    files = files_below(root, depth=DEPTH)
    scans = _scans([path for path in files if formats.suffix(path) in formats.HDF5])
    splits = _splits([path for path in files if path.suffix in (".list", ".txt")], scans)
    keys = {name: _keys(paths[0]) for name, paths in scans.items()}
    decisions = _decide(root, scans, keys, flags or LabelFlags())
    for decision in decisions.values():
        say(decision.sentence)
    return unique([_case(name, scans[name], keys[name], decisions, splits) for name in sorted(scans)], root)


def images(root: Path) -> list[Case]:
    """The scans alone, whatever the ids of their labels mean."""
    scans = _scans([path for path in files_below(root, depth=DEPTH) if formats.suffix(path) in formats.HDF5])
    return unique([_case(name, scans[name], ("image",), {}, {}) for name in sorted(scans)], root)


def fits(root: Path) -> bool:
    """Whether there are h5 files."""
    return any(formats.suffix(path) in formats.HDF5 for path in files_below(root, depth=DEPTH))


def _scans(files: list[Path]) -> Files:
    """Case -> its volume, or its slices in numeric order."""
    slices: dict[str, list[Path]] = defaultdict(list)
    volumes = []
    for path in files:
        match = SLICE.fullmatch(path.stem)
        if match:
            slices[match[1]].append(path)
        else:
            volumes.append(path)
    scans: Files = {name: (path,) for name, path in keyed(volumes, _name).items()}
    for name, paths in slices.items():
        numbered = keyed(paths, _slice_number)
        scans.setdefault(name, tuple(numbered[number] for number in sorted(numbered)))
    return scans


def _name(path: Path) -> str:
    return path.parent.name if path.name == UA_MT else path.stem


def _slice_number(path: Path) -> int:
    match = SLICE.fullmatch(path.stem)
    return int(match[2]) if match else 0


def _splits(lists: list[Path], scans: Files) -> dict[str, str]:
    """Case -> split, from ``train*.list``, ``val*.list`` and ``test*.list``; their lines name volumes or slices."""
    result: dict[str, str] = {}
    for path in lists:
        split = next((split for split in ("train", "val", "test") if re.match(rf"{split}\b|{split}_", path.stem)), "")
        # A text file may also be somebody's notes, in any encoding: only lines that name scans count.
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if split else []:
            stem = line.strip().removesuffix(".h5")
            match = SLICE.fullmatch(stem)
            name = match[1] if match else stem
            if name in scans and result.setdefault(name, split) != split:
                raise MixsegError(
                    f"{path} names {name}, which is in the list of {result[name]} too: keep it in one.",
                    "split-overlap",
                    file=path,
                    case=name,
                )
    return result


def _keys(path: Path) -> tuple[str, ...]:
    try:
        keys = formats.h5_keys(path)
    except MixsegError:  # the file is broken: check says so when it reads the image
        return ("image",)
    if "image" not in keys:
        raise MixsegError(
            f"{path} holds no array 'image' (it holds {', '.join(keys) or 'none'}): rename its arrays.",
            "array-missing",
            file=path,
            array="image",
        )
    return keys


def _decide(root: Path, scans: Files, keys: dict[str, tuple[str, ...]], flags: LabelFlags) -> dict[str, Decision]:
    """What the ids of ``label`` and ``scribble`` mean: ACDC's or the atrium's own map, else by the general rule."""
    why = "as the benchmark's files are"
    if all(FRAME.match(name) for name in scans):
        return {
            "label": given(f"{root}: label", acdc.MASK_IDS, acdc.CLASSES, why=why, flags=LabelFlags()),
            "scribble": given(f"{root}: scribble", acdc.SCRIBBLE_IDS, acdc.CLASSES, why=why, flags=flags),
        }
    if all(paths[0].name == UA_MT for paths in scans.values()):
        return {"label": given(f"{root}: label", la.MASK_IDS, la.CLASSES, why=why, flags=flags)}
    decisions: dict[str, Decision] = {}
    for key in ("label", "scribble"):
        files = [_count(Source(paths, key=key)) for name, paths in scans.items() if key in keys[name]]
        counts: Counter[int] = Counter()
        for found in files:
            counts.update(found)
        if counts:
            known = decisions.get("label")
            meanings = known.ids.items() if known else []
            names = {value: known.classes[index] for value, index in meanings if known and index != IGNORE}
            decisions[key] = detect(f"{root}: {key}", counts, names=names, flags=flags, files=files)
    return decisions


def _count(source: Source) -> dict[int, int]:
    try:
        return formats.count_ids(source)
    except MixsegError:  # check says so
        return {}


def _case(
    name: str, paths: tuple[Path, ...], keys: tuple[str, ...], decisions: dict[str, Decision], splits: dict[str, str]
) -> Case:
    order = "" if paths[0].name == UA_MT else formats.TRANSPOSED
    patient, frame = patient_and_frame(name)

    def label(key: str) -> Source | None:
        if key not in keys or key not in decisions:
            return None
        decision = decisions[key]
        found = () if decision.strokes is None else _count(Source(paths, key=key))
        return Source(paths, key=key + order, ids=decision.ids_in(found))

    full, partial = label("label"), label("scribble")
    if full is not None and _is_partial(full):
        full, partial = None, partial or full
    classes = next(iter(decisions.values())).classes if decisions else ("background", "foreground")
    return Case(
        id=name,
        patient=patient,
        image=(Source(paths, key="image" + order),),
        full=full,
        partial=partial,
        classes=classes,
        frame=frame,
        split=splits.get(name, ""),
    )


def _is_partial(label: Source) -> bool:
    """Whether an array called "label" holds unlabeled voxels; it is read only if the flags or the rule allow that."""
    ids = label.ids or {}
    return IGNORE in ids.values() and any(ids.get(value) == IGNORE for value in _count(label))
