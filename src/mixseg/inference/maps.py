"""A scan on the training grid -> what each output answers, and which structures of it are one piece.

Probabilities come piece by piece, and what is wanted of them is taken before the next piece: so memory grows with the
label maps, one byte a voxel, and not with the number of classes times the volume.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import ndimage
from torch import Tensor

from mixseg.core.types import Bytes, Labels
from mixseg.data.scan import Scan
from mixseg.inference.sliding_window import Forward, Grey, Tell, Windows, predict_slabs, predict_slices


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

    labels: dict[str, Labels]
    entropy: Bytes | None = None
    foreground: Bytes | None = None


def pieces(forward: Forward, scan: Scan, windows: Windows | None, *, tell: Tell | None = None) -> Iterator[Piece]:
    """The probabilities of a scan, from its first slice to its last; without ``windows``, slice by slice."""
    device = next(forward.method.parameters()).device
    image = torch.from_numpy(scan.image).to(device)
    mean, std = (torch.tensor(value, device=device) for value in (scan.mean, scan.std))
    if windows is not None:
        for place, found in predict_slabs(forward, Grey(image, mean, std), windows, tell=tell):
            yield Piece(place, found)
        return
    rows = (len(image), -1)
    for some, found in predict_slices(forward, Grey(image, mean.expand(rows), std.expand(rows))):
        yield Piece((some,), {name: probs.movedim(1, 0) for name, probs in found.items()})


def maps(found: Iterable[Piece], grid: tuple[int, ...], *, sureness: bool = False) -> Maps:
    """The label maps of the outputs, and on request how sure the answer is."""
    labels: dict[str, Labels] = {}
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


ONE_PIECE = 0.98
"""Share of a structure that its largest piece has at least, in every mask, for it to count as one piece."""


def largest_pieces(labels: Labels, indices: Iterable[int]) -> Labels:
    """A copy of a label map ``(I, J, K)`` in which each of these classes keeps its largest connected piece.

    What is dropped becomes background. Voxels that touch by a corner are connected.
    """
    kept = labels.copy()
    for index in indices:
        mask = labels == index
        kept[mask & ~_largest(mask)] = 0
    return kept


def one_piece(masks: Iterable[Labels], classes: int) -> tuple[int, ...]:
    """The classes 1 to ``classes`` - 1 that are one piece in every one of these label maps which shows them."""
    seen: set[int] = set()
    scattered: set[int] = set()
    for labels in masks:
        for index in range(1, classes):
            mask = labels == index
            if index in scattered or not mask.any():
                continue
            seen.add(index)
            if _largest(mask).sum() < ONE_PIECE * mask.sum():
                scattered.add(index)
    return tuple(sorted(seen - scattered))


def _largest(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    pieces, count = ndimage.label(mask, structure=np.ones([3] * mask.ndim))
    if count < 2:
        return mask
    return np.asarray(pieces == 1 + np.bincount(pieces.ravel())[1:].argmax())
