"""nnU-Net's raw layout, which is also ours: ``dataset.json``, ``imagesTr``, ``labelsTr`` and their siblings.

Beyond nnU-Net: a scan without a label file is unlabeled; with one channel, names need no ``_0000``; any format that
``io`` reads; ``labelsTr_dense`` holds references for evaluation only; ``imagesVal`` and ``labelsVal`` are validation.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mixseg.core.errors import MixsegError, did_you_mean, listed
from mixseg.core.progress import track
from mixseg.core.text_files import read_json
from mixseg.core.types import IGNORE, Case, Source
from mixseg.datasets import formats
from mixseg.datasets.labels import Decision, LabelFlags, detect, thin
from mixseg.datasets.layouts import nnunet_json
from mixseg.datasets.layouts.base import Say, entries, keyed, patient_and_frame, silent, unique
from mixseg.datasets.layouts.nnunet_writer import Item, write_dataset
from mixseg.datasets.layouts.own.files import list_files

__all__ = ["Item", "cases", "count_declared", "fits", "label_source", "write_dataset"]

SPLITS = {"Tr": "", "Val": "val", "Ts": "test"}
CHANNEL = re.compile(r"(.+)_(\d{4})")
MANY = 100
"""From this many label maps on, reading them takes long enough for a progress bar."""

Counts = Mapping[int, int]


@dataclass(frozen=True)
class _Scan:
    """The files of one case, before the meaning of its labels is known."""

    id: str
    part: str
    images: tuple[Path, ...]
    label: Path | None
    dense: Path | None


def cases(root: Path, flags: LabelFlags | None = None, say: Say = silent) -> list[Case]:
    """One case per scan; a label map with unlabeled voxels makes it "partial", one without "full", none "unlabeled"."""
    description = nnunet_json.read(root / nnunet_json.NAME)
    scans = _scans(root, description)
    _check_scans_known(root / nnunet_json.NAME, description, [scan.id for scan in scans])
    counts = _count([scan.label for scan in scans if scan.label is not None], description)
    decisions = {}
    for part in SPLITS:
        here = {scan.label: counts[scan.label] or {} for scan in scans if scan.part == part and scan.label is not None}
        total: Counter[int] = Counter()
        for of_one in here.values():
            total.update(of_one)
        decisions[part] = decision = detect(
            str(root / f"labels{part}"),
            total,
            names=description.names,
            ignore=description.ignore,
            flags=flags,
            files=list(here.values()),
        )
        if total:
            say(decision.sentence)
        if total and decision.strokes is not None:
            say(_sorted_out(root / f"labels{part}", here, decision, description))
    found = [_case(scan, decisions[scan.part], description, counts) for scan in scans]
    if any(case.split == "val" for case in found):  # then what lies in imagesTr is not to be split again
        found = [case if case.split else replace(case, split="train") for case in found]
    return unique(found, root)


def images(root: Path) -> list[Case]:
    """The scans alone: no label map is read, whatever its ids mean."""
    scans = _scans(root, nnunet_json.read(root / nnunet_json.NAME))
    return unique([Case(scan.id, scan.id, tuple(Source((path,)) for path in scan.images)) for scan in scans], root)


def fits(root: Path) -> bool:
    """Whether there is a dataset.json, and the folders that it is about; elsewhere it may just name labels."""
    there = {path.name for path in entries(root)}
    if nnunet_json.NAME not in there:
        return False
    content = read_json(root / nnunet_json.NAME) if any(path.is_dir() for path in entries(root)) else {}
    lists = isinstance(content, dict) and "dataset" in content
    folders = {f"{what}{part}" for what in ("images", "labels") for part in SPLITS}
    return bool(there & folders) or lists or not list_files(root).voxels


def _scans(root: Path, description: nnunet_json.Description) -> list[_Scan]:
    there = {path.name for path in entries(root)}
    found = [_Scan(name, "Tr", images, label, None) for name, (images, label) in description.files.items()]
    named = {path.absolute() for scan in found for path in scan.images}
    for part in SPLITS:
        if part == "Tr" and description.files:
            continue
        if f"images{part}" not in there:
            _check_images_present(root, part, there)
            continue
        labels, dense = (
            keyed(_readable(root / name), formats.stem) if name in there else {}
            for name in (f"labels{part}", f"labels{part}_dense")
        )
        images = _images(root / f"images{part}", description.channels, set(labels))
        for stem, path in {**dense, **labels}.items():
            if stem not in images:
                raise MixsegError(
                    f"{path} has no scan in {root / f'images{part}'}: add it, or remove or rename this.",
                    "scan-missing",
                    file=path,
                )
        found += [
            _Scan(name, part, paths, labels.get(name), dense.get(name))
            for name, paths in images.items()
            if paths[0].absolute() not in named
        ]
    return found


def _check_images_present(root: Path, part: str, there: set[str]) -> None:
    """Nothing, or one sentence about label maps of a part without scans: nobody would miss them."""
    for name in (f"labels{part}", f"labels{part}_dense"):
        if name in there and _readable(root / name):
            raise MixsegError(
                f"{root / name} has no scans, images{part} is missing: add it, or remove or rename this.",
                "scan-missing",
                folder=root / name,
            )


def _check_scans_known(path: Path, description: nnunet_json.Description, scans: list[str]) -> None:
    """Nothing, or one sentence about an entry of no scan: whom it was meant for would go without it, unnoticed."""
    there = set(scans)
    for key, named in (("patients", description.patients), ("annotated", description.annotated)):
        for name in named:
            if name not in there:
                raise MixsegError(
                    f"'{key}' of {path} names {name!r}, which is no scan: {did_you_mean(name, scans)}",
                    "unknown-scan",
                    file=path,
                    key=key,
                    name=name,
                )


def _readable(folder: Path) -> list[Path]:
    return [path for path in entries(folder) if formats.suffix(path)]


def _images(folder: Path, channels: int, labels: set[str]) -> dict[str, tuple[Path, ...]]:
    """Case -> one file per channel, by the number at the end of the name."""
    paths = _readable(folder)
    stems = {formats.stem(path) for path in paths}

    files = keyed(paths, lambda path: case_and_channel(formats.stem(path), stems, channels=channels, labels=labels))
    result = {}
    for name in sorted({name for name, _ in files}):
        for channel in range(channels):
            if (name, channel) not in files:
                raise MixsegError(
                    f"{folder / f'{name}_{channel:04}'} is missing (dataset.json declares {channels} channels): "
                    "add the file, or mend channel_names.",
                    "channel-missing",
                    file=folder / f"{name}_{channel:04}",
                )
        result[name] = tuple(files[name, channel] for channel in range(channels))
    more = next((path for (_, channel), path in files.items() if channel >= channels), None)
    if more is not None:
        raise MixsegError(
            f"{more} is one channel more than dataset.json declares ({channels}): mend channel_names, or remove it.",
            "undeclared-channel",
            file=more,
        )
    return result


def case_and_channel(stem: str, stems: set[str], *, channels: int | None, labels: set[str]) -> tuple[str, int]:
    """The case and the channel of the image file ``stem`` among ``stems``, by the number at the end of its name.

    With one channel a number ends the id, as in ``scan_0007``. So does ``_0000``, which may be nnU-Net's suffix, if a
    label map has the same name or there is a ``_0001``.
    """
    match = CHANNEL.fullmatch(stem)
    if match is None:
        return stem, 0
    if channels == 1 and (match[2] != "0000" or stem in labels or f"{match[1]}_0001" in stems):
        return stem, 0
    return match[1], int(match[2])


def _count(labels: list[Path], description: nnunet_json.Description) -> dict[Path, Counts | None]:
    """Voxels per declared id of each label map; ``None`` for one that cannot be read, which ``check`` will tell."""

    def count(path: Path) -> Counts | None:
        try:
            return count_declared(path, description)
        except MixsegError:
            return None

    with ThreadPoolExecutor(max_workers=4) as pool:  # decompressing, the slow part, runs outside the interpreter lock
        results = pool.map(count, labels)
        if len(labels) >= MANY:
            results = track(results, "reading label maps", total=len(labels))
        return dict(zip(labels, results, strict=True))


def count_declared(path: Path, description: nnunet_json.Description) -> Counts:
    """Voxels per declared id of a label map."""
    translation = _translation(path, description)
    return {translation.get(value, value): number for value, number in formats.count_ids(path).items()}


def _translation(path: Path, description: nnunet_json.Description) -> dict[int, int]:
    """For segments, matched by name: number in the file -> declared id. Other files hold declared ids already."""
    declared = {name.lower(): value for value, name in description.names.items()}
    if description.ignore is not None:
        declared["ignore"] = description.ignore
    segments = formats.segment_names(path)
    # An undeclared segment gets an id that nobody can declare, so that it is refused where it was painted.
    return {number: declared.get(name.lower(), -1000 - number) for number, name in segments.items()}


def _sorted_out(
    folder: Path, maps: Mapping[Path, Counts], decision: Decision, description: nnunet_json.Description
) -> str:
    """Which label maps are scribbles and which full masks, where scribbles mark the background with an id of their own.

    What holds no such mark and is all lines may be either: it is refused by name.
    """
    meanings = {path: [decision.ids_in(found).get(value) for value in found] for path, found in maps.items()}
    scribbles = [path for path in maps if IGNORE in meanings[path]]
    masks = [path for path in maps if IGNORE not in meanings[path]]
    mark = decision.strokes

    def lines(path: Path) -> bool:
        try:
            source = label_source(path, decision.ids, description)
            return (
                mark not in maps[path]
                and source is not None
                and thin(formats.read_labels(source).array.astype(np.uint8))
            )
        except MixsegError:  # check says so
            return False

    with ThreadPoolExecutor(max_workers=4) as pool:
        unclear = [path for path, is_lines in zip(masks, pool.map(lines, masks), strict=True) if is_lines]
    if unclear:
        raise MixsegError(
            f"{folder}: nothing in {_named(unclear)} is wider than a line, and no {mark} marks the background: "
            f"scribbles or full masks? In a scribble, mark some background with {mark}; in a full mask of thin "
            f"structures, write {mark} for all of the background.",
            "scribbles-unclear",
            folder=folder,
            files=unclear,
        )
    return f"{folder}: {len(scribbles)} scribbles ({_named(scribbles)}), {len(masks)} full masks ({_named(masks)})."


def _named(paths: list[Path]) -> str:
    return listed([path.name for path in paths]) or "none"


def _case(
    scan: _Scan,
    decision: Decision,
    description: nnunet_json.Description,
    counts: Mapping[Path, Counts | None],
) -> Case:
    found = (None if scan.label is None else counts[scan.label]) or {}
    ids = decision.ids_in(found)
    label = None if scan.label is None else label_source(scan.label, ids, description)
    unlabeled = [ids.get(value) == IGNORE for value in found]
    nothing = bool(unlabeled) and all(unlabeled)
    partial = any(unlabeled)
    patient, frame = patient_and_frame(scan.id)
    if scan.id in description.patients:
        patient = description.patients[scan.id]
        frame = scan.id.removeprefix(patient).lstrip("_-") if scan.id.startswith(patient) else frame
    return Case(
        id=scan.id,
        patient=patient,
        image=tuple(Source((path,)) for path in scan.images),
        full=None if partial else label,
        partial=label if partial and not nothing else None,
        classes=decision.classes,
        frame=frame,
        annotated=description.annotated.get(scan.id),
        split=SPLITS[scan.part],
        # A reference is complete: 0 is its background, even if it means "not painted" among the strokes.
        hidden=None if scan.dense is None else label_source(scan.dense, {**decision.ids, 0: 0}, description),
    )


def label_source(path: Path, ids: Mapping[int, int], description: nnunet_json.Description) -> Source | None:
    """The source of a label map; nothing for a segmentation of one voxel, which is how Slicer saves an empty one."""
    if formats.suffix(path) not in formats.SEGMENTS:
        return Source((path,), ids=ids)
    try:
        if formats.read_geometry(path).shape == (1, 1, 1):
            return None
        translation = _translation(path, description)
    except MixsegError:  # the file is broken: check says so
        return Source((path,), ids=ids)
    by_number = {number: ids[value] for number, value in translation.items() if value in ids}
    return Source((path,), ids={0: ids.get(0, 0), **by_number})
