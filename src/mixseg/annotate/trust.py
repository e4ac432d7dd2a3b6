"""How far a label map can be trusted where nobody knows the truth: signs, not scores.

``soft_dice`` is the Dice overlap that the probabilities themselves expect of their label map; ``agreement`` the overlap
of the label maps of two outputs. Neither was calibrated: both say which scans to look at first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mixseg.core.types import Labels


def soft_dice(probabilities: NDArray[np.float32], labels: Labels) -> list[float]:
    """Of each class above the background: 2 sum(p y) / (sum p + sum y), nan where neither has any of it.

    Args:
        probabilities: ``(classes, I, J, K)``.
        labels: Class indices.
    """
    found = []
    for index in range(1, len(probabilities)):
        chosen = labels == index
        own, total = float(probabilities[index][chosen].sum()), float(probabilities[index].sum())
        marked = int(chosen.sum())
        found.append(2 * own / (total + marked) if marked or total > 0.5 else float("nan"))
    return found


def agreement(one: Labels, other: Labels, classes: int) -> list[float]:
    """The Dice overlap of two label maps, of each class above the background; nan where neither has it."""
    found = []
    for index in range(1, classes):
        first, second = one == index, other == index
        sizes = int(first.sum()) + int(second.sum())
        found.append(2 * int((first & second).sum()) / sizes if sizes else float("nan"))
    return found


def worst(values: Sequence[float]) -> float:
    """The least of some signs, 0 where a structure was found by nobody; what scans are sorted by."""
    return min((0.0 if np.isnan(value) else value for value in values), default=0.0)
