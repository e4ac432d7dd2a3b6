"""Detection: how many of the connected components of a mask were found, and how many were found that are none.

A component is what hangs together across faces, edges and corners (26 neighbours, 8 in an image). One of the truth is
found if a single voxel of it is predicted; one of the prediction is false if no voxel of it is true.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

Mask = NDArray[np.bool_]


class Lesions(NamedTuple):
    """Counts of components.

    Attributes:
        true: In the truth.
        missed: Of these, not found.
        predicted: In the prediction.
        false: Of these, nowhere true.
    """

    true: int
    missed: int
    predicted: int
    false: int

    @property
    def f1(self) -> float:
        """The harmonic mean of the shares of the true ones that were found and of the predicted ones that are true.

        0 if one mask is empty, ``nan`` if both are.
        """
        if not self.true and not self.predicted:
            return math.nan
        if not self.true or not self.predicted:
            return 0.0
        recall, precision = 1 - self.missed / self.true, 1 - self.false / self.predicted
        return 2 * recall * precision / (recall + precision) if recall + precision else 0.0


def lesions(prediction: Mask, truth: Mask) -> Lesions:
    """The components of two masks of one shape, and which of them meet."""
    true, missed = _alone(truth, prediction)
    predicted, false = _alone(prediction, truth)
    return Lesions(true, missed, predicted, false)


def _alone(mask: Mask, other: Mask) -> tuple[int, int]:
    """How many components ``mask`` has, and how many of them share no voxel with ``other``."""
    labels, count = ndimage.label(mask, np.ones((3,) * mask.ndim, int))
    met = np.unique(labels[other & mask])
    return int(count), int(count) - len(met)
