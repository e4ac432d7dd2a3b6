"""Curves over the steps of training: loss terms, validation DSC, and the signs of a collapse."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from mixseg.methods.outputs import output_name
from mixseg.report.figures.style import SOFT, legend, line, logarithmic, mark_steps, name_axes, panels, plain
from mixseg.report.run_files import RunFiles

STEP = "training step"
FEW_CLASSES = 6
"""With more of them a panel for each says less than their mean."""


def losses(run: RunFiles) -> Figure | None:
    """Each term as it is, and as it counts in the loss, with their sum."""
    entries = [entry for entry in run.log if entry.get("terms")]
    if not entries:
        return None
    names = list(dict.fromkeys(name for entry in entries for name in entry["terms"]))
    figure, (plainly, weighed) = panels(2, columns=2, size=(5.4, 3.6))
    for number, name in enumerate(names):
        having = [entry for entry in entries if name in entry["terms"]]
        steps = [entry["step"] for entry in having]
        values = np.array([entry["terms"][name] for entry in having], float)
        weights = np.array([entry["weights"].get(name, 1.0) for entry in having])
        _curve(plainly, steps, values, number, name)
        _curve(weighed, steps, values * weights, number, f"{name}, weight {weights[-1]:g}")
    total = np.array([entry["loss"] for entry in entries], float)
    weighed.plot([entry["step"] for entry in entries], total, color="#888888", linewidth=4, alpha=0.5, label="sum")
    for axes, title in ((plainly, "Loss terms, unweighted"), (weighed, "Loss terms, weighted")):
        logarithmic(axes, [value for drawn in axes.lines for value in np.asarray(drawn.get_ydata())])
        name_axes(axes, title, STEP, "loss (mean since the last validation)")
        mark_steps(axes, [warned.step for warned in run.warned])
        legend(axes)
    return figure


def validation(run: RunFiles) -> Figure | None:
    """Validation DSC of every output, the mean over classes first and then each class."""
    entries = [entry for entry in run.log if entry.get("dsc")]
    if not entries:
        return None
    outputs = list(entries[0]["dsc"])
    classes = list(entries[0]["dsc"][outputs[0]])
    each = [[name] for name in classes] if 1 < len(classes) <= FEW_CLASSES else []
    wanted = [classes, *each]
    figure, all_axes = panels(len(wanted), columns=2, size=(5.4, 3.4) if len(wanted) > 1 else (8.0, 3.6))
    steps = [entry["step"] for entry in entries]
    for axes, names in zip(all_axes, wanted, strict=True):
        for number, branch in enumerate(outputs):
            values = [100 * _mean([entry["dsc"][branch][name] for name in names]) for entry in entries]
            _curve(axes, steps, values, number, output_name(branch, outputs))
        over = "mean of the classes" if len(names) > 1 else names[0]
        name_axes(axes, f"Validation DSC, {over}", STEP, "DSC (%)")
        axes.set_ylim(0, 100)
        mark_steps(axes, [warned.step for warned in run.warned])
    if run.best:
        all_axes[0].axvline(run.best.step, color=SOFT, linewidth=1, label=f"best checkpoint, step {run.best.step}")
    legend(all_axes[0])
    return figure


def watch(run: RunFiles) -> Figure | None:
    """What the guard watches on the partly labelled scans: class shares, entropy, distance from the teacher."""
    entries = [entry for entry in run.log if entry.get("watch")]
    if not entries:
        return None
    steps = [entry["step"] for entry in entries]
    seen = [entry["watch"] for entry in entries]
    apart = [entry.get("divergence", 0.0) for entry in seen]
    two = any(apart)
    figure, all_axes = panels(3 if two else 2, columns=3, size=(3.7, 3.4) if two else (5.4, 3.4))
    _shares(all_axes[0], run, steps)
    _curve(all_axes[1], steps, [entry["entropy"] for entry in seen], 0, "")
    name_axes(all_axes[1], "Entropy of the answer", STEP, "mean (nats per voxel)")
    if two:
        _curve(all_axes[2], steps, apart, 0, "")
        name_axes(all_axes[2], "Divergence from the teacher", STEP, "mean KL (nats per voxel)")
    for axes in all_axes[1:]:
        logarithmic(axes, [float(value) for drawn in axes.lines for value in np.asarray(drawn.get_ydata())])
    for axes in all_axes:
        mark_steps(axes, [warned.step for warned in run.warned])
    return figure


def _shares(axes: Axes, run: RunFiles, steps: Sequence[int]) -> None:
    seen = [entry["watch"] for entry in run.log if entry.get("watch")]
    for index in range(1, len(seen[0]["shares"])):
        name = run.classes[index] if index < len(run.classes) else f"class {index}"
        _curve(axes, steps, [100 * entry["shares"][index] for entry in seen], index - 1, name)
        if "expected" in seen[-1]:
            expected = 100 * seen[-1]["expected"][index]
            axes.axhline(expected, color=axes.lines[-1].get_color(), linewidth=5, alpha=0.25, zorder=1)
    axes.plot([], [], color="#999999", linewidth=5, alpha=0.5, label="share in the full masks")
    name_axes(axes, "Class shares", STEP, "voxels marked (%)")
    axes.set_ylim(bottom=0)
    legend(axes)


def overlaid(curves: Sequence[tuple[str, RunFiles]]) -> Figure | None:
    """Validation DSC of the answers of several runs; runs of one name (its seeds) share a style."""
    figure, (axes,) = panels(1, columns=1, size=(8.6, 4.0))
    names = list(dict.fromkeys(name for name, _ in curves))
    named: set[str] = set()
    for name, run in curves:
        entries = [entry for entry in run.log if entry.get("dsc")]
        values = [100 * _mean(list(next(iter(entry["dsc"].values())).values())) for entry in entries]
        label = "" if name in named else name
        named.add(name)
        _curve(axes, [entry["step"] for entry in entries], values, names.index(name), label)
    if not any(len(np.asarray(drawn.get_xdata())) for drawn in axes.lines):
        return None
    name_axes(axes, "Validation DSC of each method's answer", STEP, "DSC, mean of the classes (%)")
    axes.set_ylim(0, 100)
    legend(axes)
    return figure


def _curve(
    axes: Axes,
    steps: Sequence[int],
    values: Sequence[float | None] | np.ndarray[tuple[int], np.dtype[np.float64]],
    number: int,
    label: str,
) -> None:
    few: dict[str, Any] = {"marker": "o", "markersize": 3} if len(steps) < 15 else {}
    # What was no number is null in the log, and a gap in the curve.
    axes.plot(steps, np.array(values, float), **line(number), **few, label=plain(label) if label else None)
    axes.xaxis.set_major_locator(MaxNLocator("auto", steps=(1, 2, 5, 10), integer=True, min_n_ticks=1))  # no half steps


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if value is not None and math.isfinite(value)]
    return float(np.mean(known)) if known else math.nan
