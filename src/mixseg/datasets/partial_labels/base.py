"""What the generators share: the row of the table, and the walk through the slices of a mask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixseg.core.errors import MixsegError
from mixseg.core.types import IGNORE, Labels

SliceGenerator = Callable[[Labels, np.random.Generator], Labels]
"""One ``(I, J)`` slice -> its partial labels."""


@dataclass(frozen=True)
class Generator:
    """A row of ``GENERATORS``: call it with ``(mask, rng)`` and, by keyword, the options of ``make``.

    Attributes:
        make: ``(mask, rng, *, axis=-1, ...) -> partial mask``.
        about: One clause for the command line's help and the docs.
    """

    make: Callable[..., Labels]
    about: str

    def __call__(self, mask: Labels, rng: np.random.Generator, **options: Any) -> Labels:  # noqa: ANN401 - make's own
        """The labels that this kind of annotator would have left of ``mask``; IGNORE everywhere else."""
        return self.make(mask, rng, **options)


def slicewise(make: SliceGenerator, mask: Labels, rng: np.random.Generator, *, axis: int) -> Labels:
    """Partial labels made slice by slice along ``axis``; a 2D mask is one slice."""
    check(mask)
    if mask.ndim == 2:
        return make(mask, rng)
    slices = np.moveaxis(mask, axis, 0)
    return np.moveaxis(np.stack([make(one, rng) for one in slices]), 0, axis) if len(slices) else mask.copy()


def check(mask: Labels) -> None:
    """Refuse what is not a label map in memory."""
    if mask.dtype != np.uint8 or mask.ndim not in (2, 3):
        raise MixsegError(
            f"Partial labels are made from a 2D or 3D mask of uint8 class indices, not from {mask.ndim}D {mask.dtype}: "
            "read it with mixseg.datasets.formats.read_labels.",
            "not-a-label-map",
            dtype=str(mask.dtype),
            axes=mask.ndim,
        )


def at_least(name: str, value: float, least: float) -> None:
    """Refuse an option below its smallest meaningful value."""
    if value < least:
        raise MixsegError(
            f"{name} is {value:g}, but must be at least {least:g}: choose a larger one.",
            "invalid-value",
            key=name,
            value=value,
        )


def foreground(mask: Labels) -> list[int]:
    """The classes above the background that occur in ``mask``, in order."""
    # Counting beats np.unique, which sorts all voxels.
    counts = np.bincount(mask.ravel(), minlength=IGNORE + 1)
    return [int(index) for index in np.flatnonzero(counts[1:IGNORE]) + 1]


def nothing(mask: Labels) -> Labels:
    """All IGNORE, in the shape of ``mask``."""
    return np.full_like(mask, IGNORE)


def bounding_box(region: NDArray[np.bool_]) -> tuple[slice, slice]:
    """The smallest rectangle that holds a non-empty 2D region."""
    rows, columns = np.flatnonzero(region.any(axis=1)), np.flatnonzero(region.any(axis=0))
    return slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)
