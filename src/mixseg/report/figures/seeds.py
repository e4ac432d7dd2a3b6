"""Curves through training with the seeds of each method taken together: their mean, and the range that they fill."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from mixseg.report.figures.style import MARKERS, line, plain
from mixseg.report.run_files import RunFiles

MARKS = 8
"""So many markers along a curve, so that curves are told apart in grey where they cross."""


@dataclass(frozen=True)
class Curve:
    """One method through training.

    Attributes:
        name: Said in the legend.
        steps: Where its runs were looked at.
        values: One row per seed, one value per step; nan is a gap.
    """

    name: str
    steps: Sequence[int]
    values: Sequence[Sequence[float]]

    @property
    def mean(self) -> NDArray[np.float64]:
        """Over seeds."""
        mean: NDArray[np.float64] = np.mean(np.asarray(self.values, float), axis=0)
        return mean


def gathered(name: str, runs: Sequence[RunFiles], value: str | None = None) -> Curve | None:
    """What the runs of one method logged at the steps that all of them have; None where there is nothing.

    Args:
        name: Of the method.
        runs: Its seeds.
        value: A term of the loss, unweighted; None is the validation DSC of the answer in percent.
    """
    found = [_logged(run, value) for run in runs]
    if not found or not all(found):
        return None
    steps = sorted(set.intersection(*(set(seen) for seen in found)))
    return Curve(name, steps, [[seen[step] for step in steps] for seen in found]) if steps else None


def _logged(run: RunFiles, value: str | None) -> dict[int, float]:
    """Step -> value. What was no number is null in the log, and nan here."""
    if value is None:
        return {entry["step"]: 100 * _number(entry["score"]) for entry in run.log if entry.get("dsc")}
    return {entry["step"]: _number(entry["terms"][value]) for entry in run.log if value in entry.get("terms", {})}


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def draw(axes: Axes, curve: Curve, number: int) -> None:
    """The mean over seeds as the ``number``-th curve of a panel, with the range from the lowest to the highest seed."""
    drawing: dict[str, Any] = line(number)
    every = max(1, len(curve.steps) // MARKS)
    # Markers of different curves do not lie on top of each other.
    marks: dict[str, Any] = {
        "marker": MARKERS[number % len(MARKERS)],
        "markersize": 5,
        "markevery": ((number * every) // 6, every),
    }
    axes.plot(curve.steps, curve.mean, **drawing, **marks, label=plain(curve.name))
    if len(curve.values) > 1:
        low, high = np.min(curve.values, axis=0), np.max(curve.values, axis=0)
        axes.fill_between(curve.steps, low, high, color=drawing["color"], alpha=0.15, linewidth=0)
