"""Grey values in 8 bits, and images that show nothing in them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from mixseg.core.errors import listed

if TYPE_CHECKING:
    from torch import Tensor

FAINT = 4.0
"""Of 256 grey values: the least standard deviation with which an image shows anything. Scans have ten times that."""
OFFSET = 4096
"""So many times its range an image may lie away from 0 before float32 rounds grey values away."""


def to_8_bits(
    array: NDArray[np.generic], clip: tuple[float, float] | None = None
) -> tuple[NDArray[np.uint8], float, float]:
    """The array with its minimum at 0 and its maximum at 255 (or the percentiles of ``clip``), and those two values.

    Rounded to the nearest of 256 grey values.
    """
    values = array.astype(_precision(array))
    kind = values.dtype.type
    low, high = (values.min(), values.max()) if clip is None else np.percentile(values, clip)
    if high <= low:
        return np.zeros(array.shape, np.uint8), float(low), float(high)
    scaled = (values - kind(low)) * kind(255 / (float(high) - float(low)))
    return np.rint(scaled.clip(0, 255)).astype(np.uint8), float(low), float(high)


def _precision(array: NDArray[np.generic]) -> type[np.floating[Any]]:
    """float32, unless it would round away most of what the image shows."""
    low, high = float(array.min()), float(array.max())
    span = high - low
    return np.float32 if max(-low, high) <= OFFSET * span and span > np.finfo(np.float32).tiny * 255 else np.float64


def faint(names: Collection[str]) -> list[str]:
    """A sentence about scans with a standard deviation below FAINT, if there are any."""
    if not names:
        return []
    count = f"{len(names)} scan{'s' * (len(names) > 1)} ({listed(names)}) {'are' if len(names) > 1 else 'is'}"
    return [
        f"{count} nearly of one grey, with an sd under {FAINT:g} of 256 grey values: a few voxels far brighter or "
        "darker than the rest take up the range. Look at them; clip [0.5, 99.5], say, keeps them out of it."
    ]


def normalise(image: Tensor, mean: Tensor, std: Tensor, intensity: Literal["unit", "zscore"]) -> Tensor:
    """Grey values 0 to 255 ``(B, C, *S)`` as the network is fed them; ``mean`` and ``std`` are ``(B, C)``."""
    if intensity == "unit":
        return image.float() / 255
    shape = (*mean.shape, *[1] * (image.dim() - 2))
    return (image.float() - mean.view(shape)) / std.clamp(min=1e-3).view(shape)
