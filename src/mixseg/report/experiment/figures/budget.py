"""DSC against what the partial labels cost: labelled voxels, and strokes of the annotator's pen."""

from __future__ import annotations

from mixseg.report.experiment.figures.drawn import Drawn, scored_on, seeds_of
from mixseg.report.experiment.results import Filled, Results
from mixseg.report.figures.against import Measure, Series, against

COSTS = {
    "voxels": "labelled voxels of the partly labelled scans",
    "strokes": "strokes (connected components) drawn in them",
}


def draw(results: Results) -> list[Drawn]:
    """For an experiment whose cells have a budget."""
    points = [each for each in results.filled if each.cell.budget and each.runs]
    measures = [
        Measure("DSC (%)", series, across=across)
        for cost, across in COSTS.items()
        if (series := _series(results, [each for each in points if cost in each.cell.budget], cost))
    ]
    if not measures:
        return []
    caption = (
        f"DSC of the student on the {scored_on(results)}, last checkpoint, against how much was drawn, for each kind "
        "of partial label; a point further to the right has more partly labelled scans. Left: voxels that carry a "
        "label, background included where the kind labels it. Right: connected components of the label maps, slice by "
        "slice: how often the pen is set down. The fully labelled scans are the same everywhere and are not counted. "
        f"{seeds_of(points, shaded=False)}"
    )
    title = f"{results.plan.title}, {results.plan.dataset}"
    figure = against(measures, on=scored_on(results), logarithmic=True, chosen=False)
    return [Drawn("budget", title, figure, caption)]


def _series(results: Results, points: list[Filled], cost: str) -> list[Series]:
    series = []
    for name in dict.fromkeys(each.cell.series for each in points):
        found = [
            (each.cell.budget[cost], each.score("dsc", part=results.part, output=each.answer))
            for each in points
            if each.cell.series == name
        ]
        known = sorted(((at, score) for at, score in found if score is not None), key=lambda point: point[0])
        means = [100 * score.mean for _, score in known]
        sds = [None if score.sd is None else 100 * score.sd for _, score in known]
        series.append(Series(name, [place for place, _ in known], means, sds))
    return series
