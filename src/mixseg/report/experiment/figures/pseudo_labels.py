"""Validation DSC through training: pseudo-labels, fixed or as a loss, against the entropy."""

from __future__ import annotations

from mixseg.report.experiment.figures.drawn import Drawn, by_row, seeds_of, setting
from mixseg.report.experiment.figures.validation import validation
from mixseg.report.experiment.results import Filled, Results
from mixseg.report.figures.seeds import gathered

TITLE = "Pseudo-labels against confidence, through training"
NAMES = {"kl-ent": "kl-ent (entropy)", "min-entropy": "kl-ent with the min-entropy (pseudo-labels as a loss)"}


def draw(results: Results) -> list[Drawn]:
    """For the first setting in which kl-ent and at least one kind of pseudo-label have runs."""
    for column, filled in results.columns.items():
        rows = [each for each in by_row(filled).values() if each.cell.row in NAMES or _proposed(each)]
        curves = [curve for each in rows if (curve := gathered(_name(each), each.runs))]
        if len(curves) > 1 and any(each.cell.row == "kl-ent" for each in rows):
            title = f"{TITLE}, {setting(results, column)}"
            caption = (
                "DSC of each method's answer on the validation scans during training: a fresh network on masks that a "
                "finished run proposed (proposals), the student whose own argmax is its target (min-entropy), and the "
                "student that is made confident by the entropy (kl-ent). The time to train the run that proposes is "
                f"not shown. {seeds_of(rows, shaded=True)}"
            )
            return [Drawn("pseudo-labels", title, validation(curves, TITLE), caption)]
    return []


def _proposed(each: Filled) -> bool:
    return each.runs[0].config.method.name == "proposals"


def _name(each: Filled) -> str:
    if not _proposed(each):
        return NAMES[each.cell.row]
    return "proposals of " + ", then of ".join(each.runs[0].facts.get("proposals", {}).get("methods", ["?"]))
