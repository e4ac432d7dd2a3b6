"""How training went, a row per run: validation DSC, unweighted loss terms, what is marked on partly labelled scans."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes

from mixseg.core.files import replacing
from mixseg.methods.outputs import output_name
from mixseg.report.figures.style import INK, line, logarithmic, mark_steps, name_axes, panels
from mixseg.report.run_files import RunFiles
from mixseg.report.wording import title
from mixseg.runs.config import settings_of
from results_groups import changes

STEP = "training step"


def draw(runs: Sequence[Path], out: Path) -> None:
    """Write the picture; runs that see no partly labelled scan leave their last panel empty."""
    figure, axes = panels(3 * len(runs), columns=3, size=(4.3, 2.8))
    for number, path in enumerate(runs):
        run = RunFiles.read(path)
        dsc, terms, shares = axes[3 * number : 3 * number + 3]
        _dsc(dsc, run)
        _terms(terms, run)
        _shares(shares, run)
        for each in (dsc, terms, shares):
            mark_steps(each, [warned.step for warned in run.warned])
            each.set_xlim(0, run.config.training.steps)
    with replacing(out) as temporary:
        figure.savefig(temporary, dpi=90)


def _dsc(axes: Axes, run: RunFiles) -> None:
    looks = [entry for entry in run.log if entry.get("dsc")]
    for number, branch in enumerate(name for name in run.branches if name != "ensemble"):
        values = [100 * sum(look["dsc"][branch].values()) / len(look["dsc"][branch]) for look in looks]
        axes.plot([look["step"] for look in looks], values, **line(number), label=output_name(branch, run.branches))
    axes.set_ylim(0, 100)
    named = ", ".join((title(run), *changes(settings_of(run.config))))
    name_axes(axes, named, STEP, "validation DSC (%)")
    _legend(axes)


def _terms(axes: Axes, run: RunFiles) -> None:
    names = dict.fromkeys(name for entry in run.log for name in entry["terms"])
    values = []
    for number, name in enumerate(names):
        having = [entry for entry in run.log if name in entry["terms"]]
        drawn = [entry["terms"][name] for entry in having]
        values += drawn
        axes.plot([entry["step"] for entry in having], drawn, **line(number), label=name)
    logarithmic(axes, values)
    name_axes(axes, "loss terms, unweighted", STEP, "nats per voxel")
    _legend(axes)


def _shares(axes: Axes, run: RunFiles) -> None:
    looks = [entry for entry in run.log if entry.get("watch")]
    name_axes(axes, "marked on the partly labelled scans", STEP, "foreground (% of voxels)")
    if not looks:
        axes.text(0.5, 0.5, "sees none", transform=axes.transAxes, ha="center", color=INK)
        return
    axes.plot(
        [look["step"] for look in looks],
        [100 * sum(look["watch"]["shares"][1:]) for look in looks],
        **line(0),
        label=output_name(run.answer, run.branches),
    )
    expected = 100 * sum(looks[-1]["watch"]["expected"][1:])
    axes.axhline(expected, color="#999999", linewidth=5, alpha=0.5, label="in the full masks", zorder=1)
    axes.set_ylim(bottom=0)
    _legend(axes)


def _legend(axes: Axes) -> None:
    axes.legend(fontsize=8, ncols=2, frameon=True, framealpha=0.85, edgecolor="none", labelcolor=INK, handlelength=3)
