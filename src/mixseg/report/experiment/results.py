"""What an experiment has found so far: the cells of its plan with the runs that fill them, read from their folders."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mixseg.evaluation.metrics import bounds
from mixseg.evaluation.scores import Row, samples
from mixseg.evaluation.statistics import Estimate, estimate
from mixseg.experiments.plan import Cell, Plan, read_plan, run_path
from mixseg.experiments.states import state_of
from mixseg.report.run_files import RunFiles
from mixseg.report.wording import mean_entry

NOT_RUN, NOT_FINISHED, FAILED = "not run", "not finished", "failed"


class Spread(NamedTuple):
    """A score over seeds: the mean over scans of each seed counts once.

    Attributes:
        mean: Over seeds.
        sd: Over seeds; None with one seed.
        seeds: How many.
    """

    mean: float
    sd: float | None
    seeds: int


class Gap(NamedTuple):
    """A run that is not there.

    Attributes:
        seed: Of which seed.
        name: The run.
        why: "not run", "not finished" or "failed".
        sentence: More about it, or "".
    """

    seed: int
    name: str
    why: str
    sentence: str = ""


@dataclass(frozen=True)
class Filled:
    """A cell and its runs.

    Attributes:
        cell: What was asked for.
        runs: The finished ones, in the order of their seeds.
        gaps: The others.
    """

    cell: Cell
    runs: tuple[RunFiles, ...]
    gaps: tuple[Gap, ...]

    @property
    def answer(self) -> str:
        """The output that the method stands for."""
        return self.cell.outputs[0]

    @property
    def why_empty(self) -> str:
        """Why there is no value at all, in two or three words; "" where there is one."""
        if self.runs:
            return ""
        if self.cell.missing:
            return self.cell.missing
        reasons = [gap.why for gap in self.gaps]
        return next((why for why in (FAILED, NOT_FINISHED) if why in reasons), NOT_RUN)

    def trainings(self, part: str, output: str, checkpoint: str = "last") -> list[list[Row]]:
        """The scores of each seed."""
        return [run.chosen(part=part, branch=output, checkpoint=checkpoint) for run in self.runs]

    def estimate(self, metric: str, *, part: str, output: str, checkpoint: str = "last") -> Estimate:
        """The mean over scans of all seeds, and where it may lie for other patients and seeds."""
        return estimate(samples(self.trainings(part, output, checkpoint), metric), bounds=bounds(metric))

    def score(self, metric: str, *, part: str, output: str, checkpoint: str = "last") -> Spread | None:
        """Mean and spread over the seeds that have it, as metrics.csv counts (DSC from 0 to 1); None without any."""
        entries = (mean_entry(run, part=part, branch=output, checkpoint=checkpoint) for run in self.runs)
        return spread(entry[metric]["mean"] for entry in entries if entry is not None)


def spread(means: Iterable[float | None]) -> Spread | None:
    """Over the seeds whose mean is known; None without any."""
    known = [mean for mean in means if mean is not None and math.isfinite(mean)]
    if not known:
        return None
    sd = float(np.std(known, ddof=1)) if len(known) > 1 else None
    return Spread(float(np.mean(known)), sd, len(known))


@dataclass(frozen=True)
class Results:
    """An experiment as its files tell it.

    Attributes:
        folder: Of the experiment.
        plan: experiment.json.
        filled: A cell each, in the order of the plan.
    """

    folder: Path
    plan: Plan
    filled: tuple[Filled, ...]

    @property
    def part(self) -> str:
        """The part of the split that the table is about."""
        return "test" if self.plan.test else "val"

    @property
    def columns(self) -> Mapping[str, tuple[Filled, ...]]:
        """The cells by column, both in the order of the plan."""
        names = dict.fromkeys(each.cell.column for each in self.filled)
        return {name: tuple(each for each in self.filled if each.cell.column == name) for name in names}

    @property
    def gaps(self) -> list[Gap]:
        """Every run that is not there, each once."""
        found = {gap.name: gap for each in self.filled for gap in each.gaps}
        return list(found.values())


def read_results(folder: Path) -> Results:
    """What the experiment in ``folder`` has found so far."""
    plan = read_plan(folder)

    @cache
    def find(name: str) -> RunFiles | Gap:
        path = run_path(folder, name)
        state = state_of(path, test=plan.test)
        if state.phase == "finished":
            return RunFiles.read(path)
        if state.phase == "failed":
            return Gap(0, name, FAILED, state.sentence)
        begun = state.phase == "begun"
        return Gap(0, name, NOT_FINISHED, f"{state.step} steps done") if begun else Gap(0, name, NOT_RUN)

    return Results(folder, plan, tuple(_fill(cell, find) for cell in plan.cells))


def _fill(cell: Cell, find: Callable[[str], RunFiles | Gap]) -> Filled:
    found = {seed: find(name) for seed, name in sorted(cell.runs.items())}
    return Filled(
        cell,
        tuple(run for run in found.values() if isinstance(run, RunFiles)),
        tuple(gap._replace(seed=seed) for seed, gap in found.items() if isinstance(gap, Gap)),
    )
