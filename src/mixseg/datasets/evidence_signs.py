"""The signs by which finished masks and strokes are told apart: each is a figure of one structure, with its weight.

Weights are in the unit of ``mixseg.datasets.evidence``: 3 decides alone, 1 supports others. A figure that no finished
structure can have (or no stroke) weighs 3 or more; one that is merely usual weighs less. The grounds of the thresholds
are hand-drawn scribbles and masks of hearts (ACDC) and masks of atria, the phantom, and bodies by formula.
"""

from __future__ import annotations

from typing import NamedTuple

from mixseg.datasets.label_facts import LabelFacts, StructureFacts
from mixseg.datasets.label_shapes import AxisFacts

APART = 0.6
"""Share of painted slices without a painted neighbour from which on slices were left out; below, parts are small."""

WIDE = 9
"""Voxels. Brushes are up to 6 wide, and two strokes side by side are seldom filled between."""


class Sign(NamedTuple):
    """One figure that speaks for finished (a positive weight) or for strokes (a negative one)."""

    weight: float
    why: str


def by_shape(one: LabelFacts, name: str) -> list[Sign]:
    """The signs that need no other file."""
    structure = one.structures[name]
    axis = slices(structure)
    # Discs of the spine lie apart, and vertebrae fill what is between: gaps within another structure prove little.
    within = touch(structure) >= 0.6 and continuous(one.whole)
    signs = (
        _gaps(axis, within=within),
        _one_slice(structure, within=within),
        _body(structure, axis),
        _patchy(one, structure, axis),
        _lines(axis),
        _thick(structure),
        _moat(one, structure, axis),
        _apart_within(one, name),
        _together(one, structure),
        _all_apart(one),
    )
    return [sign for sign in signs if sign is not None]


def slices(structure: StructureFacts) -> AxisFacts:
    """Along the axis on which it was probably drawn slice by slice: with gaps, else thick slices, else unlike ones."""
    return max(
        structure.axes,
        key=lambda each: (each.single if len(each.painted) > 1 else 0.0, each.mm, -each.likeness),
    )


def touch(structure: StructureFacts) -> float:
    """The share of its border at which another structure lies; the largest of one."""
    return max(structure.touches.values(), default=0.0)


def continuous(structure: StructureFacts) -> bool:
    """Whether it has no gaps, and neighbouring slices agree as those of a body do, along each axis."""
    return all(len(axis.painted) >= 3 and axis.single < 0.3 and axis.likeness >= 0.5 for axis in structure.axes)


def cut(structure: StructureFacts, *, thin: bool = False) -> bool:
    """Whether it ends with a large area, though the image goes on: for at least half of its length.

    A body's last slice is small. Hearts end flat at the base, but there the image ends too, or two slices later. Thin
    long vessels may end anywhere: they count only where ``thin`` says so.
    """
    compact = max(structure.extent) <= 2.5 * min(structure.extent)
    least = 0 if thin else 5 if compact else 7
    return any(
        end > 0.6 and left >= 0.5 * len(axis.painted)
        for axis in structure.axes
        if len(axis.painted) >= 4 and axis.width >= least
        for end, left in zip(axis.ends, (axis.painted[0], axis.size - 1 - axis.painted[-1]), strict=True)
    )


def _gaps(axis: AxisFacts, *, within: bool) -> Sign | None:
    """Painted slices that have no painted neighbour: what is finished goes on in the next slice."""
    count = len(axis.painted)
    if count < 2 or axis.single < APART:
        return None
    full = " though outlined in full there" if axis.width >= WIDE else ""
    less = 0.2 if within else 1.0
    if axis.step > 1 and count >= 4:
        return Sign(-5 * less, f"painted on every {_nth(axis.step)} slice alone{full}")
    weight = 5 if count > 2 and axis.length >= 4 * axis.mm else 1.25 if count == 2 and full else 2.5
    return Sign(-weight * less, f"painted on {count} slices that lie apart{full}")


def _one_slice(structure: StructureFacts, *, within: bool) -> Sign | None:
    """All on one slice, though far longer than a slice is thick."""
    found = [axis for axis in structure.axes if len(axis.painted) == 1 and axis.size > 1]
    ratio = max((axis.length / axis.mm for axis in found), default=0.0)
    weight = (4 if ratio >= 6 else 2 if ratio >= 3 else 0) * (0.3 if within else 1.0)
    return Sign(-weight, f"painted on one slice, {ratio:.0f} times as long as it is thick") if weight else None


