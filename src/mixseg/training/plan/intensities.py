"""Which intensities become black and white, from a few of the images: a window of HU in CT, no outliers elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixseg.data.intensity import OUTLIERS, ct_window, is_ct, robust_ends

Images = Callable[[], Iterable[NDArray[np.generic]]]
"""Gives some of the images of a run, the first channel of each; none where they are in 8 bits already."""


def choose_intensities(images: Images, given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """``clip`` and ``clip_by``, and why, unless one of them is given.

    Nothing of MR that no outliers spoil: minimum and maximum are as they always were.
    """
    if "clip" in given or "clip_by" in given:
        return {}, []
    found = list(images())
    if not found:
        return {}, []
    if all(map(is_ct, found)):
        low, high = ct_window(found)
        why = (
            f"Intensities are those of CT: {low:g} to {high:g} HU become black to white, nearly all of the body in the "
            f"{len(found)} scans looked at; air and metal lie beyond (--set 'clip=[LOW,HIGH]' clip_by=values)."
        )
        return {"clip": (low, high), "clip_by": "values"}, [why]
    spoiled = sum(robust_ends(image) is not None for image in found)
    if not spoiled:
        return {}, []
    why = (
        f"A few voxels take up {OUTLIERS:g} times the range of the body or more in {spoiled} of the {len(found)} scans "
        "looked at: such scans get percentiles of the body instead (--set clip_by=percentiles for minimum and maximum)."
    )
    return {"clip_by": "outliers"}, [why]
