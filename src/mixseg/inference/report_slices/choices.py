"""Which scans of a run are shown."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal, NamedTuple

import numpy as np

from mixseg.evaluation.scores import Row

Rank = Literal["worst", "best", "common"]

EACH = 3
"""How many of the worst scans are kept, of the best, and of those that no score chose."""
CHECKPOINT = "last"
"""The checkpoint whose labels are shown."""


class Choice(NamedTuple):
    """A scan to show."""

    part: str
    case: str
    rank: Rank
    dsc: float


def choose(rows: Iterable[Row], answer: str) -> list[Choice]:
    """The worst and the best scans by mean DSC over classes, the most extreme first; unscored ones are left out."""
    order = sorted((dsc, *key) for key, dsc in _scored(rows, answer).items())
    worst = min(EACH, (len(order) + 1) // 2)
    best = min(EACH, len(order) - worst)
    ranked: list[tuple[Rank, tuple[float, str, str]]] = [
        *(("worst", entry) for entry in order[:worst]),
        *(("best", entry) for entry in order[len(order) - best :][::-1]),
    ]
    return [Choice(part, case, rank, dsc) for rank, (dsc, part, case) in ranked]


def choose_common(rows: Iterable[Row], answer: str) -> list[Choice]:
    """Scans spread evenly over the test set by name (over the validation set where that alone was scored).

    Scores have no say, so every run on the same split keeps the same ones, and runs can be shown side by side.
    """
    scored = _scored(rows, answer)
    part = "test" if any(part == "test" for part, _ in scored) else next((part for part, _ in scored), "")
    cases = sorted(case for of, case in scored if of == part)
    places = dict.fromkeys((2 * number + 1) * len(cases) // (2 * EACH) for number in range(EACH if cases else 0))
    return [Choice(part, cases[place], "common", scored[part, cases[place]]) for place in places]


def _scored(rows: Iterable[Row], answer: str) -> dict[tuple[str, str], float]:
    """The mean DSC over classes of the answer, by part and case."""
    values: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if (row.checkpoint, row.branch) == (CHECKPOINT, answer) and not math.isnan(row.dsc):
            values.setdefault((row.part, row.case), []).append(row.dsc)
    return {key: float(np.mean(scores)) for key, scores in values.items()}
