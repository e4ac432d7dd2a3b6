"""Scores against a number: rounds of self-training, how many partly labelled scans there are, what was drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from mixseg.report.figures.style import INK, MARKERS, SOFT, legend, line, name_axes, panels, plain

FEW = 8
"""So many values along an axis are each named."""


@dataclass(frozen=True)
class Series:
    """One curve.

    Attributes:
        name: Said in the legend; "" for a curve that is alone.
        at: Where its points lie.
        means: The value of each point.
        sds: Its spread over seeds, None where there is one seed.
    """

    name: str
    at: Sequence[float]
    means: Sequence[float]
    sds: Sequence[float | None] = ()


@dataclass(frozen=True)
class Measure:
    """One panel.

    Attributes:
        what: What is measured, with its unit.
        series: Its curves.
        scans: Values of each scan at the points of the first curve: thin lines behind it.
        across: What is counted along the axis, with its unit.
    """

    what: str
    series: Sequence[Series]
    scans: Sequence[Sequence[float]] = ()
    across: str = ""


def against(measures: Sequence[Measure], *, on: str, logarithmic: bool = False, chosen: bool = True) -> Figure:
    """A panel per measure: means as labelled curves, bars for the spread over seeds, each scan as a thin line behind.

    Args:
        measures: The panels.
        on: Which scans were scored, for the titles.
        logarithmic: Whether the axes across are.
        chosen: Whether the places were chosen, and so are named along the axis where they are few.
    """
    figure, all_axes = panels(len(measures), columns=2, size=(5.2, 3.7))
    for axes, measure in zip(all_axes, measures, strict=True):
        for values in measure.scans:
            axes.plot(measure.series[0].at, values, color=SOFT, linewidth=0.7, alpha=0.35, zorder=1)
        for number, series in enumerate(measure.series):
            _draw(axes, series, number, labelled=len(measure.series) == 1)
        axes.margins(x=0.07, y=0.14)  # room for the numbers at the points
        _scale(axes, [place for series in measure.series for place in series.at], logarithmic, chosen)
        name_axes(axes, f"{plain(measure.what.split(' (')[0])}, {on}", measure.across, measure.what)
    legend(all_axes[0])
    return figure


def _draw(axes: Axes, series: Series, number: int, *, labelled: bool) -> None:
    drawing = {**line(number), "marker": MARKERS[number % len(MARKERS)], "markersize": 5, "zorder": 3}
    axes.plot(series.at, series.means, **drawing, label=plain(series.name) if series.name else None)
    if any(sd is not None for sd in series.sds):
        spread = [sd or 0.0 for sd in series.sds]
        axes.errorbar(series.at, series.means, yerr=spread, fmt="none", ecolor=drawing["color"], capsize=3, zorder=2)
    for place, mean in zip(series.at, series.means, strict=True) if labelled else ():
        axes.annotate(
            f"{mean:.1f}",
            (place, mean),
            xytext=(0, 7),
            textcoords="offset points",
            ha="center",
            fontsize=8.5,
            color=INK,
            bbox={"boxstyle": "round,pad=0.15", "color": "white", "alpha": 0.8},
        )


def _scale(axes: Axes, places: Sequence[float], logarithmic: bool, chosen: bool) -> None:
    known = sorted(set(places))
    positive = [place for place in known if place > 0]
    named = chosen and len(known) <= FEW
    if logarithmic and positive:
        # On a scale with 0, it lies one step to the left of the smallest.
        axes.set_xscale("log" if known[0] > 0 else "symlog", **({} if known[0] > 0 else {"linthresh": positive[0]}))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
    elif not named and all(float(place).is_integer() for place in known):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if named:
        axes.set_xticks(known)