def _body(structure: StructureFacts, axis: AxisFacts) -> Sign | None:
    """Neighbouring slices that are alike along every axis, as those of a body are."""
    count = len(axis.painted)
    alike = min(each.likeness for each in structure.axes)
    if count < 4 or axis.single >= 0.3 or alike < 0.4:
        return None
    flat = cut(structure)
    end = ", but cut off at an end" if flat else ""
    why = f"neighbouring slices agree by {100 * alike:.0f} % on {count} slices without a gap{end}"
    if axis.width >= WIDE and alike >= 0.55:
        return Sign(1 if flat else 4, why)
    wide = 3 if axis.width >= WIDE and alike >= 0.45 else 2
    # Several bodies begin and end each for itself.
    rough = max(each.roughness for each in structure.axes)
    smooth = rough <= 1.6 or (rough <= 0.5 * structure.components and min(each.width for each in structure.axes) >= 3)
    return Sign(1 if cut(structure, thin=True) else wide, why) if smooth and not flat else None


def _patchy(one: LabelFacts, structure: StructureFacts, axis: AxisFacts) -> Sign | None:
    """Neighbouring slices that hardly agree, though what is painted is much wider than they are apart."""
    # The wall of a heart is thin, and the next slice's ring lies beside it: then the heart as a whole agrees.
    if len(axis.painted) < 4 or axis.single >= APART or (touch(structure) >= 0.3 and continuous(one.whole)):
        return None
    why = f"neighbouring slices agree by {100 * axis.likeness:.0f} %"
    if axis.width >= 5 and axis.width * min(one.spacing) >= 2 * axis.mm and axis.likeness < 0.4:
        return Sign(-3 if axis.likeness < 0.3 else -2, why)
    if axis.likeness < 0.25 and axis.length >= 3 * axis.mm:
        return Sign(-2 if axis.likeness < 0.15 else -1, why)
    return None


def _lines(axis: AxisFacts) -> Sign | None:
    """Lines in their slices. Of hand-drawn scribbles on 160 hearts at most 2 % is inside, of the masks 48 % or more."""
    if axis.inside >= 0.05:
        return None
    why = f"{axis.components} lines of which {100 * axis.inside:.0f} % is inside"
    return Sign(-3 if axis.likeness < 0.2 and len(axis.painted) > 2 else -1, why)


def _thick(structure: StructureFacts) -> Sign | None:
    """Three voxels thick from whatever side: a stroke is one slice thick, and the next slice's lies elsewhere."""
    if min(axis.width for axis in structure.axes) < 3 or not continuous(structure) or cut(structure):
        return None
    share = min(axis.inside for axis in structure.axes)
    alike = min(axis.likeness for axis in structure.axes)
    if share < 0.4:
        return None
    weight = 2.5 if share >= 0.5 and alike >= 0.6 else 1.5
    less = 0.5 if cut(structure, thin=True) else 1.0
    return Sign(weight * less, f"seen from any side {100 * share:.0f} % of it is inside")


def _moat(one: LabelFacts, structure: StructureFacts, axis: AxisFacts) -> Sign | None:
    """Unpainted beside it, inside of what is painted: the rest of it is there."""
    why = f"{100 * axis.enclosed:.0f} % of its border is at a hole in what is painted"
    if axis.enclosed >= 0.8 and touch(structure) <= 0.2:
        return Sign(-3, why)
    # A myocardium lies round a cavity that may be unpainted; but what is in the middle of a finished organ does not.
    if axis.enclosed >= 0.1 and touch(structure) >= 0.25 and continuous(one.whole):
        return Sign(-2.5, why)
    return None


def _apart_within(one: LabelFacts, name: str) -> Sign | None:
    """Another structure lies within the box round this one, and they do not touch: borders are not reached."""
    structure = one.structures[name]
    if structure.components > 1 or structure.touches:
        return None
    for other, inner in one.structures.items():
        if other != name and inner.voxels and _within(inner, structure):
            return Sign(-1.5, f"{other} lies within the box round it and does not touch it")
    return None


def _within(inner: StructureFacts, outer: StructureFacts) -> bool:
    pairs = zip(inner.axes, outer.axes, strict=True)
    return all(o.painted[0] < i.painted[0] and i.painted[-1] < o.painted[-1] for i, o in pairs)


def _together(one: LabelFacts, structure: StructureFacts) -> Sign | None:
    """At another structure, and all of them together without gaps: strokes keep away from borders."""
    share = touch(structure)
    if share < 0.3:
        return None
    why = f"{100 * share:.0f} % of its border touches another structure"
    weight = 2.5 if share >= 0.6 else 2.0 if share >= 0.4 else 1.25
    return Sign(weight if continuous(one.whole) else 1, why)


def _all_apart(one: LabelFacts) -> Sign | None:
    """Several structures, and all of them on the same few slices."""
    several = sum(structure.voxels > 0 for structure in one.structures.values()) > 1
    if several and any(len(axis.painted) > 2 and axis.single >= APART for axis in one.whole.axes):
        return Sign(-1.75, "all structures lie on the same slices, with others left out between them")
    return None


def _nth(step: int) -> str:
    return {2: "second", 3: "third"}.get(step, f"{step}th")
