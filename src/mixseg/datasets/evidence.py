"""Finished masks or strokes: decided per label map and structure by signs, which are weighed against each other.

A sign is a figure that speaks for one of the two, with a weight: from ``SURE`` on it decides alone, below it needs
others. Where the signs together reach ``SURE`` the reading is sure; where they do not, or where strong ones contradict
each other, somebody is asked. Files are compared with those that are finished by their shape alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mixseg.datasets.evidence_compared import compared, context, varies
from mixseg.datasets.evidence_signs import Sign, by_shape
from mixseg.datasets.label_facts import LabelFacts, StructureFacts, measure
from mixseg.datasets.layouts.table import Reading, State

__all__ = ["LabelFacts", "judge", "measure"]

SURE = 3.0
"""The sum of weights from which on nobody is asked."""

CLEAR = 2.0
"""How many times as much the signs of one side have to weigh as those of the other."""

SHOWN = 1.75
"""What at least the shape has to weigh by itself, or one sign of the file: many weak ones may have one cause."""

ALONE = 2.5
"""The weight of a sign that a structure needs to be sure of the contrary of all the rest in its file."""

ROUNDS = 2
"""How often the structures of a file are read in the light of the others that are sure."""

Signs = Mapping[str, Sequence[Sign]]
Readings = Mapping[str, Reading]


def judge(files: Sequence[LabelFacts], classes: Sequence[str]) -> list[dict[str, Reading]]:
    """How each structure of each label map was annotated.

    Args:
        files: The facts of each label map.
        classes: The names to read, without the background.
    """
    shapes = [{name: by_shape(one, name) for name in classes if _voxels(one, name)} for one in files]
    # Only what is finished by itself is compared with: files that are alike would otherwise confirm each other.
    alone = _read(files, shapes, [{name: [] for name in found} for found in shapes])
    peers = {name: _peers(files, alone, name) for name in classes}
    more = [
        {name: compared(one, name, peers[name], found) for name in found}
        for one, found in zip(files, alone, strict=True)
    ]
    readings = _read(files, shapes, more)
    return [
        {name: found[name] if name in found else _empty(one, name, found) for name in classes}
        for one, found in zip(files, readings, strict=True)
    ]


def _read(files: Sequence[LabelFacts], shapes: Sequence[Signs], more: Sequence[Signs]) -> list[dict[str, Reading]]:
    """The readings by shape and comparison, and by what the rest of each file surely is."""
    readings: list[dict[str, Reading]] = [{} for _ in files]
    for _ in range(1 + ROUNDS):
        mixed = any(len({each.state for each in found.values() if each.sure}) > 1 for found in readings)
        readings = [
            {
                name: _weigh(own, other[name], context(one, name, found, mixed=mixed), _rest(found, name))
                for name, own in shape.items()
            }
            for one, shape, other, found in zip(files, shapes, more, readings, strict=True)
        ]
    return readings


def _rest(found: Readings, name: str) -> set[str]:
    """What the other structures of the file surely are."""
    return {reading.state for other, reading in found.items() if other != name and reading.sure}


def _voxels(one: LabelFacts, name: str) -> int:
    return one.structures[name].voxels if name in one.structures else 0


def _weigh(shape: Sequence[Sign], comparison: Sequence[Sign], around: Sequence[Sign], rest: set[str]) -> Reading:
    """The reading that the signs amount to; the strongest of its side are the reason."""
    signs = [*shape, *comparison, *around]
    finished = sum(sign.weight for sign in signs if sign.weight > 0)
    strokes = -sum(sign.weight for sign in signs if sign.weight < 0)
    side = 1 if finished > strokes else -1
    state: State = "finished" if side > 0 else "strokes"

    def weight(some: Sequence[Sign]) -> list[float]:
        return [0.0, *(side * sign.weight for sign in some if side * sign.weight > 0)]

    clear = abs(finished - strokes) >= SURE and max(finished, strokes) >= CLEAR * min(finished, strokes)
    shown = max(sum(weight(shape)), max(weight(around))) >= SHOWN
    differs = sum(weight(comparison)) >= SURE and max(weight(comparison)) >= (SURE if rest == {state} else SURE + CLEAR)
    # Strokes taken for a finished mask spoil a model, the contrary costs a few voxels.
    doubt = side > 0 and -min((sign.weight for sign in signs), default=0.0) >= ALONE
    unlike = bool(rest) and state not in rest and max(weight(shape)) < ALONE
    own = sorted((sign for sign in signs if sign.weight * side > 0), key=lambda sign: -abs(sign.weight))
    why = "; ".join(sign.why for sign in own[:2]) or "nothing speaks for either"
    return Reading(state, why, clear and (shown or differs) and not (doubt or unlike))


def _peers(files: Sequence[LabelFacts], readings: Sequence[Readings], name: str) -> list[StructureFacts]:
    """The structure in the files in which it is surely finished."""
    return [
        one.structures[name]
        for one, found in zip(files, readings, strict=True)
        if name in found and found[name].state == "finished" and found[name].sure
    ]


def _empty(one: LabelFacts, name: str, found: Readings) -> Reading:
    """Of a structure without a voxel."""
    if name in one.structures and one.structures[name].status == "completed":
        return Reading("absent", "no voxel, and its status is completed")
    strokes = [other for other, reading in found.items() if reading.state == "strokes"]
    if strokes:
        sure = any(found[other].sure for other in strokes)
        return Reading("untouched", f"no voxel, where {strokes[0]} is only strokes", sure)
    if not found:
        return Reading("untouched", "nothing is painted in this file")
    # Forgotten and absent look alike: an organ is seldom absent, a lesion often.
    sure = varies(name) and all(reading.sure for reading in found.values())
    return Reading("absent", f"no voxel, where {', '.join(found)} {'is' if len(found) == 1 else 'are'} finished", sure)
