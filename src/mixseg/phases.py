"""Where the seconds of a run go."""

from __future__ import annotations

import time


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

    def entry(self) -> dict[str, float]:
        """For finished.json."""
        return {name: round(seconds, 2) for name, seconds in self.seconds.items()}
