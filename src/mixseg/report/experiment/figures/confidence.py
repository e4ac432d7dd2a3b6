"""Entropy and min-entropy of two classes, and how hard each pushes an undecided voxel. From formulas, not from runs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mixseg.report.experiment.figures.drawn import Drawn
from mixseg.report.experiment.results import Results
from mixseg.report.figures.style import legend, line, name_axes, panels

Values = NDArray[np.float64]
FAR = 7.0
"""The logits shown, from -FAR to FAR."""


def entropy(p: Values) -> Values:
    """``-p ln p - (1 - p) ln(1 - p)``, in nats; 0 at both ends."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(-p * np.log(p)) + np.nan_to_num(-(1 - p) * np.log1p(-p))


def min_entropy(p: Values) -> Values:
    """``-ln max(p, 1 - p)``, in nats."""
    return -np.log(np.maximum(p, 1 - p))


def entropy_slope(logit: Values) -> Values:
    """Of the entropy in the logit ``z = ln(p / (1 - p))``: ``-z p (1 - p)``."""
    p = 1 / (1 + np.exp(-logit))
    return -logit * p * (1 - p)


def min_entropy_slope(logit: Values) -> Values:
    """Of the min-entropy: ``p`` below 0 and ``p - 1`` above; nan at 0, where it jumps."""
    p = 1 / (1 + np.exp(-logit))
    return np.where(logit == 0, np.nan, np.where(logit < 0, p, p - 1))


def draw(_: Results) -> list[Drawn]:
    """The same for every experiment."""
    figure, (values, slopes) = panels(2, columns=2, size=(5.2, 3.8))
    p, positive = np.linspace(0, 1, 401), np.linspace(0, FAR, 401)
    logits = np.concatenate([-positive[:0:-1], positive])  # 0 is one of them
    for number, (name, of, slope) in enumerate(
        (("entropy", entropy, entropy_slope), ("min-entropy", min_entropy, min_entropy_slope))
    ):
        values.plot(p, of(p), **line(number), label=name)
        slopes.plot(logits, slope(logits), **line(number), label=name)
    name_axes(values, "How undecided a voxel is", "probability p of one of two classes", "nats")
    name_axes(
        slopes, "How hard it is pushed", "logit z = ln(p / (1 - p)) of that class", "derivative in the logit (nats)"
    )
    slopes.axhline(0, color="#9aa4af", linewidth=0.8, zorder=1)
    above = slopes.secondary_xaxis("top")
    shown = np.array([0.01, 0.1, 0.5, 0.9, 0.99])
    above.set_xticks(np.log(shown / (1 - shown)), [f"p = {value:g}" for value in shown])
    above.tick_params(labelsize=8)
    for axes in (values, slopes):
        # Room for the second axis, on both sides alike.
        axes.set_title(axes.get_title(loc="left"), loc="left", fontsize=10.5, fontweight="bold", pad=22)
        legend(axes)
    caption = (
        "Left: the Shannon entropy of a voxel with two classes, and its min-entropy, which is the cross-entropy "
        "against the voxel's own pseudo-label; both are smallest where the voxel is decided. Right: their derivatives "
        "in the logit; training moves a logit against them. An undecided voxel (p = 0.5) is left alone by the entropy, "
        "so that the other terms can still turn it. The min-entropy jumps there from 0.5 to -0.5: it pushes hardest "
        "where the voxel is least sure, towards whatever class is ahead. Drawn from the formulas; no run is needed."
    )
    return [Drawn("confidence", "Entropy and min-entropy", figure, caption)]
