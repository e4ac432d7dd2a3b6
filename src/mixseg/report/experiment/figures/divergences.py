"""Validation DSC through training for each divergence between student and teacher."""

from __future__ import annotations

from mixseg.report.experiment.figures.drawn import Drawn, by_row, seeds_of, setting
from mixseg.report.experiment.figures.validation import validation
from mixseg.report.experiment.results import Results
from mixseg.report.figures.seeds import gathered

TITLE = "Divergences, through training"


def draw(results: Results) -> list[Drawn]:
    """For the first setting whose rows differ in their divergence."""
    for column, filled in results.columns.items():
        rows = [each for each in by_row(filled).values() if each.runs[0].config.method.name == "kl-ent"]
        curves = [curve for each in rows if (curve := gathered(each.cell.row, each.runs))]
        if len({each.runs[0].config.method.divergence for each in rows}) > 1 and len(curves) > 1:
            title = f"{TITLE}, {setting(results, column)}"
            caption = (
                "DSC of the student of kl-ent on the validation scans during training, for each divergence that holds "
                "it to its teacher. Their weight is the same, although their sizes are not. "
                f"{seeds_of(rows, shaded=True)}"
            )
            return [Drawn("divergences", title, validation(curves, TITLE), caption)]
    return []
