"""The label files of a scan -> label maps whose ids have names: one file, or several that hold a structure each."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mixseg.core.errors import MixsegError, listed
from mixseg.core.types import Layer, Source
from mixseg.datasets import formats
from mixseg.datasets.formats.base import SEGMENTS
from mixseg.datasets.label_facts import UNLABELED_NAMES
from mixseg.datasets.labels import BACKGROUND_NAMES, PADDING
from mixseg.datasets.layouts.own import names
from mixseg.datasets.layouts.own.descriptions import Naming, naming_for
from mixseg.datasets.layouts.own.files import Found
from mixseg.datasets.layouts.own.scans import Scan

if TYPE_CHECKING:  # SimpleITK takes a fifth of a second
    from mixseg.datasets.formats.segments import Segment

BACKGROUND, UNLABELED = "background", "unlabeled"
"""What ids are called that are no structure."""


@dataclass(frozen=True)
class Labelling:
    """One label map.

    Attributes:
        files: Where it lies.
        names: Of its ids; ``BACKGROUND`` and ``UNLABELED`` among them.
        layers: Where it is put together from structures: the first has the id 1.
        grid: Of DICOM segmentations: the files of the series that they were drawn on.
        status: Slicer's, by name.
        declares: Whether the file itself names what it was drawn for, so that a name which is missing was not.
        covers: Voxels by name where structures may overlap, those that others lie on too.
        why: Where the names come from, as a clause.
        problem: Why it cannot be used, in a sentence.
    """

    files: tuple[Path, ...]
    names: Mapping[int, str] = field(default_factory=dict)
    layers: tuple[Layer, ...] = ()
    grid: tuple[Path, ...] = ()
    status: Mapping[str, str] = field(default_factory=dict)
    declares: bool = False
    covers: Mapping[str, int] = field(default_factory=dict)
    why: str = ""
    problem: str = ""

    @property
    def source(self) -> Source:
        """To read its ids from."""
        return Source(self.files, layers=self.layers, grid=self.grid)

    @property
    def structures(self) -> list[str]:
        """The names of what is neither background nor unlabeled."""
        return [name for name in self.names.values() if name not in (BACKGROUND, UNLABELED)]


@dataclass(frozen=True)
class Vocabulary:
    """What ids of plain label maps may be called.

    Attributes:
        given: By the user, who wins.
        namings: By text files.
        numbers: By segments of other files, if all of these agree.
        segments: Whether there are segments at all, which call things by names.
        unnamed: All ids that occur.
    """

    given: Mapping[int, str]
    namings: Sequence[Naming]
    numbers: Mapping[int, str]
    segments: bool
    unnamed: Collection[int]

    def knows(self, structure: str) -> bool:
        """Whether a structure may be called so, as far as the user says."""
        known = {key(name) for name in self.given.values()} - {BACKGROUND, UNLABELED}
        return not known or key(structure) in known


def label_maps(
    found: Mapping[str, Sequence[Found]],
    scans: Iterable[Scan],
    namings: Sequence[Naming],
    given: Mapping[int, str],
    backgrounds: Mapping[str, int],
) -> dict[str, list[Labelling]]:
    """The label maps of each scan, by its id, every structure called alike in all of them.

    Args:
        found: The label files of each scan.
        scans: All scans.
        namings: What text files call ids.
        given: What the user calls ids, which wins.
        backgrounds: By scan, the id of the background in its plain label maps, where the user says so.
    """
    labels = [label for of_one in found.values() for label in of_one]
    segments = _segments([label.path for label in labels])
    unnamed = {value for label in labels for value in label.values if value and value not in PADDING}
    words = Vocabulary(given, namings, _numbers(segments.values()), bool(segments), unnamed)
    result: dict[str, list[Labelling]] = {}
    for scan in scans:
        maps = []
        own = {backgrounds[scan.id]: BACKGROUND} if scan.id in backgrounds else {}
        here = replace(words, given={**given, **own})
        for label in found.get(scan.id, ()):
            if label.path in segments or label.problem:
                maps.append(_of_segments(label, segments.get(label.path, {})))
            else:
                maps.append(_of_ids(label, scan, here))
        result[scan.id] = _joined(maps)
    return _called_alike(result, given.values())


def _segments(paths: Iterable[Path]) -> dict[Path, dict[int, Segment]]:
    found = {}
    for path in paths:
        if formats.suffix(path) in SEGMENTS or formats.is_dicom(path):
            try:
                found[path] = formats.read_segments(path)
            except MixsegError:  # reading it will say so
                found[path] = {}
    return found


def _numbers(files: Collection[Mapping[int, Segment]]) -> dict[int, str]:
    """What the values of segments are called, if every file calls them alike: plain label maps may follow them."""
    of_value: dict[int, Counter[str]] = defaultdict(Counter)
    of_name: dict[str, set[int]] = defaultdict(set)
    for segment in (segment for found in files for segment in found.values()):
        of_value[segment.value][segment.name] += 1
        of_name[key(segment.name)].add(segment.value)
    clear = all(len({key(name) for name in called}) == 1 for called in of_value.values())
    if not clear or any(len(values) > 1 for values in of_name.values()):
        return {}
    return {value: called.most_common(1)[0][0] for value, called in of_value.items()}


def _of_segments(label: Found, segments: Mapping[int, Segment]) -> Labelling:
    if label.problem or not segments:
        empty = f"{label.path} holds no segments: save it again as a segmentation."
        return Labelling((label.path,), problem=label.problem or empty)
    called = {number: special(segment.name) for number, segment in segments.items()}
    overlapping = any(segment.layer for segment in segments.values())
    return Labelling(
        (label.path,),
        called,
        tuple(Layer(label.path, number, label.series) for number in segments) if overlapping else (),
        label.series,
        {called[number]: segment.status for number, segment in segments.items()},
        declares=True,
        why="names of segments",
    )


def _of_ids(label: Found, scan: Scan, words: Vocabulary) -> Labelling:
    """A map of plain ids: what is given names them, then text files, its own name, segments elsewhere, its numbers."""
    values = [value for value in label.values if value]
    called, conflict = naming_for(label.path, words.namings)
    if conflict:
        return Labelling((label.path,), problem=conflict)
    structure = _structure(label, scan) if len(values) < 2 else ""
    expected = not called or key(structure) in {key(name) for name in called.values()}
    if structure and words.knows(structure) and (expected or names.BIDS_LABEL.search(label.path.name)):
        value = values[0] if values else 1
        return Labelling((label.path,), {value: special(structure)}, declares=True, why="the name of the file")
    why = "a text file" if called else "numbers of segments in other files" if words.numbers else "its ids"
    called = {**(called or words.numbers), **words.given}
    if all(special(name) in (BACKGROUND, UNLABELED) for name in called.values()):
        if words.segments and values:
            sentence = (
                f"{label.path} holds {listed(values)}, and segments elsewhere have names but no fixed numbers: say "
                "which is which under classes in mixseg.json, or save it as .seg.nrrd."
            )
            return Labelling((label.path,), problem=sentence)
        rest = set(words.unnamed) - called.keys()
        called |= {value: "foreground" if len(rest) == 1 else f"class {value}" for value in rest}
    called = {value: special(name) for value, name in called.items() if value}
    called |= {value: UNLABELED for value in values if value in PADDING and value not in called}
    strange = [value for value in values if value not in called]
    if strange:
        sentence = (
            f"{label.path} holds {listed(strange)}, which no class has: name it under classes in mixseg.json, or say "
            "what it is with --background ID or --unlabeled ID."
        )
        return Labelling((label.path,), problem=sentence)
    return Labelling((label.path,), called, why=why)


def _structure(label: Found, scan: Scan) -> str:
    """The structure that a file is named after, or ""."""
    if match := names.BIDS_LABEL.search(label.path.name):
        return match[1]
    rest = [part for part in names.telling(label.parts) if part not in scan.parts and part not in names.MODALITIES]
    return "_".join(rest) if any(not part.isdigit() for part in rest) else ""


def _joined(maps: Sequence[Labelling]) -> list[Labelling]:
    """One map of those that hold different structures; the same ones if two hold the same."""
    good = [each for each in maps if not each.problem]
    everything = [key(name) for each in good for name in each.structures]
    if len(good) < 2 or len(set(everything)) < len(everything):
        return list(maps)
    layers = [(layer, name) for each in good for layer, name in _layers(each)]
    one = Labelling(
        tuple(dict.fromkeys(layer.file for layer, _ in layers)),
        {number: name for number, (_, name) in enumerate(layers, start=1)},
        tuple(layer for layer, _ in layers),
        next((each.grid for each in good if each.grid), ()),
        {name: status for each in good for name, status in each.status.items()},
        declares=all(each.declares for each in good),
        why=f"{len(good)} files of different structures",
    )
    return [one, *(each for each in maps if each.problem)]


def _layers(each: Labelling) -> list[tuple[Layer, str]]:
    layers = each.layers or tuple(Layer(each.files[0], value, each.grid) for value in each.names)
    return list(zip(layers, each.names.values(), strict=True))


def key(name: str) -> str:
    """What names of one structure have in common, whatever their capitals and signs."""
    return " ".join(names.tokens(name)) or name


def special(name: str) -> str:
    """``BACKGROUND`` or ``UNLABELED`` for what is called so, any other name as it is."""
    plain = name.strip().lower()
    return BACKGROUND if plain in BACKGROUND_NAMES else UNLABELED if plain in UNLABELED_NAMES else name.strip()


def _called_alike(maps: dict[str, list[Labelling]], given: Iterable[str]) -> dict[str, list[Labelling]]:
    """The same, every structure by the name that is given, or that most files have for it."""
    forms: dict[str, Counter[str]] = defaultdict(Counter)
    for name in (name for of_one in maps.values() for each in of_one for name in each.structures):
        forms[key(name)][name] += 1
    best = {of: counted.most_common(1)[0][0] for of, counted in forms.items()}
    best |= {key(name): name for name in given if key(name) in best}
    return {
        scan: [
            replace(
                each,
                names={value: best.get(key(name), name) for value, name in each.names.items()},
                status={best.get(key(name), name): status for name, status in each.status.items()},
            )
            for each in of_one
        ]
        for scan, of_one in maps.items()
    }
