"""Slices of scans -> probabilities of each output, some slices at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Literal

from torch import Tensor

from mixseg.data.intensity import normalise
from mixseg.methods import Method

SLICES_AT_ONCE = 32


def predict_slices(
    method: Method,
    image: Tensor,
    mean: Tensor,
    std: Tensor,
    *,
    intensity: Literal["unit", "zscore"],
    outputs: Collection[str] = (),
) -> Iterator[tuple[slice, dict[str, Tensor]]]:
    """Probabilities ``(n, classes, H, W)`` of each output for some of the slices ``(N, C, H, W)`` at a time.

    Of all outputs of the method, if none are named.
    """
    for start in range(0, len(image), SLICES_AT_ONCE):
        some = slice(start, min(start + SLICES_AT_ONCE, len(image)))
        fed = normalise(image[some], mean[some], std[some], intensity)
        yield some, method.predict(fed.to(next(method.parameters()).dtype), outputs)
