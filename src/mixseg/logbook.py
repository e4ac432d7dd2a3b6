"""The log of a run: one JSON line a look, and the values of the loss terms between two looks."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mixseg.errors import MixsegError
from mixseg.files import explained, replacing
from mixseg.methods import Number, Term


class Log:
    """``log.jsonl``, and on request the same for TensorBoard.

    Lines from after ``keep_until`` belong to steps that are done again, and go.

    Attributes:
        last: The latest entry; empty before the first.
    """

    def __init__(self, path: Path, *, keep_until: int, tensorboard: bool = False) -> None:
        self.path = path
        self.board = _board(path.parent / "tensorboard", keep_until) if tensorboard else None
        kept = [entry for entry in read_log(path) if entry["step"] <= keep_until]
        with replacing(path) as temporary:
            temporary.write_text("".join(json.dumps(entry) + "\n" for entry in kept))
        self.last: Mapping[str, Any] = kept[-1] if kept else {}

    def write(self, entry: Mapping[str, Any]) -> None:
        """Append one line. What is not a number, such as a score without validation scans, becomes null."""
        with explained(self.path), self.path.open("a") as file:
            file.write(json.dumps(_strict(entry), allow_nan=False) + "\n")
        self.last = entry
        if self.board is not None:
            for tag, value in _numbers(entry):
                self.board.add_scalar(tag, value, entry["step"])
            self.board.flush()


def _board(folder: Path, keep_until: int) -> Any:  # noqa: ANN401 - TensorBoard's writer, which has no types
    """TensorBoard's writer; what it shows from after ``keep_until`` goes."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        wanted = "pip install 'mixseg[tensorboard]', or leave tensorboard off"
        raise MixsegError(f"TensorBoard is not installed: {wanted}.") from None
    return SummaryWriter(str(folder), purge_step=keep_until + 1)


def _strict(value: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
    """``value`` with null for nan and the infinities, which JSON does not know."""
    if isinstance(value, Mapping):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _numbers(entry: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, float]]:
    """Every number of an entry with its path: ``dsc/bottom/LV``."""
    for key, value in entry.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{above}{key}/")
        elif isinstance(value, list):
            yield from _numbers({str(index): item for index, item in enumerate(value)}, f"{above}{key}/")
        elif isinstance(value, int | float) and not isinstance(value, bool) and key != "step":
            yield f"{above}{key}", float(value)


def read_log(path: Path) -> list[dict[str, Any]]:
    """The entries of a log; a last line that a kill cut short is left out."""
    if not path.exists():
        return []
    entries = []
    for line in path.read_text().splitlines():
        try:
            entries.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return entries


class Record:
    """The loss and its terms since the last look. They stay on the device, so that no step waits for the host."""

    def __init__(self) -> None:
        self.losses: list[Tensor] = []
        self.values: dict[str, list[Tensor]] = {}
        self.weights: dict[str, Number] = {}

    def add(self, loss: Tensor, terms: Mapping[str, Term]) -> None:
        """One step."""
        self.losses.append(loss.detach())
        for name, term in terms.items():
            self.values.setdefault(name, []).append(term.value.detach())
            self.weights[name] = term.weight

    def take_means(self, mean: Callable[[Tensor], Tensor]) -> None:
        """Put the means over the processes that train together in place of the values of this one."""
        self.losses = list(mean(torch.stack(self.losses)))
        self.values = {name: list(mean(torch.stack(values))) for name, values in self.values.items()}

    def first_bad(self) -> int | None:
        """Which of the recorded steps had a loss that is not a finite number, if any."""
        bad = (~torch.stack(self.losses).isfinite()).nonzero()
        return int(bad[0]) if len(bad) else None

    def entry(self) -> dict[str, Any]:
        """Means of the loss and of each unweighted term, and the weights they had last."""
        values = {name: float(torch.stack(values).mean()) for name, values in self.values.items()}
        weights = {name: float(weight) for name, weight in self.weights.items()}
        return {"loss": float(torch.stack(self.losses).mean()), "terms": values, "weights": weights}
