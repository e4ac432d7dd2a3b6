"""``mixseg report``: a page about runs or experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tyro import conf

from mixseg.cli.flags import File
from mixseg.core.errors import UsageError
from mixseg.core.messages import result, say


def report(
    runs: Annotated[tuple[Path, ...], conf.Positional, conf.arg(metavar="RUN [RUN ...]")],
    *,
    out: Annotated[File, conf.arg(aliases=["-o"])] = None,
    anyway: bool = False,
) -> None:
    """Write one self-contained HTML page about a run: curves, tables, best and worst scans, protocol, config.

    $ mixseg report run

    Of several runs it is what mixseg compare makes: scores with intervals, paired tests, curves and the same slices.

    $ mixseg report lower-bound kl-ent --out comparison.html

    Of an experiment it is its table beside the paper's, with all figures that its runs allow.

    $ mixseg report experiments/phantom/main

    Args:
        runs: A run folder, or several; the folder of an experiment, or one that holds several experiments.
        out: The page; if not given, report.html in the folder, or of several runs comparison.html beside the first.
        anyway: Compare runs of different data, or that were scored on different scans, all the same.
    """
    from mixseg.cli.compare import show_comparison
    from mixseg.report.run_report import write_report

    if not runs:
        raise UsageError("Name a run folder to report on: the --out of a training.", "no-runs")
    if len(runs) == 1:
        if not _report_experiments(runs[0], out):
            _written(write_report(runs[0], out))
    else:
        show_comparison(runs, out, anyway=anyway)


def _report_experiments(folder: Path, out: Path | None) -> bool:
    """Report on the experiment in ``folder``, or on all that it holds; False if there is none."""
    from mixseg.experiments.plan import experiments_in, is_experiment

    found = [folder] if is_experiment(folder) else experiments_in(folder)
    if out is not None and len(found) > 1:
        raise UsageError(
            f"{folder} holds {len(found)} experiments, each with its own page: name one, or no --out.",
            "flag-not-applicable",
            flag="--out",
            folder=folder,
        )
    if found:
        from mixseg.report.experiment.report import write_experiment
    for experiment in found:
        _written(write_experiment(experiment, out))
    return bool(found)


def _written(page: Path) -> None:
    result({"written": page})
    say(f"Written: {page}")
