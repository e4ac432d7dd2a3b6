"""What ``mixseg`` offers Python beside arrays: evaluations, comparisons, experiments and pages, as objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixseg.core.errors import SomeFailedError
from mixseg.core.progress import Progress
from mixseg.core.types import Device
from mixseg.evaluation import evaluate as evaluation
from mixseg.evaluation.frames import frame, score_frame
from mixseg.experiments.comparison import Grid, from_grid, read_comparison
from mixseg.experiments.executors.base import Resources
from mixseg.experiments.plan import experiments_in, is_experiment
from mixseg.experiments.planner import Request
from mixseg.experiments.run_experiment import run_experiment
from mixseg.experiments.scheduler import Status
from mixseg.report import paired
from mixseg.report.comparison import Comparison, compare_runs, write_comparison
from mixseg.report.contenders import score_records
from mixseg.report.experiment.page import lead, table_html
from mixseg.report.experiment.report import write_experiment
from mixseg.report.experiment.results import read_results
from mixseg.report.experiment.tables import score_records as cell_records
from mixseg.report.experiment.tables import score_table
from mixseg.report.experiment.tables_tests import paired_tests, records_of_tests, table_of_tests
from mixseg.report.html import joined, paragraph
from mixseg.report.run_report import write_report as write_run_report
from mixseg.runs.config import flat
from mixseg.runs.typed_json import merged

if TYPE_CHECKING:
    from pandas import DataFrame

Paths = Path | str | Sequence[Path | str]


class Scored(evaluation.Evaluation):
    """The scores of a folder of predictions, with ``scores`` as a DataFrame; in a notebook it shows its means."""

    @property
    def scores(self) -> DataFrame:
        """A line for each case and class: what metrics.csv holds."""
        return score_frame(self.rows)

    def _repr_html_(self) -> str:
        from mixseg.report.html import table

        head, *lines = self.table()
        return joined([table(lines, head), *map(paragraph, self.remarks())])


def evaluate(
    predictions: Path | str,
    references: Path | str,
    *,
    out: Path | str | None = None,
    **more: Any,  # noqa: ANN401
) -> Scored:
    """Score label maps against reference masks of the same names, as ``mixseg evaluate`` does.

    Args:
        predictions: A folder of label maps, or a run folder.
        references: A folder of masks with the same names.
        out: Where metrics.csv and summary.json are written, if they are to be.
        more: As for ``mixseg.evaluation.evaluate.evaluate``.
    """
    found = evaluation.evaluate(Path(predictions), Path(references), **more)
    scored = Scored(found.scored, found.missing, found.unmatched, found.meaning)
    if out is not None:
        scored.write(Path(out))
    return scored


class Compared:
    """Runs side by side: ``verdict``, ``scores`` and ``tests``; in a notebook its tables.

    Args:
        found: What was found.
    """

    def __init__(self, found: Comparison) -> None:
        self.found = found

    def __repr__(self) -> str:
        return f"Compared({self.verdict!r})"

    def _repr_html_(self) -> str:
        return joined([paragraph(self.verdict), *map(table_html, self.found.tables)])

    @property
    def verdict(self) -> str:
        """Who is ahead, by how much, on whom; that nobody is, where the interval holds 0."""
        return self.found.verdict

    @cached_property
    def scores(self) -> DataFrame:
        """A line for each method, output, class and score: mean and 95 % interval, patients and seeds."""
        return frame(score_records(self.found.contenders, self.found.part))

    @cached_property
    def tests(self) -> DataFrame:
        """A line for each pair and score: difference, interval, effect, p, and p after Holm."""
        return frame(paired.records(self.found.tests))

    def write(self, out: Path | str) -> list[Path]:
        """Write the page ``out``, and beside it its tables in Markdown, LaTeX and CSV."""
        return write_comparison(self.found, Path(out))


def compare(*runs: Path | str, anyway: bool = False) -> Compared:
    """Finished runs side by side, as ``mixseg compare`` shows them; those that differ in their seeds are one method.

    Args:
        runs: Run folders; the first one is what others are held to.
        anyway: Compare runs of different data, or scored on different scans, all the same.
    """
    return Compared(compare_runs([Path(run) for run in runs], anyway=anyway))


class Experiment:
    """A table of runs, as far as it has come: ``scores`` and ``tests``; in a notebook its table.

    Args:
        folder: Of the experiment: ``OUT/NAME``.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.results = read_results(folder)
        self._tested = paired_tests(self.results)

    def __repr__(self) -> str:
        return f"Experiment({str(self.folder)!r}: {self.verdict})"

    def _repr_html_(self) -> str:
        tests = table_of_tests(self.results, self._tested)
        tables = [score_table(self.results), *([tests] if tests else [])]
        return joined([paragraph(self.verdict), *map(table_html, tables)])

    @property
    def verdict(self) -> str:
        """How the first row stands against the best of the others, and how many runs are finished."""
        return lead(self.results, self._tested)

    @cached_property
    def scores(self) -> DataFrame:
        """A line for each row, setting, output, checkpoint and score: mean, interval, patients, seeds."""
        return frame(cell_records(self.results))

    @cached_property
    def tests(self) -> DataFrame:
        """A line for each pair and score: difference, interval, effect, p, and p after Holm."""
        return frame(records_of_tests(self._tested))

    @property
    def runs(self) -> list[Path]:
        """The folders of its finished runs."""
        return list(dict.fromkeys(run.path for each in self.results.filled for run in each.runs))

    def report(self) -> Path:
        """Write its page, tables and figures into its folder; returns the page."""
        return write_experiment(self.folder)


