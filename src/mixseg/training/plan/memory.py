"""About what a training step takes, before it is tried: a rule of thumb with a counted number for each method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, prod
from typing import Any

FIXED = 2**30
"""Bytes for weights, those of moving averages too, their optimiser and the libraries."""
USABLE = 0.8
"""The share of the memory that a plan fills at most."""


@dataclass(frozen=True)
class Means:
    """What there is to train with.

    Attributes:
        memory: Bytes, of one device.
        where: What has them, in words.
        channels: Of the finest level of the network.
        held: Numbers that a step of the method holds for each of them and each voxel of an image.
        halvings: How often the network halves an axis.
        number: Bytes that a number takes.
        devices: How many share a batch.
    """

    memory: float
    where: str
    channels: int
    held: float
    halvings: int = 4
    number: int = 4
    devices: int = 1

    @property
    def multiple(self) -> int:
        """What every side must be a multiple of."""
        return 1 << self.halvings

    def bytes(self, rows: int, grid: Sequence[int]) -> float:
        """About what a training step on ``rows`` images takes on each device."""
        return FIXED + ceil(rows / self.devices) * prod(grid) * self.held * self.channels * self.number

    def fits(self, rows: int, grid: Sequence[int]) -> bool:
        """Whether that is little enough."""
        return self.bytes(rows, grid) <= USABLE * self.memory


def fitting(
    grid: Sequence[int], given: Mapping[str, Any], defaults: Mapping[str, Any], means: Means
) -> tuple[dict[str, Any], str]:
    """``batch``, halved until it fits unless it is given, where that changes it; and a sentence about the memory."""
    told = {**defaults["batch"], **given.get("batch", {})}
    asked: dict[str, int] = {kind: rows for kind, rows in told.items() if rows is not None}
    batch = asked
    while "batch" not in given and not means.fits(sum(batch.values()), grid) and max(batch.values()) > 1:
        batch = {kind: (rows + 1) // 2 for kind, rows in batch.items()}
    rows = sum(batch.values())
    sentence = f"A step on {rows} of them takes about {means.bytes(rows, grid) / 1e9:.1f} GB"
    sentence += f" of the {means.memory / 1e9:.0f} GB of {means.where}"
    if batch != asked:
        sentence += f"; {sum(asked.values())}, as usual, would not fit"
    if not means.fits(rows, grid):
        sentence += ": it may not fit; choose fewer or smaller ones, or a smaller width"
    return ({} if batch == asked else {"batch": batch}), f"{sentence}."
