"""The signs beside a structure's own shape: other files in which it is finished, and the rest of its file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from mixseg.datasets.evidence_signs import Sign, cut
from mixseg.datasets.label_facts import STROKE_WORDS, LabelFacts, StructureFacts
from mixseg.datasets.layouts.table import Reading

LESIONS = (
    *("lesion", "tumor", "tumour", "metast", "cyst", "nodul", "mass", "gtv", "node", "cancer", "carcinom", "adenom"),
    *("plaque", "calcif", "bleed", "hemorr", "haemorr", "edema", "oedema", "infarct", "scar", "polyp", "thromb"),
    *("stone", "wmh", "hyperintens", "abscess", "necro", "fractur", "embol", "aneurysm"),
)
"""Parts of the names of what may be absent, and a hundred times larger in one patient than in another."""


def compared(one: LabelFacts, name: str, peers: Sequence[StructureFacts]) -> list[Sign]:
    """The signs of a comparison with the files in which the structure is finished."""
    structure = one.structures[name]
    others = [other for other in peers if other is not structure]
    if not others:
        return []
    volumes = [other.volume for other in others]
    varied = any(word in name.lower() for word in LESIONS) or max(volumes) > 4 * min(volumes)
    found = [_agreement(structure, others)]
    if varied:
        found += [_tiny(structure, min(volumes))]
    else:
        found += [_volume(structure, volumes), _filling(structure, others)]
        found += [_ends(structure, others), _short(structure, others)]
    return [sign for sign in found if sign is not None]


def _volume(structure: StructureFacts, volumes: Sequence[float]) -> Sign | None:
    ratio = structure.volume / median(volumes)
    # Far smaller than the smallest of several says more than smaller than the only one.
    more = 1.0 if len(volumes) > 2 and structure.volume <= 0.25 * min(volumes) else 0.0
    if ratio <= 0.2:
        return Sign(-(3 if ratio <= 0.05 else 2) - more, f"{1 / ratio:.0f} times smaller than where it is finished")
    if ratio <= 0.7:
        return Sign(-1.5 if ratio <= 0.45 else -0.5, f"{100 * ratio:.0f} % as large as where it is finished")
    return Sign(1.5, f"{100 * ratio:.0f} % as large as where it is finished") if 0.7 <= ratio <= 1.5 else None


def _tiny(structure: StructureFacts, smallest: float) -> Sign | None:
    ratio = structure.volume / smallest
    return Sign(-1.5, f"{1 / ratio:.0f} times smaller than the smallest finished one") if ratio <= 0.2 else None


def _filling(structure: StructureFacts, others: Sequence[StructureFacts]) -> Sign | None:
    ratio = structure.fill / median(other.fill for other in others)
    share = f"{100 * structure.fill:.0f} %"
    if ratio <= 0.25:
        return Sign(-2, f"fills {share} of the box round it, finished ones {1 / ratio:.0f} times as much")
    return Sign(1, f"fills {share} of the box round it, as finished ones do") if ratio >= 0.7 else None


def _agreement(structure: StructureFacts, others: Sequence[StructureFacts]) -> Sign | None:
    alike = min(each.likeness for each in structure.axes)
    usual = median(min(each.likeness for each in other.axes) for other in others)
    if alike <= 0.7 * usual:
        figures = f"{100 * alike:.0f} %, where it is finished by {100 * usual:.0f} %"
        return Sign(-2, f"neighbouring slices agree by {figures}")
    return Sign(1, "neighbouring slices agree as where it is finished") if alike >= 0.9 * usual > 0 else None


def _ends(structure: StructureFacts, others: Sequence[StructureFacts]) -> Sign | None:
    if cut(structure) and sum(cut(other) for other in others) < len(others) / 3:
        return Sign(-2, "ends with a flat cut, which it does not where it is finished")
    return None


def _short(structure: StructureFacts, others: Sequence[StructureFacts]) -> Sign | None:
    """Half as long as elsewhere along one axis, and not along the others: bodies are larger and smaller all round."""
    ratios = [
        structure.extent[axis] / median(other.extent[axis] for other in others) for axis in range(len(structure.extent))
    ]
    short, *rest = sorted(ratios)
    if short > 0.6 * rest[0]:
        return None
    return Sign(-2.5, f"{100 * short:.0f} % as long as where it is finished, and {100 * rest[0]:.0f} % as wide")


def context(one: LabelFacts, name: str, found: Mapping[str, Reading], *, mixed: bool) -> list[Sign]:
    """What the file says beside the structure's own shape; ``mixed`` if both kinds are known to be in one file."""
    structure = one.structures[name]
    signs = [_words(one)] if one.words else []
    if one.background and one.labeled < 0.98:
        signs.append(Sign(-9, "background is painted, so that 0 means unlabeled"))
    if one.unlabeled:
        signs.append(Sign(-9, "part of the file is painted as unlabeled"))
    if structure.status == "completed":
        signs.append(Sign(3, "its status is completed"))
    rest = {other: reading.state for other, reading in found.items() if other != name and reading.sure}
    if rest and set(rest.values()) == {"strokes"}:
        signs.append(Sign(-1 if mixed else -1.6, "all else in the file is strokes"))
        signs += _same_slices(one, name, rest)
    elif rest and set(rest.values()) == {"finished"}:
        signs.append(Sign(1 if mixed else 2, "all else in the file is finished"))
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
