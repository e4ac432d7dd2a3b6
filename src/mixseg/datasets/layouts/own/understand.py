"""A folder -> its table: which files are images, which labels, whose they are and how they were drawn."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mixseg.core.errors import MixsegError
from mixseg.datasets.labels import LabelFlags, describe
from mixseg.datasets.layouts.own import description
from mixseg.datasets.layouts.own.description import Description
from mixseg.datasets.layouts.own.descriptions import read_namings
from mixseg.datasets.layouts.own.dicom import DicomFiles, find_dicom
from mixseg.datasets.layouts.own.files import Found, examine, list_files
from mixseg.datasets.layouts.own.labellings import BACKGROUND, UNLABELED, Labelling, key, label_maps, special
from mixseg.datasets.layouts.own.overlaps import ordered, overlapping
from mixseg.datasets.layouts.own.pairing import differs, pair
from mixseg.datasets.layouts.own.readings import Read, Stated, read_all
from mixseg.datasets.layouts.own.rows import row_of
from mixseg.datasets.layouts.own.scans import Scan, find_scans
from mixseg.datasets.layouts.table import ScanRow, ScanTable, Unplaced

LAYOUT = "own"


def understand(root: Path, flags: LabelFlags) -> ScanTable:
    """The table of a folder.

    Raises:
        MixsegError: There is no image, flags contradict each other, or mixseg.json is broken.
    """
    flags.check(str(root))
    written = description.read(root)
    listing = list_files(root)
    series = find_dicom(root, listing.dicom)
    scans, labels, strange = _sorted_files(examine(listing.voxels, root), series, written, root)
    strange = [*listing.strange, *series.unplaced, *strange]
    if not scans:
        raise MixsegError(
            f"{root} holds {len(listing.voxels)} label maps and no image: add the images, or give the folder that "
            "holds both.",
            "no-scans",
            folder=root,
        )
    given = {**written.classes, **_flagged(flags)}
    backgrounds = {name: entry.background for name, entry in written.scans.items() if entry.background}
    maps = label_maps(labels, scans, read_namings(listing.texts), given, backgrounds)
    classes = _classes(maps, written)
    maps = ordered(maps, written.priority)
    states = {name: entry.structures for name, entry in written.scans.items() if entry.holds}
    read = read_all(maps, classes, Stated(flags, states, written.full, written.scribbles), root)
    rows = []
    for scan in scans:
        row, unused = row_of(scan, read[scan.id], classes, _grounds(scan, labels.get(scan.id, ())))
        rows.append(row)
        strange += [_unused(each, row) for each in unused]
    return ScanTable(root, LAYOUT, classes, tuple(rows), tuple(strange), tuple(_meanings(rows, read)), _priority(read))


def _sorted_files(
    found: Sequence[Found], series: DicomFiles, written: Description, root: Path
) -> tuple[list[Scan], dict[str, list[Found]], list[Unplaced]]:
    """The scans, the label files of each, and what is neither; mixseg.json comes before signs."""
    by_path = {each.path: each for each in (*found, *series.files)}
    scans: list[Scan] = []
    labels: dict[str, list[Found]] = {}
    taken: set[Path] = set()
    apart: set[str] = set()
    for name, entry in written.scans.items():
        if entry.images:
            images = tuple(by_path.get(path) or _missing(path, root) for path in entry.images)
            problem = next((image.problem for image in images if image.problem), "")
            scans.append(Scan(name, entry.patient or name, images, images[0].parts, description.NAME, problem))
        if entry.labels is not None or entry.state == "proposed":
            apart.add(name)
            files = () if entry.state == "proposed" else entry.labels or ()
            labels[name] = [by_path.get(path) or _missing(path, root) for path in files]
        taken |= {*entry.images, *(entry.labels or ())}
    free = [each for each in found if each.path not in taken]
    unread = [each for each in free if each.role == "image"]
    more, strange = find_scans(unread, root, [scan for scan in series.scans if scan.images[0].path not in taken])
    scans = [*scans, *more]
    paired, unpaired = pair([each for each in free if each.role == "label"], scans, root)
    for scan in scans:
        drawn = [label for label in series.drawn_on(scan) if label.path not in taken]
        if scan.id not in apart and (paired.get(scan.id) or drawn):
            labels[scan.id] = [*paired.get(scan.id, ()), *drawn]
    placed = {scan.id: [_placed(label, scan) for label in labels.get(scan.id, ())] for scan in scans}
    return (
        scans,
        {name: [each for each in files if not _slicers_empty(each)] for name, files in placed.items()},
        [
            *strange,
            *unpaired,
        ],
    )


def _missing(path: Path, root: Path) -> Found:
    return Found(
        path, problem=f"{root / description.NAME} names {path}, which is not there: correct the entry or remove it."
    )


def _placed(label: Found, scan: Scan) -> Found:
    """The same, with a sentence if it does not cover its image."""
    difference = "" if label.problem or _slicers_empty(label) else differs(label, scan)
    if not difference:
        return label
    sentence = (
        f"{label.path} does not cover its image {scan.images[0].path}: {difference}. Export it again on the grid of "
        "the image."
    )
    return replace(label, problem=sentence)


def _slicers_empty(label: Found) -> bool:
    """Whether it is a segmentation of one voxel, which is how Slicer saves an empty one."""
    return label.place is not None and label.place.shape == (1, 1, 1)


def _flagged(flags: LabelFlags) -> dict[int, str]:
    """What flags call ids of plain label maps."""
    named = {flags.background: BACKGROUND, flags.scribble_background: BACKGROUND, flags.unlabeled: UNLABELED}
    return {value: name for value, name in named.items() if value}


def _classes(maps: Mapping[str, Sequence[Labelling]], written: Description) -> tuple[str, ...]:
    """All structures: in the order of mixseg.json, then of their ids."""
    given = [special(name) for name in written.classes.values()]
    first: dict[str, int] = {}
    for each in (each for of_one in maps.values() for each in of_one):
        for value, name in each.names.items():
            first[name] = min(value, first.get(name, value))
    names = [*given, *sorted(first, key=lambda name: first[name])]
    unique = {key(name): name for name in reversed(names) if name not in (BACKGROUND, UNLABELED)}
    structures = tuple(dict.fromkeys(unique[key(name)] for name in names if key(name) in unique))
    return (BACKGROUND, *(structures or ("foreground",)))


def _grounds(scan: Scan, labels: Sequence[Found]) -> str:
    """Why labels were taken for those of a scan."""
    if not labels:
        return "no labels"
    same = all(label.path.parent == scan.folder for label in labels)
    return "labels beside the image" if same else "labels called as the image"


def _unused(each: Read, row: ScanRow) -> Unplaced:
    file = each.labelling.files[0]
    other = row.labels[0].name if row.labels else row.id
    sentence = (
        f'{file} is not used, {other} holds the same structures: to use it, name it as "labels" of {row.id} in '
        "mixseg.json."
    )
    return Unplaced(file, each.problem or sentence)


def _meanings(rows: Sequence[ScanRow], read: Mapping[str, Sequence[Read]]) -> list[str]:
    """What ids mean, a sentence for all label maps that agree."""
    origin = {each.labelling.files: each.labelling.why for of_one in read.values() for each in of_one}
    groups: dict[tuple[str, str], list[Path]] = defaultdict(list)
    for row in rows:
        for source in (row.case.full, row.case.partial):
            if source is not None:
                ids = source.ids or {}
                groups[describe(ids, row.case.classes), origin.get(source.files, "")].append(source.path)
    return [
        f"{files[0].name}{f' and {len(files) - 1} more' if len(files) > 1 else ''}: {meaning} ({why})."
        for (meaning, why), files in groups.items()
    ]


def _priority(read: Mapping[str, Sequence[Read]]) -> tuple[str, ...]:
    """The structures that overlap somewhere, in the order in which they count."""
    found = [
        name
        for of_one in read.values()
        for each in of_one
        if each.facts is not None
        for name in overlapping(each.labelling, each.facts)
    ]
    return tuple(dict.fromkeys(found))
