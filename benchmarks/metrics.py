"""HD95 and ASSD of mixseg beside the straightforward distance transform of the whole volume, in one run.

    python benchmarks/metrics.py [--repeats 7]

Prints milliseconds and ratios, checks that the values are the same and exits with 1 where they are not, or where the
ratio of a case with a target falls below it. The masks are made by formula. The last two cases have no target: where
a prediction fills the image, no box is smaller than the volume and nothing can be gained.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import ndimage

from mixseg.evaluation.metrics import Mask, surface_distances

TARGET = 5.0
Pair = tuple[float, float]


def blob(shape: Sequence[int], centre: Sequence[float], radii: Sequence[float], ripple: float) -> Mask:
    """An ellipsoid whose radius waves by ``ripple`` around its axis and along it."""
    offsets = [grid - middle for grid, middle in zip(np.indices(shape, float), centre, strict=True)]
    radius = np.sqrt(sum((offset / r) ** 2 for offset, r in zip(offsets, radii, strict=True)))
    angle = np.arctan2(offsets[1], offsets[0])
    return radius < 1 + ripple * (np.sin(5 * angle) + np.cos(0.7 * offsets[2]))


def cases() -> list[tuple[str, Mask, Mask, tuple[float, ...], bool]]:
    """Name, prediction, truth, spacing and whether the target holds for it."""
    flat, deep = (256, 256, 10), (200, 140, 88)
    heart = blob(flat, (131, 122, 4.5), (29, 26, 4.5), 0.03)
    atrium = blob(deep, (103, 72, 45), (52, 38, 28), 0.03)
    rows = [
        ("256x256x10, close, voxels", blob(flat, (128, 120, 4.5), (28, 25, 4.2), 0.06), heart, (1.0, 1.0, 1.0), True),
        ("256x256x10, close, mm", blob(flat, (128, 120, 4.5), (28, 25, 4.2), 0.06), heart, (1.37, 1.37, 9.6), True),
        ("200x140x88, close, voxels", blob(deep, (100, 70, 44), (50, 36, 27), 0.06), atrium, (1.0, 1.0, 1.0), True),
        ("200x140x88, close, mm", blob(deep, (100, 70, 44), (50, 36, 27), 0.06), atrium, (0.9, 0.9, 1.7), True),
        ("200x140x88, far apart", blob(deep, (50, 40, 25), (25, 20, 15), 0.06), atrium, (1.0, 1.0, 1.0), False),
        ("256x256x10, all foreground", np.ones(flat, bool), heart, (1.0, 1.0, 1.0), False),
        ("200x140x88, all foreground", np.ones(deep, bool), atrium, (1.0, 1.0, 1.0), False),
    ]
    return rows


def summary(there: NDArray[np.float64], back: NDArray[np.float64]) -> Pair:
    """HD95 and ASSD from the distances of both directions."""
    return float(np.percentile(np.concatenate((there, back)), 95)), float(there.mean() + back.mean()) / 2


def straightforward(prediction: Mask, truth: Mask, spacing: Sequence[float]) -> Pair:
    """Erosion and distance transform of the whole volume, once for each direction, shared by HD95 and ASSD."""
    cross = ndimage.generate_binary_structure(prediction.ndim, 1)
    borders = [mask ^ ndimage.binary_erosion(mask, cross) for mask in (prediction, truth)]
    fields = [ndimage.distance_transform_edt(~border, sampling=spacing) for border in borders]
    return summary(fields[1][borders[0]], fields[0][borders[1]])


def ours(prediction: Mask, truth: Mask, spacing: Sequence[float]) -> Pair:
    """What ``metrics.hd95`` and ``metrics.assd`` compute."""
    return summary(*surface_distances(prediction, truth, (spacing,))[0])


def best_ms(function: Callable[[], Pair], repeats: int) -> tuple[float, Pair]:
    """The fastest of ``repeats`` calls, and its result."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - started)
    return 1e3 * min(times), result


def main() -> int:
    """Print the table; 0 if every value agrees and every target is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    print(
        f"numpy {np.__version__}, scipy {scipy.__version__}, Python {platform.python_version()}, {platform.machine()}"
    )
    print(f"{'case':28} {'whole volume':>13} {'mixseg':>9} {'ratio':>6}  {'HD95':>8} {'ASSD':>8}  values")
    good = True
    for name, prediction, truth, spacing, targeted in cases():
        slow, expected = best_ms(lambda p=prediction, t=truth, s=spacing: straightforward(p, t, s), repeats)
        fast, found = best_ms(lambda p=prediction, t=truth, s=spacing: ours(p, t, s), repeats)
        same = found == expected or np.allclose(found, expected, rtol=1e-13, atol=0)
        good &= same and (not targeted or slow / fast >= TARGET)
        verdict = "identical" if found == expected else "equal to 1e-13" if same else f"DIFFERENT {expected}"
        row = f"{name:28} {slow:10.1f} ms {fast:6.1f} ms {slow / fast:6.1f}  {found[0]:8.4f} {found[1]:8.4f}  {verdict}"
        print(row, flush=True)
    print(f"target {TARGET:g}x where the masks are close: {'met' if good else 'MISSED'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
