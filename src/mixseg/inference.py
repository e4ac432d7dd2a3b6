"""A scan on the training grid -> probabilities of each output: slice by slice, or by a sliding window."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from mixseg.data.batches import Scan, normalise
from mixseg.methods import Method

SLICES_AT_ONCE = 32
WINDOWS_AT_ONCE = 4


def predict_slices(
    method: Method, image: Tensor, mean: Tensor, std: Tensor, *, intensity: Literal["unit", "zscore"]
) -> Iterator[tuple[slice, dict[str, Tensor]]]:
    """Probabilities ``(n, classes, H, W)`` of each output for some of the slices ``(N, C, H, W)`` at a time."""
    for start in range(0, len(image), SLICES_AT_ONCE):
        some = slice(start, start + SLICES_AT_ONCE)
        fed = normalise(image[some], mean[some], std[some], intensity)
        yield some, method.predict(fed.to(next(method.parameters()).dtype))


def predict_volume(
    method: Method,
    image: Tensor,
    *,
    patch: tuple[int, ...],
    stride: tuple[int, ...] | None = None,
    gaussian: bool = True,
) -> dict[str, Tensor]:
    """Probabilities ``(classes, *S)`` of each output for a normalised volume ``(C, *S)``, averaged over windows.

    Args:
        method: In evaluation mode.
        image: Larger or smaller than a patch; smaller ones are padded by their edge.
        patch: Size of a window.
        stride: Steps between windows, at most a patch; None is half a patch.
        gaussian: Weighs the middle of a window more than its rim; False weighs all alike, as the paper does.
    """
    size = tuple(image.shape[1:])
    short = [max(0, want - have) for want, have in zip(patch, size, strict=True)]
    around = [amount for gap in reversed(short) for amount in (gap // 2, gap - gap // 2)]
    image = image.to(next(method.parameters()).dtype)
    padded = F.pad(image.unsqueeze(0), around, mode="replicate")[0] if any(short) else image
    weight = _bell(patch, image.device) if gaussian else torch.ones(patch, device=image.device)
    sums: dict[str, Tensor] = {}
    total = torch.zeros(padded.shape[1:], device=image.device)
    steps = stride or tuple(max(1, side // 2) for side in patch)
    corners = list(itertools.product(*(_starts(n, p, s) for n, p, s in zip(total.shape, patch, steps, strict=True))))
    for first in range(0, len(corners), WINDOWS_AT_ONCE):
        boxes = [
            tuple(slice(c, c + p) for c, p in zip(corner, patch, strict=True))
            for corner in corners[first : first + WINDOWS_AT_ONCE]
        ]
        found = method.predict(torch.stack([padded[(slice(None), *box)] for box in boxes]))
        for name, probs in found.items():
            into = sums.setdefault(name, torch.zeros((probs.shape[1], *total.shape), device=image.device))
            for row, box in zip(probs, boxes, strict=True):
                into[(slice(None), *box)] += row * weight
        for box in boxes:
            total[box] += weight
    inner = tuple(slice(gap // 2, gap // 2 + side) for gap, side in zip(short, size, strict=True))
    return {name: (into / total)[(slice(None), *inner)] for name, into in sums.items()}


def probabilities(
    method: Method,
    scan: Scan,
    *,
    intensity: Literal["unit", "zscore"],
    patch: tuple[int, ...] | None = None,
    stride: tuple[int, ...] | None = None,
    gaussian: bool = True,
) -> dict[str, Tensor]:
    """Probabilities ``(classes, *grid)`` of each output for one scan; ``patch`` is given for volumes.

    The grid is ``(slices, H, W)`` without a patch and ``(I, J, K)`` with one.
    """
    device = next(method.parameters()).device
    image = torch.from_numpy(scan.image).to(device)
    mean, std = (torch.tensor([value], device=device) for value in (scan.mean, scan.std))
    if patch is not None:
        volume = normalise(image.unsqueeze(0), mean, std, intensity)[0]
        return predict_volume(method, volume, patch=patch, stride=stride, gaussian=gaussian)
    parts = [
        found
        for _, found in predict_slices(
            method, image, mean.expand(len(image), -1), std.expand(len(image), -1), intensity=intensity
        )
    ]
    return {name: torch.cat([part[name] for part in parts]).movedim(1, 0) for name in parts[0]}


def _starts(size: int, patch: int, stride: int) -> Sequence[int]:
    """Where windows begin along one axis; they leave no gap, and the last one ends with the volume."""
    return sorted({*range(0, size - patch, min(stride, patch)), size - patch})


def _bell(patch: tuple[int, ...], device: torch.device) -> Tensor:
    """A Gaussian of an eighth of the patch, never so small that a voxel seen by one window is lost in rounding."""
    weight = torch.ones(patch, device=device)
    for axis, side in enumerate(patch):
        distance = torch.arange(side, device=device) - (side - 1) / 2
        shape = [-1 if other == axis else 1 for other in range(len(patch))]
        weight = weight * torch.exp(-(distance**2) / (2 * (side / 8) ** 2)).view(shape)
    return weight.clamp(min=1e-3)
