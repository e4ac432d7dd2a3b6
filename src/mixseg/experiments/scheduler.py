"""Sees the runs of a plan through: skips what is finished, goes on with what is not, hands out what is ready."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from mixseg.core.types import Device
from mixseg.datasets.labels import LabelFlags
from mixseg.experiments.executors.base import Executor
from mixseg.experiments.executors.worker import CONSOLE, Job
from mixseg.experiments.plan import Plan, PlannedRun, run_path
from mixseg.experiments.states import State, forget_failure, record_failure, state_of
from mixseg.runs.folder import RunFolder

TRIES = 3
"""How often a run is started whose process ends without a word: killed, out of memory, its machine lost."""
SECONDS_BETWEEN_REFRESHES = 0.5

Standing = Literal["done", "running", "failed", "waiting"]


@dataclass
class Status:
    """Where every run stands, for whoever shows it.

    Attributes:
        plan: What is to be done.
        standing: By name of the run.
        steps: Steps done by name, of those that are running or were stopped.
        sentences: Why a run failed, by name.
        started: When the runner began (monotonic), and how many steps were done then.
    """

    plan: Plan
    standing: dict[str, Standing]
    steps: dict[str, int] = field(default_factory=dict)
    sentences: dict[str, str] = field(default_factory=dict)
    started: tuple[float, int] = (0.0, 0)

    def count(self, standing: Standing) -> int:
        """How many runs stand so."""
        return sum(each == standing for each in self.standing.values())

    def steps_done(self) -> int:
        """Of all runs together."""
        return sum(self.steps.values())

    def seconds_left(self) -> float | None:
        """At the pace so far; None before anything was done."""
        when, before = self.started
        done = self.steps_done() - before
        left = sum(
            run.steps - self.steps.get(run.name, 0)
            for run in self.plan.runs
            if self.standing[run.name] in ("running", "waiting")
        )
        return left * (time.monotonic() - when) / done if done > 0 else None


def run_plan(
    plan: Plan,
    folder: Path,
    executor: Executor,
    *,
    device: Device = "auto",
    flags: LabelFlags | None = None,
    show: Callable[[Status], None] = lambda status: None,
    pause: float = SECONDS_BETWEEN_REFRESHES,
) -> Status:
    """Run what is missing of the plan in ``folder``; returns when every run is finished or has failed.

    Nothing is remembered but what the run folders say: killed at any time and started again, it goes on. A run that
    failed before is tried again. Runs that need a failed one fail too, the others go on.
    """
    jobs = {run.name: _job(plan, run, folder, device, flags or LabelFlags()) for run in plan.runs}
    tries = dict.fromkeys(jobs, 0)
    for run in plan.runs:
        if state_of(run_path(folder, run.name), test=plan.test).phase == "failed":
            forget_failure(run_path(folder, run.name))
    status = Status(plan, dict.fromkeys(jobs, "waiting"))
    ours: set[str] = set()
    try:
        _refresh(status, folder, ours)
        status.started = (time.monotonic(), status.steps_done())
        show(status)
        while status.count("running") + status.count("waiting"):
            ready = [name for name in _ready(status) if _is_ours(run_path(folder, name), plan.test)][: executor.free()]
            executor.start([jobs[name] for name in ready])
            ours |= set(ready)
            time.sleep(pause)
            for name in executor.ended():
                ours.discard(name)
                tries[name] += 1
                _judge(plan, folder, name, tries[name])
            _refresh(status, folder, ours)
            show(status)
    finally:
        executor.close()
    return status


def _job(plan: Plan, run: PlannedRun, folder: Path, device: Device, flags: LabelFlags) -> Job:
    return Job(
        name=run.name,
        out=str(run_path(folder, run.name).resolve()),
        scans=str(Path(plan.scans).resolve()),
        layout=plan.layout,
        settings=dict(run.settings),
        flags=asdict(flags),
        device=device,
        test=plan.test,
    )


def _refresh(status: Status, folder: Path, ours: set[str]) -> None:
    """Read from the run folders where the runs stand; those that are done need no second look."""
    for run in status.plan.runs:
        if status.standing[run.name] in ("done", "failed"):
            continue
        state = state_of(run_path(folder, run.name), test=status.plan.test)
        status.standing[run.name] = _standing(run, state, ours, status.standing)
        status.steps[run.name] = state.step
        if status.standing[run.name] == "failed":
            status.sentences[run.name] = state.sentence or f"it needs {run.needs}, which failed."
            if not state.sentence:
                record_failure(run_path(folder, run.name), status.sentences[run.name])


def _standing(run: PlannedRun, state: State, ours: set[str], others: Mapping[str, Standing]) -> Standing:
    if run.name in ours:  # label maps are written after finished.json
        return "running"
    if state.phase == "finished":
        return "done"
    if state.phase == "failed" or (run.needs and others[run.needs] == "failed"):
        return "failed"
    return "waiting"


def _ready(status: Status) -> list[str]:
    """Runs that wait for nothing but room."""
    return [
        run.name
        for run in status.plan.runs
        if status.standing[run.name] == "waiting" and (not run.needs or status.standing[run.needs] == "done")
    ]


def _is_ours(run: Path, test: bool) -> bool:
    """Whether no other process is at the run, nor has just finished it: it is unlocked after that."""
    return not RunFolder(run).is_locked and state_of(run, test=test).phase != "finished"


def _judge(plan: Plan, folder: Path, name: str, tries: int) -> None:
    """A run whose process ended without finishing or saying why is tried again, but not for ever."""
    run = run_path(folder, name)
    if state_of(run, test=plan.test).phase in ("finished", "failed") or RunFolder(run).is_locked or tries < TRIES:
        return
    record_failure(
        run, f"its process was killed {tries} times, perhaps for want of memory (see {run / CONSOLE}); start it again."
    )
