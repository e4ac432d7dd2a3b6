"""What is not wrong but deserves a second look before training, and what settles it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from mixseg.core.errors import listed
from mixseg.data.intensity import faint
from mixseg.report.inspection.scan import ScanReport

CONTRADICTION = 1e-3
"""Share of partly labelled voxels that may contradict the full mask: hands slip at borders."""


def oddities(scans: Sequence[ScanReport]) -> list[str]:
    """One sentence per oddity of the readable scans, each with what settles it."""
    readable = [scan for scan in scans if scan.geometry is not None]
    return [sentence for find in FINDERS for sentence in find(readable)] if readable else []


def _nothing_complete(scans: Sequence[ScanReport]) -> list[str]:
    if any(scan.case.kind == "full" for scan in scans):
        return []
    return ["No scan has a full mask of all classes: training needs at least one; outline one scan completely."]


def _unused_classes(scans: Sequence[ScanReport]) -> list[str]:
    found = []
    classes = scans[0].case.classes
    maps = {"full masks": [scan.full for scan in scans], "partial labels": [scan.partial for scan in scans]}
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


def _lines(scans: Sequence[ScanReport]) -> list[str]:
    thin = [scan for scan in scans if scan.full is not None and scan.full.thin]
    if not thin:
        return []
    return [
        f"{_scans(thin)} read as full, but nothing in the mask is wider than a line: if these are strokes and 0 is "
        "unpainted, pass --foreground-only, or --background ID if one of them marks the background."
    ]


def _empty_masks(scans: Sequence[ScanReport]) -> list[str]:
    empty = [scan for scan in scans if scan.full is not None and scan.full.empty]
    if not empty:
        return []
    return [
        f"{_scans(empty)} with a full mask that is all background: remove the file if nobody has labelled the scan, "
        "it then counts as unlabeled."
    ]


def _contradictions(scans: Sequence[ScanReport]) -> list[str]:
    both = [scan for scan in scans if scan.full is not None and scan.partial is not None]
    labelled = sum(scan.partial.labelled for scan in both if scan.partial)
    wrong = sum(scan.contradicting for scan in both)
    if not labelled or wrong <= CONTRADICTION * labelled:
        return []
    worst = max(both, key=lambda scan: scan.contradicting)
    return [
        f"The partial labels contradict the full masks in {100 * wrong / labelled:.2g} % of their voxels, most in "
        f"{worst.case.id} ({worst.contradicting} voxels): look at it, and check what the ids mean."
    ]


def _voxel_sizes(scans: Sequence[ScanReport]) -> list[str]:
    unknown = [scan for scan in scans if scan.geometry and not scan.geometry.spacing_known]
    if unknown:
        return [f"{_scans(unknown)} without a voxel size: distances will be in voxels."]
    if all(scan.geometry and np.allclose(scan.geometry.spacing, 1) for scan in scans):
        return ["Every scan claims voxels of 1 x 1 x 1 mm: if a conversion lost the size, distances in mm are voxels."]
    return []


def _orientations(scans: Sequence[ScanReport]) -> list[str]:
    counts = Counter(scan.geometry.orientation for scan in scans if scan.geometry and scan.geometry.spacing_known)
    if len(counts) < 2:
        return []
    codes = ", ".join(f"{code}: {count}" for code, count in counts.most_common())
    return [f"Scans are stored in several orientations ({codes}): reorient them if slices should look alike."]


def _images(scans: Sequence[ScanReport]) -> list[str]:
    flat = [scan for scan in scans if scan.flat]
    found = [f"{_scans(flat)} with the same value in every voxel: export the image again."] if flat else []
    found += faint([scan.case.id for scan in scans if scan.faint and not scan.flat])
    same: dict[str, list[ScanReport]] = defaultdict(list)
    for scan in scans:
        same[scan.digest].append(scan)
    twins = [of for of in same.values() if len({scan.case.patient for scan in of}) > 1 and not of[0].flat]
    if twins:
        pairs = listed([" = ".join(scan.case.id for scan in of) for of in twins])
        found.append(
            f"The same voxels under the names of several patients ({pairs}): "
            "keep one of them, or a scan that was trained on may be tested on."
        )
    return found


def _scans(scans: Sequence[ScanReport]) -> str:
    count = f"{len(scans)} scan{'s' * (len(scans) > 1)}"
    return f"{count} ({listed([scan.case.id for scan in scans])})"


FINDERS: tuple[Callable[[Sequence[ScanReport]], list[str]], ...] = (
    _nothing_complete,
    _lines,
    _empty_masks,
    _unused_classes,
    _contradictions,
    _voxel_sizes,
    _orientations,
    _images,
)
