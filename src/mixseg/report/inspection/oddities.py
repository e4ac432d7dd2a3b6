"""What is not wrong but deserves a second look before training, and what settles it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from mixseg.core.errors import listed
from mixseg.data.intensity import faint
from mixseg.report.inspection.scan import Look

CONTRADICTION = 1e-3
"""Share of partly labelled voxels that may contradict the full mask: hands slip at borders."""


def oddities(looks: Sequence[Look]) -> list[str]:
    """One sentence per oddity of the readable scans, each with what settles it."""
    readable = [look for look in looks if look.place is not None]
    return [sentence for find in FINDERS for sentence in find(readable)] if readable else []


def _nothing_complete(looks: Sequence[Look]) -> list[str]:
    if any(look.case.kind == "full" for look in looks):
        return []
    return ["No scan has a full mask of all classes: training needs at least one; outline one scan completely."]


def _unused_classes(looks: Sequence[Look]) -> list[str]:
    found = []
    classes = looks[0].case.classes
    maps = {"full masks": [look.full for look in looks], "partial labels": [look.partial for look in looks]}
    there = {name: {index for one in of if one for index in one.counts} for name, of in maps.items()}
    for index, name in enumerate(classes[1:], start=1):
        if any(there.values()) and not any(index in seen for seen in there.values()):
            found.append(f"No label map holds {name}: remove it from the declared classes, or check the ids.")
        elif there["partial labels"] and index not in there["partial labels"]:
            found.append(f"The partial labels never mark {name}: only the full masks can teach it.")
    if there["partial labels"] and 0 not in there["partial labels"]:
        found.append(
            "The partial labels never mark the background: name its id with --background ID if it has one; "
            "otherwise only the full masks can teach it."
        )
    return found


def _lines(looks: Sequence[Look]) -> list[str]:
    thin = [look for look in looks if look.full is not None and look.full.thin]
    if not thin:
        return []
    return [
        f"{_scans(thin)} read as full, but nothing in the mask is wider than a line: if these are strokes and 0 is "
        "unpainted, pass --foreground-only, or --background ID if one of them marks the background."
    ]


def _empty_masks(looks: Sequence[Look]) -> list[str]:
    empty = [look for look in looks if look.full is not None and look.full.empty]
    if not empty:
        return []
    return [
        f"{_scans(empty)} with a full mask that is all background: remove the file if nobody has labelled the scan, "
        "it then counts as unlabelled."
    ]


def _contradictions(looks: Sequence[Look]) -> list[str]:
    both = [look for look in looks if look.full is not None and look.partial is not None]
    labelled = sum(look.partial.labelled for look in both if look.partial)
    wrong = sum(look.contradicting for look in both)
    if not labelled or wrong <= CONTRADICTION * labelled:
        return []
    worst = max(both, key=lambda look: look.contradicting)
    return [
        f"The partial labels contradict the full masks in {100 * wrong / labelled:.2g} % of their voxels, most in "
        f"{worst.case.id} ({worst.contradicting} voxels): look at it, and check what the ids mean."
    ]


def _voxel_sizes(looks: Sequence[Look]) -> list[str]:
    unknown = [look for look in looks if look.place and not look.place.spacing_known]
    if unknown:
        return [f"{_scans(unknown)} without a voxel size: distances will be in voxels."]
    if all(look.place and np.allclose(look.place.spacing, 1) for look in looks):
        return ["Every scan claims voxels of 1 x 1 x 1 mm: if a conversion lost the size, distances in mm are voxels."]
    return []


def _orientations(looks: Sequence[Look]) -> list[str]:
    counts = Counter(look.place.orientation for look in looks if look.place and look.place.spacing_known)
    if len(counts) < 2:
        return []
    codes = ", ".join(f"{code}: {count}" for code, count in counts.most_common())
    return [f"Scans are stored in several orientations ({codes}): reorient them if slices should look alike."]


def _images(looks: Sequence[Look]) -> list[str]:
    flat = [look for look in looks if look.flat]
    found = [f"{_scans(flat)} with the same value in every voxel: export the image again."] if flat else []
    found += faint([look.case.id for look in looks if look.faint and not look.flat])
    same: dict[str, list[Look]] = defaultdict(list)
    for look in looks:
        same[look.digest].append(look)
    twins = [of for of in same.values() if len({look.case.patient for look in of}) > 1 and not of[0].flat]
    if twins:
        pairs = listed([" = ".join(look.case.id for look in of) for of in twins])
        found.append(
            f"The same voxels under the names of several patients ({pairs}): "
            "keep one of them, or a scan that was trained on may be tested on."
        )
    return found


def _scans(looks: Sequence[Look]) -> str:
    count = f"{len(looks)} scan{'s' * (len(looks) > 1)}"
    return f"{count} ({listed([look.case.id for look in looks])})"


FINDERS: tuple[Callable[[Sequence[Look]], list[str]], ...] = (
    _nothing_complete,
    _lines,
    _empty_masks,
    _unused_classes,
    _contradictions,
    _voxel_sizes,
    _orientations,
    _images,
)
