"""Where the seconds of a run go."""

from __future__ import annotations

import time
from collections.abc import Mapping

TRAINING = ("start", "compile", "steps", "looks", "checkpoints")
"""The phases of the training itself, which a run that goes on has had some of before."""


class Phases:
    """A clock with names: ``end("looks")`` gives the time since the last ``end`` to the looks. It adds up to the whole.

    The phases of a run: data (read and brought to the training grid), start (network, data and optimiser to the
    device), compile (the first steps, in which compilation and tuning happen; on a GPU alone), steps, looks (at the
    validation scans), checkpoints (what training waited for them), assess (label maps, scores, pictures).
    """

    def __init__(self) -> None:
        self.began = self.last = time.monotonic()
        self.seconds: dict[str, float] = {}

    def end(self, name: str) -> None:
        """The phase that ends now was ``name``."""
        now = time.monotonic()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self.last
        self.last = now

    def go_on_from(self, earlier: Mapping[str, float]) -> None:
        """Count what an earlier process spent on the same training."""
        for name, seconds in earlier.items():
            if name in TRAINING:
                self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    @property
    def trained(self) -> float:
        """Seconds of the training, those of earlier processes included."""
        return sum(self.seconds.get(name, 0.0) for name in TRAINING)

    def entry(self) -> dict[str, float]:
        """For finished.json and last.pt."""
        return {name: round(seconds, 2) for name, seconds in self.seconds.items()}
