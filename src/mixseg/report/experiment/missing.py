"""What an experiment's page cannot show, why, and the command that makes it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

from mixseg.experiments.paper import EXPERIMENTS
from mixseg.experiments.planner import QUICK_SEED, QUICK_SET, SEEDS, Request
from mixseg.experiments.protocol import BUILT_IN, made_in
from mixseg.report.experiment.figures import FIGURES
from mixseg.report.experiment.results import Results
from mixseg.report.html import Html, bullets, escaped, joined, paragraph, preformatted, table


def command(results: Results, experiment: str | None = None) -> str:
    """The line that runs this experiment, or goes on with it; or another one in the same folder, on the same scans."""
    plan, out = results.plan, results.folder.parent
    # A folder that `mixseg simulate` wrote is of the same kind, but not made here.
    built_in = plan.dataset == BUILT_IN and Path(plan.scans).resolve() == made_in(out).resolve()
    words = ["mixseg", "experiment", *([experiment] if experiment else plan.words or [plan.experiment])]
    words += ["--dataset", BUILT_IN if built_in else plan.scans]
    words += ["--quick"] if plan.quick else []
    if plan.preset != Request(quick=plan.quick).preset_for(plan.dataset):
        words += ["--preset", plan.preset]
    if plan.seeds != ((QUICK_SEED,) if plan.quick else SEEDS):
        words += ["--seeds", *map(str, plan.seeds)]
    if experiment is None:
        words += ["--sets", *map(str, sets)] if (sets := _other_sets(results)) else []
        words += ["--methods", *rows] if (rows := _some_rows(results)) else []
    for key, value in plan.settings.items():
        words += ["--set", f"{key}={json.dumps(value)}"]
    words += ["--split", plan.split] if plan.split else []
    words += ["--test"] if plan.test and not built_in else []
    for key, value in plan.labels.items():
        values = [] if value is True else value if isinstance(value, list) else [value]
        words += [f"--{key.replace('_', '-')}", *map(str, values)]
    return shlex.join([*words, "--out", str(out)])


def _other_sets(results: Results) -> list[int]:
    """The N of Set-N, where they are not those that the experiment has by itself."""
    columns = [int(column.removeprefix("set-")) for column in results.columns if column.startswith("set-")]
    # Where columns are no settings, the runs know theirs.
    found = list(dict.fromkeys([*columns, *(n for run in results.plan.runs if (n := run.settings.get("set")))]))
    known = EXPERIMENTS.get(results.plan.experiment)
    usual = [QUICK_SET] if results.plan.quick else list(known.sets) if known else found
    if results.plan.words:
        usual = []  # what a file says may have been overruled
    return [] if found == usual else found


def _some_rows(results: Results) -> list[str]:
    """The labels of the rows, where they are not all that the experiment has."""
    found = list(dict.fromkeys(cell.row for cell in results.plan.cells))
    known = EXPERIMENTS.get(results.plan.experiment)
    return found if known and {row.label for row in known.rows} - set(found) else []


def missing_runs(results: Results) -> Html:
    """The cells that cannot be filled, and every run that is not finished, with the reason."""
    lines = [(gap.name, gap.seed, gap.why, gap.sentence or "-") for gap in results.gaps]
    never = [
        f"{each.cell.row}, {each.cell.column}: {each.cell.missing}" for each in results.filled if each.cell.missing
    ]
    parts = []
    if lines:
        parts += [table(lines, ("run", "seed", "why", "more")), paragraph("They are made by")]
        parts.append(preformatted(command(results)))
    if never:
        parts += [paragraph("Cells that this data cannot fill:"), bullets(never)]
    return joined(parts)


def missing_figures(results: Results, names: Sequence[str]) -> Html:
    """Each kind of figure that was not drawn: what it shows, why it is not there, and the command that makes it."""
    lines = []
    for name in names:
        row = FIGURES[name]
        own = results.plan.experiment in row.made_by
        why = f"needs finished runs of {row.needs}" if own else f"belongs to {row.made_by[0]}"
        line = command(results, None if own else row.made_by[0])
        lines.append((row.about, why, Html(f"<code>{escaped(line)}</code>")))
    return table(lines, ("figure", "why it is not here", "what makes it")) if lines else Html("")
