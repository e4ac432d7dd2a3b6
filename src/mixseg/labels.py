"""Which id means what: found out, said in a sentence, recorded as a map, and written as nnU-Net does.

In memory a voxel is a class index (0 is the background) or IGNORE. On disk there are a dozen conventions; this file is
the only place that knows them. Who decides, in this order: the map of a dataset layout (``given``), the ``ignore``
entry of dataset.json, the user's flags, and a few rules that cannot misread (``detect``). Anything else is asked about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mixseg.errors import MixsegError
from mixseg.types import IGNORE

BACKGROUND_NAMES = ("background", "background_scribbles", "bg")
PADDING = (255, -1, -100)
"""Ids that tools write for "nothing known here"; 255 is also -1 in uint8."""

MOSTLY_UNPAINTED = 0.95
"""Share of voxels from which on 0 means "not painted" where the background has an id of its own."""

FULL_MASK = "0 and one other id make a full mask; --foreground-only or --unlabelled say otherwise"


@dataclass(frozen=True)
class LabelFlags:
    """What the user says about the ids.

    Attributes:
        unlabelled: The id of voxels that nobody labelled.
        background: The id of the background; another one than 0 means that 0 is unlabelled.
        foreground_only: 0 is unlabelled and the background was never labelled.
    """

    unlabelled: int | None = None
    background: int | None = None
    foreground_only: bool = False

    def __bool__(self) -> bool:
        return self != LabelFlags()

    def check(self, where: str) -> None:
        """Nothing, or one sentence about flags that contradict each other."""
        if self.foreground_only and (self.background is not None or self.unlabelled not in (None, 0)):
            raise MixsegError(f"{where}: --foreground-only says it all: leave --unlabelled and --background out.")
        if self.background is not None and self.unlabelled == self.background:
            both = f"{self.unlabelled} cannot be both unlabelled and background"
            raise MixsegError(f"{where}: {both}: change one of the flags.")


class _Reading(NamedTuple):
    """One way to read a folder: the special ids, the grounds, and an id that also means class 1."""

    unlabelled: int | None
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
    """

    ids: Mapping[int, int]
    classes: tuple[str, ...]
    sentence: str


def given(where: str, ids: Mapping[int, int], classes: Sequence[str], *, why: str, flags: LabelFlags) -> Decision:
    """The decision where a layout or dataset.json fixes the meaning; a flag that contradicts it is refused."""
    wanted = {flags.unlabelled: IGNORE, flags.background: 0} | ({0: IGNORE} if flags.foreground_only else {})
    for value, meaning in wanted.items():
        if value is not None and ids.get(value, meaning) != meaning:
            raise MixsegError(
                f"{where}: {value} is {_meaning(ids[value], classes)} ({why}), but a flag says "
                f"{_meaning(meaning, classes)}: leave the flag out, or mend the labels."
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
) -> Decision:
    """The decision for a folder of label maps.

    Args:
        where: The folder, for the sentence.
        counts: Id -> number of voxels, over all label maps of the folder.
        names: Id -> declared name, without the ignore id; nothing where no names are declared.
        ignore: The id that dataset.json calls "ignore".
        flags: What the user says.
    """
    names, flags = names or {}, flags or LabelFlags()
    if ignore is not None:
        reading = _Reading(ignore, _background(names, ignore), f"dataset.json calls {ignore} ignore")
        ids, classes = _mapping(counts, names, reading)
        return given(where, ids, classes, why=reading.why, flags=flags)
    if flags:
        reading = _flagged(where, names, flags)
    elif names:
        reading = _from_names(where, counts, names)
    else:
        reading = _from_counts(where, counts)
    ids, classes = _mapping(counts, names, reading)
    return Decision(ids, classes, f"{where}: {describe(ids, classes)} ({reading.why}).")


def describe(ids: Mapping[int, int], classes: Sequence[str]) -> str:
    """The map in words: "0 = background, 1 = LV, 4 = unlabelled"."""
    return ", ".join(f"{value} = {_meaning(ids[value], classes)}" for value in sorted(ids))


def encode(array: NDArray[np.uint8], classes: Sequence[str]) -> NDArray[np.uint8]:
    """Class indices as nnU-Net stores them: 0 is the background, IGNORE becomes the highest class + 1."""
    if len(classes) >= IGNORE:
        raise MixsegError(f"{len(classes)} classes are too many: at most {IGNORE - 1} fit beside the unlabelled id.")
    return np.where(array == IGNORE, np.uint8(len(classes)), array).astype(np.uint8)