def experiment(
    name: Path | str = "",
    *,
    out: Path | str,
    dataset: Path | str = "phantom",
    methods: Sequence[str] = (),
    grid: Grid | None = None,
    seeds: Sequence[int] | None = None,
    sets: Sequence[int] | None = None,
    preset: str | None = None,
    quick: bool = False,
    test: bool = False,
    on: str = "local",
    device: Device = "auto",
    workers: int | None = None,
    **settings: Any,  # noqa: ANN401 - config keys, each with its own type
) -> Experiment:
    """Run a table of runs, or go on with it, as ``mixseg experiment`` does.

    Args:
        name: One of the paper's tables, or a TOML file; "" compares ``methods`` with every combination of ``grid``.
        out: For the experiment, its runs and their data.
        dataset: "phantom", or a folder of scans.
        methods: To compare; of a named table, the rows to run.
        grid: Values by config key, such as ``{"lr": [1e-3, 3e-4]}``.
        seeds: 0, 1, 2 if not given.
        sets: The N of Set-N.
        preset: Where settings come from.
        quick: The preset quick, Set-3, one seed, few steps.
        test: Score the test scans too; those of the phantom are always scored.
        on: One of EXECUTORS.
        device: What runs compute on.
        workers: Runs at once.
        settings: Config keys of all runs, such as ``steps=200``.

    Raises:
        MixsegError: Something suits no run; or some runs failed, the others are done.
    """
    own = read_comparison(Path(name)) if str(name).endswith(".toml") else None
    if not name:
        own = from_grid(tuple(methods) or ("kl-ent",), dict(grid or {}), _words(methods, grid or {}))
    request = Request(
        quick=quick,
        preset=preset or (own.preset if own else None),
        seeds=tuple(seeds) if seeds is not None else (own.seeds if own else None),
        sets=tuple(sets) if sets is not None else (own.sets if own else None),
        only=tuple(methods),
        settings=merged(own.settings if own else {}, flat(settings)),
        test=test,
    )
    place = Path(out).resolve()
    resources = Resources(place, device, workers)
    with _Bar() as bar:
        folder, status = run_experiment(
            own.experiment() if own else str(name),
            str(dataset),
            Path(out),
            request,
            on=on,
            resources=resources,
            show=bar.show,
        )
    _check_all_done(status, folder)
    return Experiment(folder)


def _check_all_done(status: Status | None, folder: Path) -> None:
    """Nothing, or one sentence about the runs that failed."""
    if status is not None and status.sentences:
        run, sentence = next(iter(status.sentences.items()))
        raise SomeFailedError(
            f"{len(status.sentences)} of {len(status.plan.runs)} runs failed, the others are done; {run}: {sentence}",
            "runs-failed",
            folder=folder,
            runs=sorted(status.sentences),
        )


def write_report(runs: Paths, out: Path | str | None = None) -> Path:
    """Write the page about a run, about several side by side, or about an experiment; returns it.

    Args:
        runs: A run folder, or several; or the folder of an experiment.
        out: The page; if not given, it lies in the folder, or of several runs beside the first.
    """
    paths = [Path(runs)] if isinstance(runs, Path | str) else [Path(run) for run in runs]
    page = None if out is None else Path(out)
    if len(paths) > 1:
        return write_comparison(compare_runs(paths), page or paths[0].parent / "comparison.html")[0]
    if is_experiment(paths[0]):
        return write_experiment(paths[0], page)
    if page is None and (found := experiments_in(paths[0])):
        return [write_experiment(folder) for folder in found][-1]
    return write_run_report(paths[0], page)


class _Bar:
    """A bar over the steps of all runs, which begins when they do."""

    def __init__(self) -> None:
        self.bar: Progress | None = None

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *error: Any) -> None:  # noqa: ANN401 - of whatever happened
        if self.bar is not None:
            self.bar.__exit__(*error)

    def show(self, status: Status) -> None:
        if self.bar is None:
            self.bar = Progress("training", total=sum(run.steps for run in status.plan.runs)).__enter__()
        text = f"{status.count('done')} of {len(status.plan.runs)} runs done"
        self.bar.step(text, count=status.steps_done() - self.bar.done)


def _words(methods: Sequence[str], grid: Mapping[str, Sequence[Any]]) -> list[str]:
    """How the command line would ask for a grid."""
    import json

    words = ["--methods", *methods] if methods else []
    for key, values in grid.items():
        words += ["--set", f"{key}={','.join(each if isinstance(each, str) else json.dumps(each) for each in values)}"]
    return words
