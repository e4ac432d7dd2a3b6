"""Self-training in a picture and a table: DSC and HD95 of every round."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from mixseg.core.files import replacing
from mixseg.evaluation.scores import mean_sd
from mixseg.report.figures.against import Measure, Series, against
from mixseg.report.figures.style import as_html
from mixseg.report.html import Html, page, paragraph, table
from mixseg.report.run_files import RunFiles, part_of_all
from mixseg.report.tables import COLUMNS, known_columns
from mixseg.report.wording import count, mean_entry, part_name

PICTURE = "rounds.png"
ROUND = "round (0: the run that proposed first)"
UNSCORED = (
    "No round was scored: all patients with full masks are trained on. Name some to validate on in a splits.json "
    "beside the scans, and train the first run anew."
)


def write_rounds(runs: Sequence[Path], out: Path) -> tuple[list[tuple[str, ...]], Path]:
    """Write ``rounds.png`` and ``report.html`` about runs that follow from each other, the first proposer first.

    Returns the table as lines of text, the head first, and the page. The first run may have been scored on fewer parts
    of the split than the rounds; it is then left out. Rounds that learn from all full masks are listed without scores.
    """
    found = list(enumerate(map(RunFiles.read, runs)))
    if not any(run.rows for _, run in found[1:]):
        names = [(str(number), run.config.method.name, str(run.config.training.seed)) for number, run in found]
        lines: list[tuple[str, ...]] = [("round", "method", "seed"), *names]
        return lines, _write_page(out, [("Rounds", _table(names, lines[0], UNSCORED))], len(names) - 1)
    part = part_of_all([run for _, run in found[1:]])
    found = [(number, run) for number, run in found if part in run.parts]
    entries = [mean_entry(run, part=part, branch=run.answer) for _, run in found]
    columns = known_columns([entry for entry in entries if entry])
    lines = [("round", "method", "seed", "scans", *columns)]
    for (number, run), entry in zip(found, entries, strict=True):
        assert entry is not None, "a run that was scored on a part has an entry of it"
        scores = (mean_sd(entry[metric], factor) for metric, factor in columns.values())
        lines.append((str(number), run.config.method.name, str(run.config.training.seed), str(entry["cases"]), *scores))
    return lines, _write(out, _figure(found, part, columns), lines, part)


def _figure(found: Sequence[tuple[int, RunFiles]], part: str, columns: dict[str, tuple[str, float]]) -> Figure:
    distance = "HD95 (mm)" if "HD95 (mm)" in columns else "HD95 (voxels)"
    return against([_measure(head, found, part) for head in ("DSC (%)", distance)], on=f"{part_name(part)} scans")


def _measure(head: str, found: Sequence[tuple[int, RunFiles]], part: str) -> Measure:
    metric, factor = COLUMNS[head]
    numbers, runs = [number for number, _ in found], [run for _, run in found]
    entries: list[Any] = [mean_entry(run, part=part, branch=run.answer) for run in runs]
    means = [math.nan if entry[metric]["mean"] is None else factor * entry[metric]["mean"] for entry in entries]
    scans: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        for row in run.chosen(part=part, branch=run.answer):
            scans.setdefault((row.case, row.label), []).append(factor * float(getattr(row, metric)))
    whole = [values for values in scans.values() if len(values) == len(runs)]
    return Measure(head, [Series("", numbers, means)], whole, across=ROUND)


def _write(out: Path, figure: Figure, lines: Sequence[Sequence[str]], part: str) -> Path:
    with replacing(out / PICTURE) as temporary:
        figure.savefig(temporary, format="png", dpi=130, metadata={"Software": None})
    head, *rows = lines
    rounds = sum(row[0] != "0" for row in rows)
    note = f"{part_name(part).capitalize()} scans, last checkpoint, mean ± standard deviation over scans. Each round "
    note += "is a fresh network, trained on the full masks and on what the round before proposes for the other scans."
    caption = "The mean over scans against the round; a thin line is one structure of one scan."
    return _write_page(
        out, [("Against the round", as_html(figure, caption)), ("Scores", _table(rows, head, note))], rounds
    )


def _write_page(out: Path, sections: Sequence[tuple[str, Html]], rounds: int) -> Path:
    with replacing(out / "report.html") as temporary:
        temporary.write_text(page(f"Self-training, {count(rounds, 'round')}", sections), encoding="utf-8")
    return out / "report.html"


def _table(rows: Sequence[Sequence[str]], head: Sequence[str], note: str) -> Html:
    return Html(table(rows, head) + paragraph(note, kind="soft"))
