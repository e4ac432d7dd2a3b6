"""Every n-th slice labelled completely, the others not at all."""

from __future__ import annotations

import numpy as np

from mixseg.core.types import Labels
from mixseg.datasets.partial_labels.base import at_least, check, nothing


def slices(mask: Labels, rng: np.random.Generator, *, axis: int = -1, every: int = 5) -> Labels:
    """All labels of every ``every``-th slice along ``axis``, the first one drawn; a 2D mask is kept whole."""
    check(mask)
    at_least("every", every, 1)
    if mask.ndim == 2:
        return mask.copy()
    out = nothing(mask)
    # At least one slice is labelled, in a stack that is shorter than the step too.
    first = int(rng.integers(max(1, min(every, mask.shape[axis]))))
    np.moveaxis(out, axis, 0)[first::every] = np.moveaxis(mask, axis, 0)[first::every]
    return out
