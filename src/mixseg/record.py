"""The values of the loss and its terms between two looks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Any, Self

import torch
from torch import Tensor

from mixseg.methods import Number, Term


class Record:
    """The loss and its terms since the last look. They stay on the device, so that no step waits for the host."""

    def __init__(self) -> None:
        self.losses: list[Tensor] = []
        self.values: dict[str, list[Tensor]] = {}
        self.weights: dict[str, list[Number]] = {}

    def add(self, loss: Tensor, terms: Mapping[str, Term]) -> None:
        """One step."""
        self.losses.append(loss.detach())
        for name, term in terms.items():
            self.values.setdefault(name, []).append(term.value.detach())
            self.weights.setdefault(name, []).append(term.weight)

    def content(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"losses": self.losses, "values": self.values, "weights": self.weights}

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        """What ``content`` was made from."""
        record = cls()
        record.losses, record.values = content["losses"], content["values"]
        # Earlier checkpoints hold the last weight alone.
        record.weights = {name: kept if isinstance(kept, list) else [kept] for name, kept in content["weights"].items()}
        return record

    def take_means(self, mean: Callable[[Tensor], Tensor]) -> None:
        """Put the means over the processes that train together in place of the values of this one."""
        self.losses = list(mean(torch.stack(self.losses)))
        self.values = {name: list(mean(torch.stack(values))) for name, values in self.values.items()}

    def first_bad(self) -> int | None:
        """Which of the recorded steps had a loss that is not a finite number, if any."""
        bad = (~torch.stack(self.losses).isfinite()).nonzero()
        return int(bad[0]) if len(bad) else None

    def entry(self) -> dict[str, Any]:
        """Means of the loss, of each unweighted term and of its weight."""
        values = {name: float(torch.stack(values).mean()) for name, values in self.values.items()}
        weights = {name: fmean(map(float, weights)) for name, weights in self.weights.items()}
        return {"loss": float(torch.stack(self.losses).mean()), "terms": values, "weights": weights}
