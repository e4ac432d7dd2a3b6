"""Finished masks or strokes: decided per label map and structure by signs, which are weighed against each other.

A sign is a figure that speaks for one of the two, with a weight: from ``SURE`` on it decides alone, below it needs
others. Where the signs together reach ``SURE`` the reading is sure; where they do not, or where strong ones contradict
each other, somebody is asked. Files are compared with those that are finished by their shape alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from mixseg.datasets.label_facts import (
    STROKE_WORDS,
    AxisFacts,
    LabelFacts,
    StructureFacts,
    measure,
)
from mixseg.datasets.layouts.table import Reading

__all__ = ["LabelFacts", "judge", "measure"]

SURE = 3.0
"""The sum of weights from which on nobody is asked."""

DOUBT = 2.0
"""The sum of weights on the other side from which on somebody is asked all the same."""


class Sign(NamedTuple):
    """One figure that speaks for finished (a positive weight) or for strokes (a negative one)."""

    weight: float
    why: str


def judge(files: Sequence[LabelFacts], classes: Sequence[str]) -> list[dict[str, Reading]]:
    """How each structure of each label map was annotated.

    Args:
        files: The facts of each label map.
        classes: The names to read, without the background.
    """
    readings = [{name: _weigh(_by_shape(one, name)) for name in _painted(one, classes)} for one in files]
    for _ in range(2):
        peers = {name: _peers(files, readings, name) for name in classes}
        readings = [
            {
                name: _weigh([*_by_shape(one, name), *_compared(one, name, peers[name]), *_context(one, name, found)])
                for name in found
            }
            for one, found in zip(files, readings, strict=True)
        ]
    return [
        {name: found[name] if name in found else _empty(one, name, found) for name in classes}
        for one, found in zip(files, readings, strict=True)
    ]


def _painted(one: LabelFacts, classes: Sequence[str]) -> list[str]:
    return [name for name in classes if name in one.structures and one.structures[name].voxels]


def _weigh(signs: list[Sign]) -> Reading:
    """The reading that the signs amount to; the strongest sign of its side is the reason."""
    finished = sum(sign.weight for sign in signs if sign.weight > 0)
    strokes = -sum(sign.weight for sign in signs if sign.weight < 0)
    side = 1 if finished > strokes else -1
    own = sorted((sign for sign in signs if sign.weight * side > 0), key=lambda sign: -abs(sign.weight))
    sure = abs(finished - strokes) >= SURE and min(finished, strokes) < DOUBT
    why = "; ".join(sign.why for sign in own[:2]) or "nothing speaks for either"
    return Reading("finished" if side > 0 else "strokes", why, sure)


def _empty(one: LabelFacts, name: str, found: dict[str, Reading]) -> Reading:
    """Of a structure without a voxel."""
    if name in one.structures and one.structures[name].status == "completed":
        return Reading("absent", "no voxel, and its status is completed")
    strokes = [other for other, reading in found.items() if reading.state == "strokes"]
    if strokes:
        return Reading("untouched", f"no voxel, where {strokes[0]} is only strokes")
    if not found:
        return Reading("untouched", "nothing is painted in this file")
    sure = all(reading.sure for reading in found.values())
    others = len(found)
    return Reading("absent", f"no voxel, where {others} other structures are finished", sure and others > 1)


def _slices(one: LabelFacts, structure: StructureFacts) -> AxisFacts:
    """The structure as the slices in which it was probably drawn: those with gaps, else the thick ones."""
    return max(
        structure.axes,
        key=lambda each: (each.single if len(each.painted) > 1 else 0.0, each.mm, -len(each.painted)),
    )


def _by_shape(one: LabelFacts, name: str) -> list[Sign]:
    """The signs that need no other file."""
    structure = one.structures[name]
    axis = _slices(one, structure)
    signs = [_gaps(axis), _one_slice(structure), _filled(structure, axis), _lines(axis), _solid(structure)]
    return [sign for sign in signs if sign is not None]


def _gaps(axis: AxisFacts) -> Sign | None:
    """Painted slices that have no painted neighbour: a structure that is finished goes on in the next one."""
    count = len(axis.painted)
    if count < 2 or axis.single < 0.6:
        return None
    full = " though outlined in full there" if axis.width >= 9 else ""
    why = f"painted on {count} slices that lie apart{full}"
    if axis.step and count >= 4:
        return Sign(-5, f"painted on every {_nth(axis.step)} slice alone{full}")
    return Sign(-5 if axis.length >= 4 * axis.mm else -2 if count > 2 else -1, why)


def _one_slice(structure: StructureFacts) -> Sign | None:
    """All on one slice, though far longer than a slice is thick."""
    found = [axis for axis in structure.axes if len(axis.painted) == 1 and axis.size > 1]
    if not found:
        return None
    ratio = max(axis.length / axis.mm for axis in found)
    why = f"painted on one slice, {ratio:.0f} times as long as a slice is thick"
    return Sign(-4, why) if ratio >= 6 else Sign(-2, why) if ratio >= 3 else None


def _filled(structure: StructureFacts, axis: AxisFacts) -> Sign | None:
    """Wider than a brush, and going on from slice to slice."""
    if axis.width < 9 or axis.single >= 0.3:
        return None
    if min(each.overlap for each in structure.axes) < 0.8:
        return None
    if max(axis.ends) > 0.6:
        return Sign(1.5, f"filled to a width of {axis.width} voxels, but cut off at one end")
    return Sign(4, f"filled to a width of {axis.width} voxels or more on {len(axis.painted)} slices without a gap")


def _lines(axis: AxisFacts) -> Sign | None:
    """Lines in their slices, which do not continue each other."""
    if axis.inside >= 0.05 or axis.width > 1:
        return None
    share = 100 * axis.inside
    if axis.overlap < 0.35:
        return Sign(-3, f"{axis.pieces} lines of which {share:.0f} % is inside")
    return Sign(-1.5, f"{share:.0f} % of it is inside")


def _solid(structure: StructureFacts) -> Sign | None:
    """A small solid body, smooth along every axis."""
    axes = structure.axes
    if min(len(axis.painted) for axis in axes) < 3 or structure.components > 3:
        return None
    if min(axis.overlap for axis in axes) < 0.8 or structure.fill < 0.35:
        return None
    return Sign(1.5, f"a solid body on {min(len(axis.painted) for axis in axes)} slices or more")


def _peers(files: Sequence[LabelFacts], readings: Sequence[dict[str, Reading]], name: str) -> list[StructureFacts]:
    """The structure in the files in which it is surely finished."""
    return [
        one.structures[name]
        for one, found in zip(files, readings, strict=True)
        if name in found and found[name].state == "finished" and found[name].sure
    ]


def _compared(one: LabelFacts, name: str, peers: list[StructureFacts]) -> list[Sign]:
    """The signs of a comparison with files in which the structure is finished."""
    structure = one.structures[name]
    others = [other for other in peers if other is not structure]
    if not others:
        return []
    volumes = [other.volume for other in others]
    typical = median(volumes)
    ratio = structure.volume / typical
    signs = []
    if ratio <= 0.2:
        weight = 3.0 if ratio <= 0.05 else 2.0
        weight = weight / 2 if len(others) > 1 and max(volumes) > 4 * min(volumes) else weight
        signs.append(Sign(-weight, f"{1 / ratio:.0f} times smaller than where it is finished"))
    elif ratio >= 0.5:
        signs.append(Sign(1.5, f"{ratio:.1f} times as large as where it is finished"))
    fill = structure.fill / median(other.fill for other in others)
    if fill <= 0.25:
        signs.append(
            Sign(
                -2,
                f"fills {100 * structure.fill:.0f} % of the box round it, finished ones {1 / fill:.0f} times as much",
            )
        )
    elif fill >= 0.6:
        signs.append(Sign(1, "fills the box round it as finished ones do"))
    return signs


def _context(one: LabelFacts, name: str, found: dict[str, Reading]) -> list[Sign]:
    """What the file says beside the structure's own shape."""
    structure = one.structures[name]
    signs = []
    if one.background and one.labeled < 0.98:
        signs.append(Sign(-9, "background is painted, so that 0 means unlabeled"))
    if one.unlabeled:
        signs.append(Sign(-9, "part of the file is painted as unlabeled"))
    if structure.status == "completed":
        signs.append(Sign(3, "its status is completed"))
    if one.words:
        weight = -2 if one.words & STROKE_WORDS else 1.5
        signs.append(Sign(weight, f"the file's name says {sorted(one.words)[0]}"))
    touch = max((share for other, share in structure.touches.items() if other in found), default=0.0)
    if touch >= 0.3:
        signs.append(Sign(1.5, f"{100 * touch:.0f} % of its border touches another structure"))
    rest = [reading for other, reading in found.items() if other != name and reading.sure]
    if rest and all(reading.state == "strokes" for reading in rest):
        signs.append(Sign(-1.5, "all else in the file is strokes"))
    elif rest and all(reading.state == "finished" for reading in rest):
        signs.append(Sign(1, "all else in the file is finished"))
    return signs


def _nth(step: int) -> str:
    return {2: "second", 3: "third"}.get(step, f"{step}th")
