"""DSC and HD95 against what an experiment varies: rounds, the ratio of partly labelled scans, a weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mixseg.report.experiment.figures.drawn import Drawn, scored_on, seeds_of
from mixseg.report.experiment.results import Filled, Results
from mixseg.report.experiment.tables import heading
from mixseg.report.experiment.tables_paper import beside
from mixseg.report.figures.against import Measure, Series, against

MEASURES = {"DSC (%)": ("dsc", 100.0), "HD95 (voxels)": ("hd95_vox", 1.0)}
SPREAD_OUT = 20.0
"""Values whose largest is more than so many times the smallest are shown on a logarithmic axis."""


def draw(results: Results) -> list[Drawn]:
    """For an experiment whose cells lie on an axis; nothing with fewer than two points."""
    points = [each for each in results.filled if each.cell.x is not None and each.runs]
    places = sorted({each.cell.x for each in points if each.cell.x is not None})
    if len(places) < 2:
        return []
    measures = [
        Measure(what, _series(results, points, metric, factor), across=_across(results))
        for what, (metric, factor) in MEASURES.items()
    ]
    positive = [place for place in places if place > 0]
    figure = against(measures, on=scored_on(results), logarithmic=max(positive) > SPREAD_OUT * min(positive))
    title = f"{results.plan.title}, {results.plan.dataset}"
    return [Drawn("sweep", title, figure, _caption(results, points))]


def _series(results: Results, points: Sequence[Filled], metric: str, factor: float) -> list[Series]:
    """A curve per setting and series, ours, each followed by the paper's where it has values."""
    curves: dict[tuple[str, str], list[Filled]] = {}
    for each in points:
        curves.setdefault((each.cell.column, each.cell.series), []).append(each)
    several = len({column for column, _ in curves}) > 1
    series = []
    for (column, name), cells in curves.items():
        label = ", ".join(word for word in (name, heading(results.plan.columns, column) if several else "") if word)
        series.append(_ours(results, label, cells, metric, factor))
        theirs = [(each, beside(results.plan, each.cell, each.answer, metric)) for each in cells]
        known = [(each.cell.x or 0.0, value) for each, value in theirs if value is not None]
        if known:
            series.append(Series(f"paper{', ' + label if label else ''}", *map(list, zip(*known, strict=True))))
    return [replace(series[0], name="")] if len(series) == 1 else series


def _ours(results: Results, name: str, cells: Sequence[Filled], metric: str, factor: float) -> Series:
    found = [(each.cell.x or 0.0, each.score(metric, part=results.part, output=each.answer)) for each in cells]
    known = sorted(((at, score) for at, score in found if score is not None), key=lambda point: point[0])
    return Series(
        name or "mixseg",
        [place for place, _ in known],
        [factor * score.mean for _, score in known],
        [None if score.sd is None else factor * score.sd for _, score in known],
    )


def _across(results: Results) -> str:
    return {"rounds": "round (0: the run that proposed first)"}.get(results.plan.axis, results.plan.axis)


def _caption(results: Results, points: Sequence[Filled]) -> str:
    return (
        f"DSC and 95th percentile Hausdorff distance on the {scored_on(results)}, last checkpoint, mean over scans. "
        f"High DSC and low HD95 are good. {seeds_of(points, shaded=False)}"
    )
