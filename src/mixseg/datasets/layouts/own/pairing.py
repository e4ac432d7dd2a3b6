"""Labels -> the scan that each belongs to, by folder, name and grid."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from mixseg.core.errors import listed
from mixseg.datasets import formats
from mixseg.datasets.layouts.own import names
from mixseg.datasets.layouts.own.files import Found
from mixseg.datasets.layouts.own.scans import Scan
from mixseg.datasets.layouts.table import Unplaced


def pair(labels: Sequence[Found], scans: Sequence[Scan], root: Path) -> tuple[dict[str, list[Found]], list[Unplaced]]:
    """The labels of each scan, by its id, and those of none or of no one in particular."""
    by_folder: dict[Path, list[Scan]] = {}
    for scan in scans:
        for folder in (scan.folder, *scan.folder.parents):
            by_folder.setdefault(folder, []).append(scan)
            if folder == root:
                break
    found: dict[str, list[Found]] = {}
    strange = []
    for label in labels:
        nearest = next((folder for folder in label.path.parents if folder in by_folder), root)
        best, sentence = _scan_of(label, by_folder.get(nearest, []), root)
        if best is None:
            strange.append(Unplaced(label.path, sentence))
        else:
            found.setdefault(best.id, []).append(label)
    return found, strange


def _scan_of(label: Found, near: Sequence[Scan], root: Path) -> tuple[Scan | None, str]:
    """The scan that a label belongs to, of those in the nearest folder that holds any; or why there is none."""
    parts = (*names.of_folders(label.path, root), *label.parts)
    exact = [scan for scan in near if _named_alike(label, scan)]
    if len(exact) == 1:
        return exact[0], ""
    shared = Counter(part for scan in near for part in set(scan.parts))
    scores = {scan.id: _score(parts, scan, shared, len(near)) for scan in near}
    best = [scan for scan in near if scores[scan.id] == max(scores.values())]
    if len(near) == 1 and not _another(parts, near[0]):
        return near[0], ""
    if scores and max(scores.values()) > 0:
        best = [scan for scan in best if not _another(parts, scan)]
        if len(best) > 1:
            best = [scan for scan in best if not differs(label, scan)] or best
        if len(best) == 1:
            return best[0], ""
    else:
        fitting = [scan for scan in near if scan.place and label.place and not differs(label, scan)]
        best = [] if _numbers(label.parts) else fitting
        if len(best) == 1:
            return best[0], ""
    if best:
        which = listed([scan.images[0].path.name for scan in best])
        return None, (
            f"{label.path} may belong to {len(best)} images ({which}): call it as its image is called, with "
            '"label" behind, or put the two into a folder of their own.'
        )
    return None, (
        f"{label.path} seems to be a label map, and its image is missing: add the image, or call the label as its "
        'image is called, with "label" behind.'
    )


def _named_alike(label: Found, scan: Scan) -> bool:
    """Whether, words such as "label" apart, a label is called as the image of a scan."""
    return any(set(names.telling(label.parts)) == set(names.telling(image.parts)) != set() for image in scan.images)


def _score(parts: Sequence[str], scan: Scan, shared: Counter[str], count: int) -> float:
    """How much of what tells a scan from the others the name of a label says."""
    own_parts = set(parts)
    return sum(1 - shared[part] / (count + 1) for part in scan.parts if part in own_parts and (shared[part] < count))


def _another(parts: Sequence[str], scan: Scan) -> bool:
    """Whether the numbers in the name of a label say that it is another's."""
    mine, its = _numbers(parts), _numbers(scan.parts)
    return bool(mine and its) and not mine & its


def _numbers(parts: Iterable[str]) -> set[str]:
    """Those that may number a scan."""
    return {part for part in names.telling(parts) if any(map(str.isdigit, part)) and part not in names.MODALITIES}


def differs(label: Found, scan: Scan) -> str:
    """How the grid of a label differs from that of its image, as a clause that names a flip or a transposition."""
    if label.place is None or scan.place is None:
        return ""
    difference = formats.same_geometry(scan.place, label.place)
    return f"{difference}{_turned(scan.place, label.place)}" if difference else ""


def _turned(image: formats.Geometry, label: formats.Geometry) -> str:
    """A clause about axes that are turned round or exchanged, where that explains a difference."""
    if sorted(image.shape) == sorted(label.shape) and image.shape != label.shape:
        order = _order(image.shape, label.shape)
        return f"; its axes are exchanged ({', '.join(str(axis + 1) for axis in order)})" if order else ""
    if image.shape != label.shape or not np.allclose(image.spacing, label.spacing, rtol=1e-3):
        return ""
    across, along = (place.affine[:3, :3] / np.array(place.spacing) for place in (image, label))
    cosines = (across * along).sum(axis=0)
    flipped = [axis for axis in range(3) if cosines[axis] < -0.99]
    if flipped and np.abs(cosines).min() > 0.99:
        return f"; it is flipped along axis {' and '.join(str(axis + 1) for axis in flipped)}"
    return ""


def _order(shape: Iterable[int], other: Iterable[int]) -> list[int]:
    """Which axis of the first each axis of the second is, if sizes tell."""
    sizes = list(shape)
    return [sizes.index(size) for size in other] if len(set(sizes)) == 3 else []
