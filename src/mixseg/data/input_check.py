"""What images a run was trained on, in a few numbers, and by which of them one that is to be predicted is unlike them.

They are taken on the training grid, of what the network is fed: grey values after the scaling of each image to 8 bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mixseg.core.types import Bytes
from mixseg.data.scan import Scan

MOST = 64
"""So many scans, evenly spread, say what a run was trained on: looking at thousands would take longer than it helps."""

ENOUGH = 4_000_000
"""Likewise, voxels of one."""

Measures = dict[str, float]
Ranges = Mapping[str, Sequence[float]]
"""Measure -> its lowest and highest value in training."""


@dataclass(frozen=True)
class Limit:
    """How far outside of the training's range a measure may lie.

    Attributes:
        what: It is, for a sentence.
        factor: Times beyond the lowest and the highest, for sizes.
        shift: Beyond them, for grey values.
        unit: After its numbers.
    """

    what: str
    factor: float = 1.0
    shift: float = 0.0
    unit: str = ""

    def allowed(self, low: float, high: float) -> tuple[float, float]:
        """The lowest and the highest value that pass."""
        return low / self.factor - self.shift, high * self.factor + self.shift


LIMITS = {
    "spacing_fine": Limit("its smallest voxel side", factor=2.0, unit=" mm"),
    "spacing_coarse": Limit("its largest voxel side", factor=2.0, unit=" mm"),
    "side_short": Limit("its shortest side", factor=2.5, unit=" voxels"),
    "side_long": Limit("its longest side", factor=2.0, unit=" voxels"),
    "grey": Limit("its mean grey value (0 to 255)", shift=48.0),
    "contrast": Limit("the spread of its grey values", factor=2.0),
    "roughness": Limit("the difference of neighbouring voxels (noise has much)", factor=2.0),
}
"""Wide enough for patients and scanners to differ; what is beyond is a CT for an MR, noise, or a scale that is off."""


def measure(scan: Scan) -> Measures:
    """The numbers of one scan; none of voxel sizes where these are unknown."""
    found: Measures = {}
    placed = scan.case
    if placed is not None:
        found |= {"side_short": float(min(placed.header.shape)), "side_long": float(max(placed.header.shape))}
        if placed.spacing_known:
            found |= {"spacing_fine": min(placed.header.spacing), "spacing_coarse": max(placed.header.spacing)}
    contrast = float(np.mean(scan.std))
    found |= {"grey": float(np.mean(scan.mean)), "contrast": contrast}
    if contrast > 0:
        found["roughness"] = _steps(scan.image) / contrast
    return {name: round(value, 4) for name, value in found.items()}


def _steps(image: Bytes) -> float:
    """The mean absolute difference of neighbours along the last two axes of ``(slices, C, H, W)`` or ``(C, I, J, K)``.

    Of a large scan some planes say it.
    """
    planes = image.reshape(-1, *image.shape[-2:])
    some = planes[:: max(1, planes.size // ENOUGH)].astype(np.int16)
    found = [float(np.abs(np.diff(some, axis=axis)).mean()) for axis in (-1, -2) if some.shape[axis] > 1]
    return float(np.mean(found)) if found else 0.0


def ranges(scans: Sequence[Scan]) -> dict[str, list[float]]:
    """The lowest and the highest of each measure in training."""
    step = max(1, -(-len(scans) // MOST))
    found: dict[str, list[float]] = {}
    for scan in scans[::step]:
        for name, value in measure(scan).items():
            low, high = found.get(name, (value, value))
            found[name] = [min(low, value), max(high, value)]
    return found


def remarks(scan: Scan, trained_on: Ranges) -> list[str]:
    """One sentence about a scan that is outside of what a run was trained on; none where that is not known."""
    beyond = list(_beyond(measure(scan), trained_on))
    if not beyond:
        return []
    return [f"{scan.name} is unlike the images of the training, look at its label map with care: {'; '.join(beyond)}."]


def _beyond(found: Measures, trained_on: Ranges) -> Iterable[str]:
    for name, limit in LIMITS.items():
        if name not in found or name not in trained_on:
            continue
        low, high = trained_on[name]
        least, most = limit.allowed(low, high)
        if not least <= found[name] <= most:
            yield f"{limit.what} is {found[name]:.3g}{limit.unit}, {low:.3g} to {high:.3g} in training"
