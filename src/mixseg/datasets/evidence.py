"""Finished masks or strokes: decided per label map and structure by signs, which are weighed against each other.

A sign is a figure that speaks for one of the two, with a weight: from ``SURE`` on it decides alone, below it needs
others. Where the signs together reach ``SURE`` the reading is sure; where they do not, or where strong ones contradict
each other, somebody is asked. Files are compared with those that are finished by their shape alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mixseg.datasets.evidence_compared import compared, context
from mixseg.datasets.evidence_signs import Sign, by_shape
from mixseg.datasets.label_facts import LabelFacts, StructureFacts, measure
from mixseg.datasets.layouts.table import Reading

__all__ = ["LabelFacts", "judge", "measure"]

SURE = 3.0
"""The sum of weights from which on nobody is asked."""

CLEAR = 2.0
"""How many times as much the signs of one side have to weigh as those of the other."""

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
    signs = [{name: by_shape(one, name) for name in classes if _voxels(one, name)} for one in files]
    # Only what is finished by itself is compared with: files that are alike would otherwise confirm each other.
    alone = _read(files, signs)
    peers = {name: _peers(files, alone, name) for name in classes}
    more = [
        {name: [*own, *compared(one, name, peers[name])] for name, own in found.items()}
        for one, found in zip(files, signs, strict=True)
    ]
    readings = _read(files, more)
    return [
        {name: found[name] if name in found else _empty(one, name, found) for name in classes}
        for one, found in zip(files, readings, strict=True)
    ]


def _read(files: Sequence[LabelFacts], signs: Sequence[Signs]) -> list[dict[str, Reading]]:
    """The readings that the signs amount to, with what the rest of each file says."""
    readings = [{name: _weigh(own) for name, own in found.items()} for found in signs]
    for _ in range(ROUNDS):
        mixed = any(len({each.state for each in found.values() if each.sure}) > 1 for found in readings)
        readings = [
            {name: _weigh([*own, *context(one, name, found, mixed=mixed)]) for name, own in shape.items()}
            for one, shape, found in zip(files, signs, readings, strict=True)
        ]
    return readings


def _voxels(one: LabelFacts, name: str) -> int:
    return one.structures[name].voxels if name in one.structures else 0


def _weigh(signs: Sequence[Sign]) -> Reading:
    """The reading that the signs amount to; the strongest of its side are the reason."""
    finished = sum(sign.weight for sign in signs if sign.weight > 0)
    strokes = -sum(sign.weight for sign in signs if sign.weight < 0)
    side = 1 if finished > strokes else -1
    own = sorted((sign for sign in signs if sign.weight * side > 0), key=lambda sign: -abs(sign.weight))
    sure = abs(finished - strokes) >= SURE and max(finished, strokes) >= CLEAR * min(finished, strokes)
    why = "; ".join(sign.why for sign in own[:2]) or "nothing speaks for either"
    return Reading("finished" if side > 0 else "strokes", why, sure)


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
    sure = all(reading.sure for reading in found.values())
    others = len(found)
    return Reading("absent", f"no voxel, where {others} other structures are finished", sure and others > 1)
