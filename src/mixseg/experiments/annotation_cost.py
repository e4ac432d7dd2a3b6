"""What partial labels cost whoever draws them: voxels and strokes, counted on the training grid."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy import ndimage

from mixseg.core.types import IGNORE, Labels
from mixseg.data.prepare.store import Prepared
from mixseg.data.supervision import see
from mixseg.datasets.split import Split
from mixseg.runs.config import Config


def budget_of(config: Config, prepared: Prepared, split: Split) -> dict[str, float]:
    """The labels of the partly labelled train scans of ``config``: how many scans, voxels and strokes."""
    seen = see(prepared, split, sees="mixed", n=config.data.set, ratio=config.data.ratio).train["partial"]
    maps = [scan.partial for scan in seen if scan.partial is not None]
    slices = [np.moveaxis(each, -1, 0) if config.data.dims == 3 else each for each in maps]
    return {
        "scans": len(maps),
        "voxels": sum(int((each != IGNORE).sum()) for each in maps),
        "strokes": sum(strokes(each) for each in slices),
    }


def strokes(slices: Iterable[Labels]) -> int:
    """Connected pieces of one class in one slice, corners included: what a pen draws without being lifted."""
    corners = np.ones((3, 3), int)
    return sum(
        int(ndimage.label(each == label, corners)[1]) for each in slices for label in np.unique(each[each != IGNORE])
    )
