"""What the training loop knows about a method, and nothing more."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from torch import Tensor, nn

from mixseg.types import Batch


class Term(NamedTuple):
    """One summand of the loss. The loop minimises ``weight * value`` and logs both."""

    value: Tensor
    weight: float = 1.0


class Method(nn.Module, ABC):
    """Batches -> named loss terms; image -> named probabilities.

    ``outputs`` names what ``predict`` returns; the first one is the method's answer.
    """

    outputs: tuple[str, ...]

    @abstractmethod
    def forward(self, batch: Batch, progress: float) -> dict[str, Term]:
        """The terms of the loss on ``batch``; ``progress`` runs from 0 to 1 through training."""

    @abstractmethod
    def predict(self, image: Tensor) -> dict[str, Tensor]:
        """Class probabilities ``(B, C, *S)`` of each output for ``(B, channels, *S)`` images."""

    def after_step(self, progress: float) -> None:
        """Called after each optimiser step: the place for moving averages."""
        return None
