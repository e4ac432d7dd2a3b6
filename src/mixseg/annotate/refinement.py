"""Label maps that keep what was drawn, and follow it a little way beyond.

A stroke says more than its own voxels: what lies near it and looks alike is probably the same structure. How far each
voxel lies from the strokes of each class is measured along the image, where a step across a border is long; the
nearest class gets a share of the voxel's probability that falls with that distance, and with how sure the network is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from mixseg.annotate.constraints import Drawn
from mixseg.core.types import IGNORE, Labels

Probabilities = NDArray[np.float32]

REACH_MM = 10.0
"""Beyond so many mm along the image a stroke says nothing."""
BORDER = 2.0
"""How many times longer a step is where the image changes by one standard deviation a voxel. This and ``TRUST`` were
chosen by benchmarks/complete.py on scribbles of ACDC."""
FADES = 3.0
"""By e to the power of this from a stroke to the end of its reach."""
TRUST = 1.0
"""How much of a voxel that the network is not sure of goes to the nearest stroke, right beside it."""

PROPOSED, REFINED, DRAWN, CORRECTED = 0, 1, 2, 3
"""Where the label of a voxel comes from: the network; the network after a stroke near by; a stroke or an outline; the
hand of who changed a proposal."""


class Completed(NamedTuple):
    """A finished label map.

    Attributes:
        labels: Class indices.
        provenance: PROPOSED, REFINED, DRAWN or CORRECTED.
        confidence: The probability of each voxel's label, 1 where it was drawn.
    """

    labels: Labels
    provenance: NDArray[np.uint8]
    confidence: NDArray[np.float32]


def complete(
    probabilities: Probabilities,
    image: NDArray[np.generic],
    drawn: Drawn,
    *,
    spacing: Sequence[float],
    single: Sequence[int] = (),
    reach: float = REACH_MM,
) -> Completed:
    """A label map that has every drawn voxel, from what a network answers.

    Args:
        probabilities: ``(classes, I, J, K)``.
        image: ``(channels, I, J, K)``.
        drawn: What is known.
        spacing: Voxel size in mm.
        single: The classes that are one connected component; components that hold something drawn stay anyway.
        reach: How far strokes speak for their surroundings, in mm along the image; 0 pastes them in.
    """
    allowed = _without_finished(probabilities, drawn)
    proposed = allowed.argmax(axis=0).astype(np.uint8)
    refined = spread(allowed, image, drawn, spacing=spacing, reach=reach) if reach else allowed
    labels = refined.argmax(axis=0).astype(np.uint8)
    known = drawn.known
    labels[known] = drawn.labels[known]
    for index in single:
        if index not in drawn.finished:
            labels[_to_drop(labels == index, known)] = 0
    provenance = np.where(labels == proposed, PROPOSED, REFINED).astype(np.uint8)
    provenance[known] = DRAWN
    if drawn.corrected is not None:
        provenance[drawn.corrected] = CORRECTED
    confidence = np.take_along_axis(refined, labels[None], axis=0)[0]
    confidence[known] = 1
    return Completed(labels, provenance, confidence)


def spread(
    probabilities: Probabilities,
    image: NDArray[np.generic],
    drawn: Drawn,
    *,
    spacing: Sequence[float],
    reach: float = REACH_MM,
) -> Probabilities:
    """The probabilities after the strokes have spoken for what lies near them and looks alike."""
    known = drawn.known
    if not known.any():
        return probabilities
    box = _around(known, [int(np.ceil(reach / mm)) for mm in spacing])
    inside = drawn.labels[box].copy()
    inside[np.isin(inside, drawn.finished)] = IGNORE  # such a structure is not beyond what is drawn of it
    distances = _distances(image[:, *box], inside, spacing, reach)
    if not distances:
        return probabilities
    nearest = np.stack(list(distances.values())).min(axis=0)
    near = nearest < reach
    result = probabilities.copy()
    own = result[:, *box]
    second, first = np.partition(own, -2, axis=0)[-2:]
    share = np.where(near, TRUST * np.exp(-FADES * nearest / reach), 0) * (1 - (first - second))
    own *= 1 - share
    for index, distance in distances.items():
        own[index] += np.where(near & (distance == nearest), share, 0)
    own /= own.sum(axis=0)
    return result


def _distances(
    image: NDArray[np.generic], labels: Labels, spacing: Sequence[float], reach: float
) -> dict[int, NDArray[np.float64]]:
    """Class -> how far each voxel lies from its nearest stroke of that class along the image, in mm."""
    from skimage.graph import MCP_Geometric

    grey = ndimage.gaussian_filter(image.astype(np.float32), (0, 0.5, 0.5, 0.5))
    spreads = np.maximum(grey.std(axis=(1, 2, 3)), 1e-6)
    slopes = [ndimage.gaussian_gradient_magnitude(each / sd, 1) for each, sd in zip(grey, spreads, strict=True)]
    cost = 1 + BORDER * np.sqrt(np.square(slopes).sum(axis=0))

    class Within(MCP_Geometric):  # type: ignore[misc]
        """Shortest paths that end where they become longer than ``reach``."""

        def goal_reached(self, index: int, cumcost: float) -> int:
            """2 ends the search."""
            return 2 if cumcost > reach else 0

    found: dict[int, NDArray[np.float64]] = {}
    for index in np.unique(labels[labels != IGNORE]).tolist():
        found[index], _ = Within(cost, sampling=tuple(spacing)).find_costs(np.argwhere(labels == index))
    return found


def _without_finished(probabilities: Probabilities, drawn: Drawn) -> Probabilities:
    """The probabilities with nothing of the classes that are outlined to their border where they are not drawn."""
    if not drawn.finished:
        return probabilities
    result = probabilities.copy()
    result[list(drawn.finished)] = 0
    total = result.sum(axis=0)
    result[0] += total == 0
    return np.asarray(result / np.where(total == 0, 1, total), np.float32)


def _to_drop(mask: NDArray[np.bool_], known: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The components of a mask but for the largest one and those that hold something drawn."""
    components, count = ndimage.label(mask, structure=np.ones([3] * mask.ndim))
    if count < 2:
        return np.zeros_like(mask)
    kept = np.zeros(count + 1, bool)
    kept[1 + np.bincount(components.ravel())[1:].argmax()] = True
    kept[np.unique(components[known & mask])] = True
    return np.asarray(mask & ~kept[components])


def _around(mask: NDArray[np.bool_], margins: Sequence[int]) -> tuple[slice, ...]:
    """The part of the grid that holds the mask, with a margin."""
    box = ndimage.find_objects(mask.astype(np.uint8))[0]
    return tuple(
        slice(max(0, side.start - margin), min(length, side.stop + margin))
        for side, margin, length in zip(box, margins, mask.shape, strict=True)
    )
