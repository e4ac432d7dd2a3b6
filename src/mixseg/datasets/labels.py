"""Which id means what: found out, said in a sentence, recorded as a map, and written as nnU-Net does.

In memory a voxel is a class index (0 is the background) or IGNORE. On disk there are a dozen conventions; this file is
the only place that knows them. Who decides, in this order: the map of a dataset layout (``given``), the ``ignore``
entry of dataset.json, the user's flags, and a few rules that cannot misread (``detect``). Anything else is asked about.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mixseg.core.errors import MixsegError
from mixseg.core.types import IGNORE

BACKGROUND_NAMES = ("background", "background_scribbles", "bg")
PADDING = (255, -1, -100)
"""Ids that tools write for "nothing known here"; 255 is also -1 in uint8."""

MOSTLY_UNPAINTED = 0.95
"""Share of voxels from which on 0 means "not painted" where the background has an id of its own."""

THIN = 0.05
"""A structure of which less than this share has four neighbours of its own in the slice is a line, not a region."""

FULL_MASK = "0 and one other id make a full mask; --foreground-only or --unlabeled say otherwise"


@dataclass(frozen=True)
class LabelFlags:
    """What the user says about the ids.

    Attributes:
        unlabeled: The id of voxels that nobody labelled.
        background: The id of the background; another one than 0 means that 0 is unlabeled.
        foreground_only: 0 is unlabeled and the background was never labelled.
        scribble_background: The id of the background in scribbles that lie among full masks: in a label map that holds
            it 0 is unlabeled, in any other 0 is the background.
        full: Globs of scans or label files that are finished masks.
        scribbles: Globs of scans or label files that are strokes, in which 0 is unlabeled.
    """

    unlabeled: int | None = None
    background: int | None = None
    foreground_only: bool = False
    scribble_background: int | None = None
    full: tuple[str, ...] = ()
    scribbles: tuple[str, ...] = ()

    @property
    def about_ids(self) -> bool:
        """Whether they say anything about ids."""
        return replace(self, full=(), scribbles=()) != LabelFlags()

    def check(self, where: str) -> None:
        """Nothing, or one sentence about flags that contradict each other."""
        if self.foreground_only and (self.background is not None or self.unlabeled not in (None, 0)):
            raise MixsegError(
                f"{where}: --foreground-only says it all: leave --unlabeled and --background out.",
                "flags-contradict",
                flag="--foreground-only",
                where=where,
            )
        if self.background is not None and self.unlabeled == self.background:
            both = f"{self.unlabeled} cannot be both unlabeled and background"
            raise MixsegError(
                f"{where}: {both}: change one of the flags.", "flags-contradict", flag="--unlabeled", where=where
            )
        if self.scribble_background is not None and (self.foreground_only or self.background is not None):
            alone = "leave --background and --foreground-only out"
            raise MixsegError(
                f"{where}: --scribble-background says that there are full masks too: {alone}.",
                "flags-contradict",
                flag="--scribble-background",
                where=where,
            )


class _Reading(NamedTuple):
    """One way to read a folder: the special ids, the grounds, and an id that also means class 1."""

    unlabeled: int | None
    background: int | None
    why: str
    also_first: int | None = None


@dataclass(frozen=True)
class Decision:
    """What the ids of a folder mean, and why.

    Attributes:
        ids: Id in the files -> class index, or IGNORE.
        classes: Names by class index; the first is "background".
        sentence: What was decided, and on what grounds: to be shown to the user.
        strokes: The id that marks the background in scribbles, where full masks lie beside them and have 0 for it.
    """

    ids: Mapping[int, int]
    classes: tuple[str, ...]
    sentence: str
    strokes: int | None = None

    def ids_in(self, found: Container[int]) -> Mapping[int, int]:
        """``ids`` for one label map, by those that it holds."""
        return {**self.ids, 0: IGNORE} if self.strokes is not None and self.strokes in found else self.ids


def given(where: str, ids: Mapping[int, int], classes: Sequence[str], *, why: str, flags: LabelFlags) -> Decision:
    """The decision where a layout or dataset.json fixes the meaning; a flag that contradicts it is refused."""
    if flags.scribble_background is not None:
        raise MixsegError(
            f"{where}: masks and scribbles do not mix here ({why}): leave --scribble-background out.",
            "flag-not-applicable",
            flag="--scribble-background",
            where=where,
        )
    wanted = {flags.unlabeled: IGNORE, flags.background: 0} | ({0: IGNORE} if flags.foreground_only else {})
    for value, meaning in wanted.items():
        if value is not None and ids.get(value, meaning) != meaning:
            raise MixsegError(
                f"{where}: {value} is {_meaning(ids[value], classes)} ({why}), but a flag says "
                f"{_meaning(meaning, classes)}: leave the flag out, or mend the labels.",
                "flag-contradicts-labels",
                where=where,
                label=value,
            )
    ids = dict(ids) | {value: meaning for value, meaning in wanted.items() if value is not None}
    return Decision(ids, tuple(classes), f"{where}: {describe(ids, classes)} ({why}).")


def detect(
    where: str,
    counts: Mapping[int, int],
    *,
    names: Mapping[int, str] | None = None,
    ignore: int | None = None,
    flags: LabelFlags | None = None,
    files: Sequence[Mapping[int, int]] = (),
) -> Decision:
    """The decision for a folder of label maps.

    Args:
        where: The folder, for the sentence.
        counts: Id -> number of voxels, over all label maps of the folder.
        names: Id -> declared name, without the ignore id; nothing where no names are declared.
        ignore: The id that dataset.json calls "ignore".
        flags: What the user says.
        files: The same numbers label map by label map, where they are known.
    """
    flags = flags or LabelFlags()
    flags.check(where)
    names = {value: name for value, name in (names or {}).items() if value != flags.scribble_background}
    if ignore is not None:
        reading = _Reading(ignore, _background(names, ignore), f"dataset.json calls {ignore} ignore")
    elif flags.about_ids:
        reading = _flagged(where, names, flags)
    elif names:
        reading = _from_names(where, counts, names, files)
    else:
        reading = _from_counts(where, counts)
    strokes = _of_scribbles(names, reading, flags)
    if strokes is not None and strokes in (0, reading.unlabeled):
        other = "unlabeled" if strokes else "the background of full masks"
        raise MixsegError(
            f"{where}: {strokes} is {other}: the background of scribbles has an id of its own.",
            "flag-contradicts-labels",
            where=where,
            label=strokes,
        )
    ids, classes = _mapping(counts, names, reading, strokes)
    if ignore is not None:
        ids = dict(given(where, ids, classes, why=reading.why, flags=replace(flags, scribble_background=None)).ids)
    meanings, why = describe(ids, classes), reading.why
    if strokes is not None:
        meanings += f"; but 0 = unlabeled in a file that holds {strokes}, a scribble"
    if strokes in names:
        why = f"dataset.json names {strokes} {names[strokes]} beside 0; {why}"
    return Decision(ids, classes, f"{where}: {meanings} ({why}).", strokes)


def describe(ids: Mapping[int, int], classes: Sequence[str]) -> str:
    """The map in words: "0 = background, 1 = LV, 4 = unlabeled"."""
    return ", ".join(f"{value} = {_meaning(ids[value], classes)}" for value in sorted(ids))


def encode(array: NDArray[np.uint8], classes: Sequence[str]) -> NDArray[np.uint8]:
    """Class indices as nnU-Net stores them: 0 is the background, IGNORE becomes the highest class + 1."""
    if len(classes) >= IGNORE:
        raise MixsegError(
            f"{len(classes)} classes are too many: at most {IGNORE - 1} fit beside the unlabeled id.",
            "too-many-classes",
            count=len(classes),
        )
    return np.where(array == IGNORE, np.uint8(len(classes)), array).astype(np.uint8)


def declaration(classes: Sequence[str], *, ignore: bool) -> dict[str, int]:
    """The ``labels`` entry of dataset.json for label maps made by ``encode``."""
    return {name: index for index, name in enumerate(classes)} | ({"ignore": len(classes)} if ignore else {})


def thin(labels: NDArray[np.uint8]) -> bool:
    """Whether all structures of a map of class indices ``(I, J, K)`` are lines in their slices; False if it has none.

    Strokes are: of those drawn by hand on 80 scans of ACDC at most 2 % is inside its class, of the masks 76 % or more.
    """
    painted = (labels != 0) & (labels != IGNORE)
    middle = labels[1:-1, 1:-1]
    around = (labels[:-2, 1:-1], labels[2:, 1:-1], labels[1:-1, :-2], labels[1:-1, 2:])
    inside = np.logical_and.reduce([painted[1:-1, 1:-1], *(middle == side for side in around)])
    total = int(painted.sum())
    return bool(total) and int(inside.sum()) < THIN * total


def _meaning(index: int, classes: Sequence[str]) -> str:
    return "unlabeled" if index == IGNORE else classes[index]


def _names_background(name: str) -> bool:
    return name.lower() in BACKGROUND_NAMES


def _background(names: Mapping[int, str], unlabeled: int | None) -> int | None:
    """The id named background, else 0; nothing if that is the unlabeled one."""
    named = [value for value in sorted(names) if _names_background(names[value]) and value != unlabeled]
    value = 0 if 0 in named else next(iter(named), 0)
    return None if value == unlabeled else value


def _of_scribbles(names: Mapping[int, str], reading: _Reading, flags: LabelFlags) -> int | None:
    """The id of the background in scribbles among full masks: the one that the flag gives, or a second one so named."""
    if flags.scribble_background is not None or flags.background is not None or reading.background != 0:
        return flags.scribble_background
    named = [value for value in sorted(names) if _names_background(names[value])]
    return next((value for value in named if value), None) if 0 in named else None


def _mapping(
    counts: Mapping[int, int], names: Mapping[int, str], reading: _Reading, strokes: int | None
) -> tuple[dict[int, int], tuple[str, ...]]:
    """Ids in ascending order become classes 1, 2, 3, ...: declared ones if there are any, else those that occur."""
    special = {reading.unlabeled, reading.background, strokes}
    special |= {value for value in names if _names_background(names[value])}
    foreground = sorted(set(names or counts) - special)
    ids = {value: index for index, value in enumerate(foreground, start=1)}
    if reading.background is not None:
        ids[reading.background] = 0
    if strokes is not None:
        ids[strokes] = 0
    if reading.unlabeled is not None:
        ids[reading.unlabeled] = IGNORE
    if reading.also_first is not None:
        ids[reading.also_first] = 1
    unnamed = ["foreground"] if len(foreground) == 1 else [f"class {value}" for value in foreground]
    called = [names.get(value, name) for value, name in zip(foreground, unnamed, strict=True)]
    return ids, ("background", *called)


def _flagged(where: str, names: Mapping[int, str], flags: LabelFlags) -> _Reading:
    """What the flags mean."""
    why = "as the flags say"
    if flags.foreground_only:
        return _Reading(0, None, why)
    if flags.background is None:
        background = _background(names, flags.unlabeled)
        if background is None:
            raise MixsegError(
                f"{where}: with 0 unlabeled, which id is the background? Add --background ID, or pass "
                "--foreground-only if the background was never labelled.",
                "background-unclear",
                where=where,
            )
        return _Reading(flags.unlabeled, background, why)
    unlabeled = 0 if flags.unlabeled is None and flags.background != 0 else flags.unlabeled
    return _Reading(unlabeled, flags.background, why)


def _from_names(
    where: str, counts: Mapping[int, int], names: Mapping[int, str], files: Sequence[Mapping[int, int]]
) -> _Reading:
    """The rules where class names are declared."""
    background = _background(names, None)
    if background != 0:
        if not _unpainted([counts]):
            raise _question(where, counts)
        return _Reading(0, background, f"0 fills 95 % or more and {background} is named background")
    beyond = {max(names) + 1, *PADDING} - set(names)
    extra = set(counts) & beyond
    # Any other id is a mistake in the files that hold it: left out of the map, it is refused there, by name.
    stray = sorted(set(counts) - set(names) - beyond - {0})
    also = f"; {', '.join(map(str, stray))} is not declared and refused where it occurs" if stray else ""
    if not extra:
        return _Reading(None, 0, "no id beyond the declared ones; --foreground-only says otherwise" + also)
    if set(counts) == {0, 255} and len(set(names) - {0}) == 1:
        return _Reading(None, 0, FULL_MASK, also_first=255)
    one = min(extra)
    if one not in PADDING and _unpainted([found for found in files or [counts] if one in found]):
        raise _question(where, counts)  # strokes, whose background it may be
    if len(extra) == 1 and set(counts) - {0, one}:
        return _Reading(one, 0, f"{one} is the one id beyond the declared classes" + also)
    raise _question(where, counts)


def _unpainted(files: Sequence[Mapping[int, int]]) -> bool:
    """Whether 0 fills so much of the label maps that it may mean "not painted"."""
    voxels = sum(sum(found.values()) for found in files)
    return sum(found.get(0, 0) for found in files) >= MOSTLY_UNPAINTED * voxels


def _from_counts(where: str, counts: Mapping[int, int]) -> _Reading:
    """The rules where no names are declared."""
    if len(counts) == 2 and 0 in counts:
        return _Reading(None, 0, FULL_MASK)
    padding = [value for value in counts if value in PADDING]
    rest = sorted(set(counts) - set(padding))
    if len(padding) == 1 and len(rest) > 1 and rest == list(range(len(rest))):
        return _Reading(padding[0], 0, f"{padding[0]} is what tools write for unlabeled")
    raise _question(where, counts)


def _question(where: str, counts: Mapping[int, int]) -> MixsegError:
    total = max(sum(counts.values()), 1)
    shares = ", ".join(f"{value} ({100 * counts[value] / total:.2g} %)" for value in sorted(counts)[:12])
    return MixsegError(
        f"{where}: which of the label ids {shares} is unlabeled? Pass --unlabeled ID, --background ID if a stroke "
        "marks the background and 0 is unpainted, --scribble-background ID if full masks without such a stroke lie "
        "beside, --foreground-only if 0 is unpainted and the background never marked, or --background 0 if every "
        "voxel is labelled.",
        "unlabeled-unclear",
        where=where,
        labels=sorted(counts),
    )
