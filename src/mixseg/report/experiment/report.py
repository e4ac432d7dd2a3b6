"""``mixseg report`` of an experiment: ``report.html``, its tables and ``figures/*.png`` in its folder."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

from mixseg.core.files import replacing
from mixseg.report.csv_tables import csv_text
from mixseg.report.experiment.figures import FIGURES, Drawn
from mixseg.report.experiment.page import experiment_page, lead
from mixseg.report.experiment.results import read_results
from mixseg.report.experiment.tables import score_records, score_table
from mixseg.report.experiment.tables_complexity import complexity_table
from mixseg.report.experiment.tables_latex import latex
from mixseg.report.experiment.tables_markdown import markdown
from mixseg.report.experiment.tables_tests import paired_tests, records_of_tests, table_of_tests

FOLDER = "figures"
SHARP = 200
"""Dots per inch of the pictures that papers take."""


def write_experiment(folder: Path, out: Path | None = None) -> Path:
    """Write the page, the tables and the figures of the experiment in ``folder``, as far as it has come.

    Returns the page, ``out`` or the folder's ``report.html``. It is made from the files of the runs alone: no scans but
    those that they kept, no GPU.
    """
    results = read_results(folder)
    measured = results.plan.measured
    scores = complexity_table(results) if measured else score_table(results)
    tested = {} if measured else paired_tests(results)
    tests = table_of_tests(results, tested)
    drawn = {} if measured else {name: row.draw(results) for name, row in FIGURES.items()}
    label = f"{results.plan.dataset}-{results.plan.experiment}"
    tables = {label: scores, **({f"{label}-tests": tests} if tests else {})}
    _write(folder / "table.md", "\n".join(markdown(table) for table in tables.values()))
    _write(folder / "table.tex", "\n".join(latex(table, name) for name, table in tables.items()))
    if not measured:
        _write(folder / "table.csv", csv_text(score_records(results)))
        _write(folder / "tests.csv", csv_text(records_of_tests(tested)))
    _write_pictures(folder / FOLDER, [each for of_kind in drawn.values() for each in of_kind])
    out = out or folder / "report.html"
    _write(out, experiment_page(results, scores, tests, drawn, lead=lead(results, tested)))
    return out


def _write(path: Path, content: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(content, encoding="utf-8")


def _write_pictures(folder: Path, figures: Sequence[Drawn]) -> None:
    """The figures as files; those of an earlier report that are not made any more go."""
    for each in figures:
        with replacing(folder / f"{each.name}.png") as temporary, warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing from")
            each.figure.savefig(temporary, format="png", dpi=SHARP, metadata={"Software": None})
    made = {f"{each.name}.png" for each in figures}
    for old in folder.glob("*.png"):
        if old.name not in made:
            old.unlink()
