"""The figures of experiments by name, in the order of the page. To add one: a file with ``draw``, and a row here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mixseg.report.experiment.figures import (
    budget,
    confidence,
    divergences,
    failures,
    probabilities,
    pseudo_labels,
    qualitative,
    sweep,
    terms,
    upper_bound,
)
from mixseg.report.experiment.figures.drawn import Drawn
from mixseg.report.experiment.results import Results

__all__ = ["FIGURES", "Drawn", "FigureRow"]


@dataclass(frozen=True)
class FigureRow:
    """One kind of figure.

    Attributes:
        draw: Gives the figures that the runs of an experiment allow: none, one, or one for each setting.
        about: What it shows, as one clause.
        needs: Of which rows it needs finished runs, as one clause.
        made_by: The experiments that it belongs to.
    """

    draw: Callable[[Results], list[Drawn]]
    about: str
    needs: str
    made_by: tuple[str, ...]


SWEEPS = (
    "self-training",
    "partial-ratio",
    "kl-ent-distill-weight",
    "kl-ent-weak-weight",
    "single-weak-weight",
    "kl-distill-weight",
    "single-entropy-weight",
    "ua-mt-consistency-weight",
)
SIDE_BY_SIDE = ("main", "semi-supervised", "proposals", "divergence", "normalisation")

FIGURES: dict[str, FigureRow] = {
    "sweep": FigureRow(sweep.draw, "DSC and HD95 against what is varied", "two values of it", SWEEPS),
    "budget": FigureRow(
        budget.draw, "DSC against labelled voxels and strokes", "one kind of partial label", ("annotation-budget",)
    ),
    "qualitative": FigureRow(qualitative.draw, "the same scans as each method marks them", "two methods", SIDE_BY_SIDE),
    "upper-bound": FigureRow(
        upper_bound.draw, "the student beside the upper bound of its set", "kl-ent and upper-bound-set", ("main",)
    ),
    "probabilities": FigureRow(probabilities.draw, "probability maps of kl and kl-ent", "kl and kl-ent", ("main",)),
    "failures": FigureRow(
        failures.draw,
        "failures among proposed masks, round by round",
        "proposals, with the prepared scans beside the runs",
        ("self-training", "proposals"),
    ),
    "pseudo-labels": FigureRow(
        pseudo_labels.draw,
        "validation DSC through training of proposals, of the min-entropy and of kl-ent",
        "kl-ent and one kind of pseudo-label",
        ("proposals",),
    ),
    "divergences": FigureRow(
        divergences.draw, "validation DSC through training of each divergence", "two divergences", ("divergence",)
    ),
    "terms": FigureRow(
        terms.draw,
        "the unweighted divergence and entropy through training",
        "kl-ent",
        ("main", "proposals", "semi-supervised"),
    ),
    "confidence": FigureRow(
        confidence.draw, "entropy and min-entropy with their derivatives", "nothing", ("main", "proposals")
    ),
}
