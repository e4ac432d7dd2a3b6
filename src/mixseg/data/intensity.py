"""Grey values as a network is fed them."""

from __future__ import annotations

from typing import Literal

from torch import Tensor


def normalise(image: Tensor, mean: Tensor, std: Tensor, intensity: Literal["unit", "zscore"]) -> Tensor:
    """Grey values 0 to 255 ``(B, C, *S)`` as the network is fed them; ``mean`` and ``std`` are ``(B, C)``."""
    if intensity == "unit":
        return image.float() / 255
    shape = (*mean.shape, *[1] * (image.dim() - 2))
    return (image.float() - mean.view(shape)) / std.clamp(min=1e-3).view(shape)
