"""The log of a run: a JSON line at each validation, the losses since the last one, and where the seconds go."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any, Self, TypedDict

import torch
from torch import Tensor

from mixseg.core.files import explained, replacing, strict
from mixseg.core.schema import Content
from mixseg.core.text_files import read_json_lines
from mixseg.core.types import renamed
from mixseg.methods import Number, Term

OnEntry = Callable[[Mapping[str, Any]], None]
"""Is given each entry after it was written."""


Numbers = dict[str, float | None]


class _Step(TypedDict):
    step: int


class Entry(_Step, total=False):
    """What readers of a line rely on; earlier versions wrote fewer of these."""

    loss: float | None
    lr: float | None
    seconds: float | None
    score: float | None
    terms: Numbers
    weights: Numbers
    dsc: dict[str, Numbers] | None
    watch: dict[str, Any] | None
    warning: str | None
    message: str | None
    labelled: float


class Log:
    """``log.jsonl``, and whoever else wants each of its entries.

    Lines from after ``keep_until`` belong to steps that are done again, and go.

    Attributes:
        last: The latest entry; empty before the first.
    """

    def __init__(self, path: Path, *, keep_until: int, listeners: Iterable[OnEntry] = ()) -> None:
        self.path = path
        self.listeners = tuple(listeners)
        kept = [entry for entry in read_log(path) if entry["step"] <= keep_until]
        with replacing(path) as temporary:
            temporary.write_text("".join(json.dumps(entry) + "\n" for entry in kept))
        self.last: Mapping[str, Any] = kept[-1] if kept else {}

    def write(self, entry: Mapping[str, Any]) -> None:
        """Append one line. What is not a number, such as a score without validation scans, becomes null."""
        with explained(self.path), self.path.open("a") as file:
            file.write(json.dumps(strict(entry), allow_nan=False) + "\n")
        self.last = entry
        for listener in self.listeners:
            listener(entry)


def read_log(path: Path) -> list[Content]:
    """The entries of a log; a last line that a kill cut short is left out."""
    return [_with_new_names(entry) for entry in read_json_lines(path, Entry)]


def _with_new_names(entry: Content) -> Content:
    """A line of an earlier version with today's names of its terms."""
    terms = {key: renamed(entry[key]) for key in ("terms", "weights") if key in entry}
    return Content.of({**renamed(entry, {"told": "message"}), **terms}, entry.path)


class Record:
    """The loss and its terms since the last validation. They stay on the device, so that no step waits for the host."""

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
        record.losses, record.values = content["losses"], renamed(content["values"])
        weights = renamed(content["weights"])
        # Earlier checkpoints hold the last weight alone.
        record.weights = {name: kept if isinstance(kept, list) else [kept] for name, kept in weights.items()}
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


TRAINING = ("start", "compile", "steps", "validation", "checkpoints")
"""The phases of the training itself, which a run that goes on has had some of before."""


class Phases:
    """A clock with names: ``end("steps")`` gives the time since the last ``end`` to the steps. It adds up to the whole.

    The phases of a run: data (read and brought to the training grid), start (network, data and optimiser to the
    device), compile (the first steps, in which compilation and tuning happen; on a GPU alone), steps, validation,
    checkpoints (what training waited for them), assess (label maps, scores, pictures).
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
        for name, seconds in renamed(earlier).items():
            if name in TRAINING:
                self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    @property
    def trained(self) -> float:
        """Seconds of the training, those of earlier processes included."""
        return sum(self.seconds.get(name, 0.0) for name in TRAINING)

    def entry(self) -> dict[str, float]:
        """For finished.json and last.pt."""
        return {name: round(seconds, 2) for name, seconds in self.seconds.items()}
