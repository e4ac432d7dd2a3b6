"""Runs beside those that somebody has published: whether they lie where another training of the same would."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mixseg.core.errors import MixsegError
from mixseg.core.text_files import read_json_lines
from mixseg.evaluation.scores import MEAN
from mixseg.evaluation.statistics import LEVEL
from mixseg.report.experiment.results import Filled, Results
from mixseg.report.experiment.tables import Group, Table
from mixseg.report.run_files import RunFiles
from mixseg.runs.config import Config, flat, from_dict, keys_where, settings_of

WITHIN, OUTSIDE, UNKNOWN, NO_SPREAD = "within", "outside", "no published run of these settings", "one seed: no spread"
HEAD = ("row", "setting", "published seeds", "published DSC (%)", "another would lie in", "here (%)", "which is")
READING = (
    "DSC of the answer at the last checkpoint, mean over scans, then over classes. Published: the mean over seeds ± "
    "their standard deviation. Another training would lie in that range in 95 % of all cases (Student's t for one "
    "further value beside so many). Runs are matched by every setting that makes another run, but the seed."
)


class Verified(NamedTuple):
    """One run of ours.

    Attributes:
        row: Of the table.
        setting: Of the table.
        seed: It has.
        published: DSC of the published seeds, from 0 to 1.
        ours: DSC of the run.
    """

    row: str
    setting: str
    seed: int
    published: tuple[float, ...]
    ours: float

    @property
    def span(self) -> tuple[float, float]:
        """Where one more training would lie; ``nan`` with fewer than two published ones."""
        from scipy.special import stdtrit

        count = len(self.published)
        if count < 2:
            return math.nan, math.nan
        mean, sd = float(np.mean(self.published)), float(np.std(self.published, ddof=1))
        half = float(stdtrit(count - 1, (1 + LEVEL) / 2)) * sd * math.sqrt(1 + 1 / count)
        return mean - half, mean + half

    @property
    def standing(self) -> str:
        """Whether it lies there."""
        if len(self.published) < 2:
            return NO_SPREAD if self.published else UNKNOWN
        low, high = self.span
        return WITHIN if low <= self.ours <= high else OUTSIDE


def verify(results: Results, published: Path) -> list[Verified]:
    """Every finished run of an experiment beside the published runs of the same settings.

    Args:
        results: Of the experiment.
        published: A file with a line for each run, as docs/results/runs.jsonl.

    Raises:
        MixsegError: The file is not there, or holds no runs.
    """
    if not published.exists():
        raise MixsegError(f"{published} does not exist: check the path.", "file-missing", file=published)
    records = list(read_json_lines(published))
    if not all(isinstance(each, Mapping) and {"config", "figures"} <= each.keys() for each in records) or not records:
        raise MixsegError(
            f"{published} holds no published runs: name a file such as docs/results/runs.jsonl.",
            "wrong-content",
            file=published,
        )
    known = [(_identity(_config(each["config"], published)), each) for each in records]
    return [
        _verified(results, each, run, [record for identity, record in known if identity == _identity(run.config)])
        for each in results.filled
        for run in each.runs
    ]


def verified_table(found: Iterable[Verified]) -> Table:
    """The same as lines of text."""
    return Table("Against published runs", HEAD, 2, (Group("", tuple(map(_line, found))),), READING)


def _line(each: Verified) -> tuple[str, ...]:
    published = 100 * np.array(each.published)
    sd = f" ± {published.std(ddof=1):.2f}" if len(published) > 1 else ""
    low, high = (100 * bound for bound in each.span)
    return (
        f"{each.row}, seed {each.seed}",
        each.setting,
        str(len(published)),
        f"{published.mean():.2f}{sd}" if len(published) else "-",
        "-" if math.isnan(low) else f"[{low:.1f}, {high:.1f}]",
        f"{100 * each.ours:.2f}",
        each.standing,
    )


def _verified(results: Results, filled: Filled, run: RunFiles, records: Sequence[Mapping[str, Any]]) -> Verified:
    entries = [entry for record in records if (entry := _entry(record["figures"], results.part, filled.answer))]
    ours = filled.__class__(filled.cell, (run,), ()).score("dsc", part=results.part, output=filled.answer)
    seed = run.config.training.seed
    published = tuple(float(entry["dsc"]["mean"]) for entry in entries)
    return Verified(filled.cell.row, filled.cell.column, seed, published, math.nan if ours is None else ours.mean)


def _entry(figures: Sequence[Mapping[str, Any]], part: str, output: str) -> Mapping[str, Any] | None:
    """The mean over classes, of one class that class, of one output at the last checkpoint."""
    wanted = (part, output, "last")
    chosen = [each for each in figures if (each["part"], each["branch"], each["checkpoint"]) == wanted]
    return next((each for each in chosen if each["class"] == MEAN), chosen[0] if chosen else None)


def _config(content: Mapping[str, Any], where: Path) -> Config:
    return from_dict(flat(content, str(where)), where=str(where))


def _identity(config: Config) -> tuple[Any, ...]:
    """Every setting that makes another run, but the seed; paths are those of a machine."""
    settings = settings_of(config)
    keys = keys_where(lambda key: key.effect and not key.located and not key.settled)
    weights = repr(sorted(config.method.all_weights.items()))
    return (*(repr(settings[key]) for key in keys if key not in ("seed", "weights")), weights)