def declaration(classes: Sequence[str], *, ignore: bool) -> dict[str, int]:
    """The ``labels`` entry of dataset.json for label maps made by ``encode``."""
    return {name: index for index, name in enumerate(classes)} | ({"ignore": len(classes)} if ignore else {})


def _meaning(index: int, classes: Sequence[str]) -> str:
    return "unlabelled" if index == IGNORE else classes[index]


def _names_background(name: str) -> bool:
    return name.lower() in BACKGROUND_NAMES


def _background(names: Mapping[int, str], unlabelled: int | None) -> int | None:
    """The id named background, else 0; nothing if that is the unlabelled one."""
    named = [value for value in sorted(names) if _names_background(names[value]) and value != unlabelled]
    # A name for another id than 0 is a statement; that 0 is called background is what every dataset.json says.
    value = next((value for value in named if value != 0), 0)
    return None if value == unlabelled else value


def _mapping(
    counts: Mapping[int, int], names: Mapping[int, str], reading: _Reading
) -> tuple[dict[int, int], tuple[str, ...]]:
    """Ids in ascending order become classes 1, 2, 3, ...: declared ones if there are any, else those that occur."""
    special = {reading.unlabelled, reading.background} | {value for value in names if _names_background(names[value])}
    foreground = sorted(set(names or counts) - special)
    ids = {value: index for index, value in enumerate(foreground, start=1)}
    if reading.background is not None:
        ids[reading.background] = 0
    if reading.unlabelled is not None:
        ids[reading.unlabelled] = IGNORE
    if reading.also_first is not None:
        ids[reading.also_first] = 1
    unnamed = ["foreground"] if len(foreground) == 1 else [f"class {value}" for value in foreground]
    called = [names.get(value, name) for value, name in zip(foreground, unnamed, strict=True)]
    return ids, ("background", *called)


def _flagged(where: str, names: Mapping[int, str], flags: LabelFlags) -> _Reading:
    """What the flags mean."""
    why = "as the flags say"
    flags.check(where)
    if flags.foreground_only:
        return _Reading(0, None, why)
    if flags.background is None:
        background = _background(names, flags.unlabelled)
        if background is None:
            raise MixsegError(
                f"{where}: with 0 unlabelled, which id is the background? Add --background ID, or pass "
                "--foreground-only if the background was never labelled."
            )
        return _Reading(flags.unlabelled, background, why)
    unlabelled = 0 if flags.unlabelled is None and flags.background != 0 else flags.unlabelled
    return _Reading(unlabelled, flags.background, why)


def _from_names(where: str, counts: Mapping[int, int], names: Mapping[int, str]) -> _Reading:
    """The rules where class names are declared."""
    background = _background(names, None)
    if background != 0:
        if counts.get(0, 0) < MOSTLY_UNPAINTED * sum(counts.values()):
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
    if len(extra) == 1 and set(counts) - {0, one}:
        return _Reading(one, 0, f"{one} is the one id beyond the declared classes" + also)
    raise _question(where, counts)


def _from_counts(where: str, counts: Mapping[int, int]) -> _Reading:
    """The rules where no names are declared."""
    if len(counts) == 2 and 0 in counts:
        return _Reading(None, 0, FULL_MASK)
    padding = [value for value in counts if value in PADDING]
    rest = sorted(set(counts) - set(padding))
    if len(padding) == 1 and len(rest) > 1 and rest == list(range(len(rest))):
        return _Reading(padding[0], 0, f"{padding[0]} is what tools write for unlabelled")
    raise _question(where, counts)


def _question(where: str, counts: Mapping[int, int]) -> MixsegError:
    total = max(sum(counts.values()), 1)
    shares = ", ".join(f"{value} ({100 * counts[value] / total:.2g} %)" for value in sorted(counts)[:12])
    return MixsegError(
        f"{where}: which of the label ids {shares} is unlabelled? Pass --unlabelled ID, --background ID if a stroke "
        "marks the background and 0 is unpainted, --foreground-only if 0 is unpainted and the background never "
        "marked, or --background 0 if every voxel is labelled."
    )
