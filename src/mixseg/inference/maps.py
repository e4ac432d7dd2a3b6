"""A scan on the training grid -> what each output answers: slice by slice, or by a sliding window.

Probabilities come piece by piece, and what is wanted of them is taken before the next piece: so memory grows with the
label maps, one byte a voxel, and not with the number of classes times the volume.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from mixseg.core.types import Bytes
from mixseg.data.intensity import normalise
from mixseg.data.scan import Scan
from mixseg.inference.sliding_window import Windows, predict_slabs
from mixseg.methods import Method


class Piece(NamedTuple):
    """A part of a scan.

    Attributes:
        place: Where it lies on the grid of the labels: ``(slices, H, W)`` or ``(I, J, K)``.
        probs: ``(classes, *S)`` of each output; not to be used any more once the next piece is asked for.
    """

    place: tuple[slice, ...]
    probs: dict[str, Tensor]


class Maps(NamedTuple):
    """What is kept of a scan's probabilities.

    Attributes:
        labels: Class indices of each output on the grid of the labels, the answer first.
        entropy: Of the answer, 0 is sure and 255 is all classes alike; None if it was not asked for.
        foreground: Probability that the answer gives to anything but background, 255 is 1; likewise.
    """

    labels: dict[str, Bytes]
    entropy: Bytes | None = None
    foreground: Bytes | None = None


def pieces(
    method: Method,
    scan: Scan,
    *,
    intensity: Literal["unit", "zscore"],
    windows: Windows | None = None,
    outputs: Collection[str] = (),
    tell: Callable[[str], None] | None = None,
) -> Iterator[Piece]:
    """The probabilities of a scan, from its first slice to its last.

    Args:
        method: In evaluation mode.
        scan: Its labels are not looked at.
        intensity: What the network is fed.
        windows: For volumes; None predicts slice by slice.
        outputs: Those that are wanted; all of the method's if none are named.
        tell: Hears how far it is.
    """
    device = next(method.parameters()).device
    image = torch.from_numpy(scan.image).to(device)
    mean, std = (torch.tensor(value, device=device) for value in (scan.mean, scan.std))
    if windows is not None:
        slabs = predict_slabs(method, image, mean, std, windows, intensity=intensity, outputs=outputs, tell=tell)
        for place, found in slabs:
            yield Piece(place, found)
        return
    rows = (len(image), -1)
    mean, std = mean.expand(rows), std.expand(rows)
    for some, found in predict_slices(method, image, mean, std, intensity=intensity, outputs=outputs):
        yield Piece((some,), {name: probs.movedim(1, 0) for name, probs in found.items()})


def maps(found: Iterable[Piece], grid: tuple[int, ...], *, sureness: bool = False) -> Maps:
    """The label maps of the outputs, and on request how sure the answer is."""
    labels: dict[str, Bytes] = {}
    entropy, foreground = (np.empty(grid, np.uint8) if sureness else None for _ in range(2))
    for place, by_output in found:
        for name, probs in by_output.items():
            labels.setdefault(name, np.empty(grid, np.uint8))[place] = winners(probs, dim=0).cpu().numpy()
        answer = next(iter(by_output.values())).float()
        if entropy is not None:
            entropy[place] = _eight_bits(torch.special.entr(answer).sum(dim=0) / math.log(max(2, len(answer))))
        if foreground is not None:
            foreground[place] = _eight_bits(1 - answer[0])
    return Maps(labels, entropy, foreground)


def probabilities(found: Iterable[Piece], grid: tuple[int, ...]) -> dict[str, Tensor]:
    """The class probabilities ``(classes, *grid)`` of each output: a float for each class, output and voxel."""
    whole: dict[str, Tensor] = {}
    for place, by_output in found:
        for name, probs in by_output.items():
            if name not in whole:
                whole[name] = torch.empty((len(probs), *grid), dtype=probs.dtype)
            whole[name][:, *place] = probs.cpu()
    return whole


def _eight_bits(share: Tensor) -> Bytes:
    """Values from 0 to 1 as 0 to 255."""
    return (255 * share.clamp(0, 1)).round().to(torch.uint8).cpu().numpy()


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


def winners(probs: Tensor, dim: int) -> Tensor:
    """The class with the highest probability along ``dim``, the first of equals, in bytes.

    What ``argmax`` finds. Class by class, since an axis of a few classes is what torch's reductions are slowest at: a
    twentieth of the time on a CPU.
    """
    best, *others = probs.unbind(dim)
    found = torch.zeros(best.shape, dtype=torch.uint8, device=best.device)
    for index, one in enumerate(others, start=1):
        found.masked_fill_(one > best, index)
        best = torch.maximum(best, one)
    return found
