"""How much a training step of a method holds at once, counted by a small one where its author has not said it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from functools import cache
from math import ceil, gcd, prod
from typing import Any

import torch
from torch import UntypedStorage
from torch.utils._python_dispatch import TorchDispatchMode

from mixseg.core.messages import log
from mixseg.core.types import Batch, Part
from mixseg.methods import METHODS
from mixseg.runs.build import build
from mixseg.runs.config import make_config

SIDES = {2: (64, 64), 3: (32, 32, 32)}
"""Of the images: large enough for the finest level to have nearly all of it."""
WIDTH = 16
ROWS_AT_LEAST = 6
NUMBER = 4
"""Bytes of a float."""
CLASSES = 4


class Held(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Inside, counts the bytes of all tensors that are there at once (``now``), and the most that there were."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.most = 0
        self.seen: weakref.WeakSet[UntypedStorage] = weakref.WeakSet()

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Any,  # noqa: ANN401 - as torch has it
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - whatever ``func`` returns
        made = func(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, list | tuple) else [made]:
            if isinstance(tensor, torch.Tensor) and tensor.untyped_storage() not in self.seen:
                self._take(tensor.untyped_storage())
        return made

    def _take(self, storage: UntypedStorage) -> None:
        self.seen.add(storage)
        weakref.finalize(storage, self._drop, storage.nbytes())
        self.now += storage.nbytes()
        self.most = max(self.most, self.now)

    def _drop(self, count: int) -> None:
        self.now -= count


def numbers_held(method: str, dims: int) -> int:
    """Numbers that a step of ``method`` holds, per voxel of an image and channel of the finest level."""
    declared = METHODS[method].held
    return declared[dims] if declared is not None else _counted(method, dims)


@cache
def _counted(method: str, dims: int) -> int:
    """By a small step; as much as the greediest method has, where that fails."""
    try:
        return count_held(method, dims)
    except Exception as error:  # a method of another package may do anything
        most = max(row.held[dims] for row in METHODS.values() if row.held is not None)
        log.warning(
            f"How much memory a step of {method} takes cannot be counted ({type(error).__name__}: {error}): as much as "
            f"that of the greediest method is planned for; give its row of METHODS a value for held."
        )
        return most


def count_held(method: str, dims: int) -> int:
    """The same, counted."""
    config = make_config(method=method, dims=dims, width=WIDTH, precision="fp32")
    sides, counts = SIDES[dims], tuple(config.training.batch.counts.values())
    least = sum(counts) // gcd(*counts)
    # Of each kind in proportion; several, beside which what a layer needs for a moment is little.
    rows = [count // gcd(*counts) * ceil(ROWS_AT_LEAST / least) for count in counts]
    made = build(config, channels=1, classes=CLASSES)
    batch = Batch(*(Part(torch.zeros(n, 1, *sides), *torch.zeros(2, n, *sides, dtype=torch.uint8)) for n in rows))
    with Held() as held:
        terms = made(batch, 0.5).values()
        torch.autograd.backward(torch.stack([term.weight * term.value for term in terms]).sum())
    most: int = held.most
    return round(most / (sum(rows) * prod(sides) * WIDTH * NUMBER))
