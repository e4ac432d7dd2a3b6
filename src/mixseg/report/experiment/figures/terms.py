"""The divergence and the entropy through training, unweighted: how far apart in size they are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from mixseg.report.experiment.figures.drawn import Drawn, by_row, seeds_of, setting
from mixseg.report.experiment.results import Results
from mixseg.report.figures import seeds
from mixseg.report.figures.curves import STEP
from mixseg.report.figures.seeds import Curve, gathered
from mixseg.report.figures.style import INK, SOFT, legend, name_axes, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHOD = "kl-ent"
NAMED = [digit * 10.0**power for power in range(-3, 7) for digit in (1, 3)]
"""Values that are written along the axis of the ratio."""
LAST = 10
"""The mean over the last tenth of the validations is what the caption quotes."""


def draw(results: Results) -> list[Drawn]:
    """For the first setting that has runs of kl-ent."""
    for column, filled in results.columns.items():
        found = by_row(filled).get(METHOD)
        distill = found and gathered("divergence from the teacher", found.runs, "distill")
        entropy = found and gathered("entropy of the student", found.runs, "entropy")
        if found and distill and entropy:
            title = f"The two terms that teach the student, {setting(results, column)}"
            caption = _caption(distill, entropy, found.runs[0].config.method.divergence, seeds_of([found], shaded=True))
            return [Drawn("terms", title, panel(distill, entropy), caption)]
    return []


def panel(distill: Curve, entropy: Curve) -> Figure:
    """Both terms on one logarithmic axis, and their ratio."""
    figure, (both, ratio) = panels(2, columns=2, size=(5.2, 3.7))
    for number, curve in enumerate((distill, entropy)):
        seeds.draw(both, curve, number)
    both.set_yscale("log")
    name_axes(both, "Loss terms before they are weighted", STEP, "mean (nats per voxel)")
    legend(both)
    seeds.draw(ratio, Curve("entropy / divergence", distill.steps, _ratio(distill, entropy)), 0)
    ratio.set_yscale("log")
    ratio.yaxis.set_major_formatter("{x:g}")
    ratio.yaxis.set_minor_formatter("")
    ratio.axhline(100, color=SOFT, linewidth=1, linestyle=(0, (2, 2)))
    place = {"xy": (0.98, 100), "xycoords": ("axes fraction", "data"), "ha": "right", "va": "bottom"}
    ratio.annotate("two orders of magnitude", **place, fontsize=8.5, color=INK)  # type: ignore[arg-type]
    low, high = ratio.get_ylim()
    ratio.set_yticks([value for value in NAMED if low <= value <= high])
    name_axes(ratio, "How many times larger the entropy is", STEP, "entropy / divergence")
    return figure


def _ratio(distill: Curve, entropy: Curve) -> list[list[float]]:
    pairs = zip(distill.values, entropy.values, strict=True)
    return [[e / d if d else math.nan for d, e in zip(low, high, strict=True)] for low, high in pairs]


def _caption(distill: Curve, entropy: Curve, divergence: str, of: str) -> str:
    end = max(1, len(distill.steps) // LAST)
    d, e = (float(np.nanmean(curve.mean[-end:])) for curve in (distill, entropy))
    return (
        f"Left: the divergence ({divergence}) of the student from its teacher on the fully labelled scans, softmax "
        "over softmax, and the entropy of the student on the partly labelled ones; means between two validations, "
        "before their weights. Right: their ratio. Over the last tenth of training "
        f"the entropy is {e:.2g} and the divergence "
        f"{d:.2g} nats per voxel, a factor of {e / d:.0f}; the paper speaks of two orders of magnitude. {of}"
    )
