"""The signs beside a structure's own shape: other files in which it is finished, and the rest of its file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from mixseg.datasets.evidence_signs import APART, Sign, cut, slices, touch
from mixseg.datasets.label_facts import STROKE_WORDS, LabelFacts, StructureFacts
from mixseg.datasets.layouts.table import Reading

LESIONS = (
    *("lesion", "tumor", "tumour", "metast", "cyst", "nodul", "mass", "gtv", "node", "cancer", "carcinom", "adenom"),
    *("plaque", "calcif", "bleed", "hemorr", "haemorr", "edema", "oedema", "infarct", "scar", "polyp", "thromb"),
    *("stone", "wmh", "hyperintens", "abscess", "necro", "fractur", "embol", "aneurysm"),
)
"""Parts of the names of what may be absent, and a hundred times larger in one patient than in another."""

JUMP = 2.0
"""From one volume to the next: of many bodies each has one that is less than twice as large, up to the largest."""


def varies(name: str) -> bool:
    """Whether a structure of this name may be absent, and of any size."""
    return any(word in name.lower() for word in LESIONS)


def compared(one: LabelFacts, name: str, peers: Sequence[StructureFacts], found: Mapping[str, Reading]) -> list[Sign]:
    """The signs of a comparison with the files in which the structure is finished; ``found`` is known of this file."""
    structure = one.structures[name]
    others = [other for other in peers if other is not structure]
    if not others:
        return []
    volumes = [other.volume for other in others]
    signs = [_alone(structure, others, found)]
    if varies(name):
        signs += [_tiny(structure, min(volumes))]
    else:
        signs += [_volume(structure, sorted(volumes)), _filling(structure, others), _agreement(structure, others)]
        signs += [_ends(structure, others), _short(structure, others)]
    # Strokes on a few slices may well be as large as a small finished one: being alike says nothing then.
    apart = slices(structure).single >= APART
    signs = [sign for sign in signs if sign is not None and not (apart and sign.weight > 0)]
    if apart and touch(structure) < 0.6 and median(slices(other).single for other in others) >= APART:
        signs.append(Sign(4, "lies on slices apart where it is finished too"))
    return [sign for sign in signs if sign is not None]


def _volume(structure: StructureFacts, volumes: Sequence[float]) -> Sign | None:
    """Beside those that are larger by a jump, if there are any: many bodies differ, but gradually."""
    ladder = [structure.volume, *(volume for volume in volumes if volume > structure.volume)]
    jump = next((at for at in range(1, len(ladder)) if ladder[at] > JUMP * ladder[at - 1]), None)
    ratio = structure.volume / (median(ladder[jump:]) if jump else median(volumes))
    # What is left out of a body is left out at its border.
    less = 0.5 if touch(structure) >= 0.4 else 1.0
    if jump and ratio <= 0.2:
        return Sign((-5 if ratio <= 0.04 else -3) * less, f"{1 / ratio:.0f} times smaller than where it is finished")
    if jump:
        return Sign((-2.5 if ratio <= 0.35 else -1) * less, f"{100 * ratio:.0f} % as large as where it is finished")
    if ratio <= 0.5:
        return Sign(-1, f"{100 * ratio:.0f} % as large as where it is finished")
    return Sign(1.5, f"{100 * ratio:.0f} % as large as where it is finished") if 0.7 <= ratio <= 1.5 else None


def _tiny(structure: StructureFacts, smallest: float) -> Sign | None:
    ratio = structure.volume / smallest
    if ratio > 0.2 or touch(structure) >= 0.6:
        return None
    return Sign(-1.5, f"{1 / ratio:.0f} times smaller than the smallest finished one")


def _alone(structure: StructureFacts, others: Sequence[StructureFacts], found: Mapping[str, Reading]) -> Sign | None:
    """Its border touches nothing, though what most of it touches where it is finished is finished here too."""
    usual = median(touch(other) for other in others)
    if usual < 0.6 or touch(structure) > 0.1:
        return None
    beside = {name for other in others for name, share in other.touches.items() if share >= 0.3}
    if not any(name in found and found[name].state == "finished" and found[name].sure for name in beside):
        return None
    return Sign(-3, f"touches no other structure, with {100 * usual:.0f} % of its border where it is finished")


def _filling(structure: StructureFacts, others: Sequence[StructureFacts]) -> Sign | None:
    usual = median(other.fill for other in others)
    share = f"{100 * structure.fill:.0f} %"
    # Of the box round an oblique vessel little is filled, and more or less with every patient.
    if usual >= 0.3 and structure.fill <= 0.25 * usual:
        return Sign(-2, f"fills {share} of the box round it, where it is finished {100 * usual:.0f} %")
    return None


def _agreement(structure: StructureFacts, others: Sequence[StructureFacts]) -> Sign | None:
    if min(len(axis.painted) for axis in structure.axes) < 3:
        return None
    alike = min(each.likeness for each in structure.axes)
    known = [min(each.likeness for each in other.axes) for other in others]
    usual = median(known)
    if alike < 0.7 * usual and alike < min(known):
        figures = f"{100 * alike:.0f} %, where it is finished by {100 * usual:.0f} %"
        return Sign(-1.5, f"neighbouring slices agree by {figures}")
    return Sign(1, "neighbouring slices agree as where it is finished") if alike >= 0.9 * usual > 0 else None


def _ends(structure: StructureFacts, others: Sequence[StructureFacts]) -> Sign | None:
    if cut(structure) and sum(cut(other) for other in others) < len(others) / 3:
        return Sign(-2, "ends with a flat cut, which it does not where it is finished")
    return None


def _short(structure: StructureFacts, others: Sequence[StructureFacts]) -> Sign | None:
    """Half as long as elsewhere along one axis, and not along the others: bodies are larger and smaller all round."""
    known = list(zip(*(other.extent for other in others), strict=True))
    ratios = [own / median(lengths) for own, lengths in zip(structure.extent, known, strict=True)]
    axis = ratios.index(min(ratios))
    short, wide, _ = sorted(ratios)
    if short > min(0.7, 0.6 * wide) or structure.extent[axis] >= min(known[axis]):
        return None
    return Sign(-2.5, f"{100 * short:.0f} % as long as where it is finished, and {100 * wide:.0f} % as wide")


def context(one: LabelFacts, name: str, found: Mapping[str, Reading], *, mixed: bool) -> list[Sign]:
    """What the file says beside the structure's own shape; ``mixed`` if both kinds are known to be in one file."""
    structure = one.structures[name]
    signs = [_words(one)] if one.words else []
    if one.background and one.labeled < 0.98:
        signs.append(Sign(-30, "background is painted, so that 0 means unlabeled"))
    if one.unlabeled:
        signs.append(Sign(-30, "part of the file is painted as unlabeled"))
    if structure.status == "completed":
        signs.append(Sign(3, "its status is completed"))
    rest = {other: reading.state for other, reading in found.items() if other != name and reading.sure}
    if rest and set(rest.values()) == {"strokes"}:
        signs.append(Sign(-1 if mixed else -1.6, "all else in the file is strokes"))
        signs += _same_slices(one, name, rest)
    elif rest and set(rest.values()) == {"finished"}:
        signs.append(Sign(1 if mixed else 1.7, "all else in the file is finished"))
    return signs


def _words(one: LabelFacts) -> Sign:
    return Sign(-2 if one.words & STROKE_WORDS else 1.5, f"the file's name says {sorted(one.words)[0]}")


def _same_slices(one: LabelFacts, name: str, strokes: Mapping[str, str]) -> list[Sign]:
    """Where slices were left out: whether this structure lies on those that were not."""
    for axis in range(3):
        drawn = {at for other in strokes for at in one.structures[other].axes[axis].painted}
        own = one.structures[name].axes[axis].painted
        left_out = drawn and len(drawn) <= 0.6 * (max(drawn) - min(drawn) + 1)
        if left_out and drawn.issuperset(own):
            return [Sign(-2, "lies only on slices on which the other strokes are")]
    return []
