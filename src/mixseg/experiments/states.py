"""Where a run of an experiment stands, read from its folder: nothing else keeps count."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple

from mixseg.core.files import write_json
from mixseg.core.text_files import read_json
from mixseg.runs.folder import FAILED, RunFolder
from mixseg.runs.log import read_log

Phase = Literal["finished", "failed", "begun", "waiting"]


class State(NamedTuple):
    """One run.

    Attributes:
        phase: "begun" has a config and is not finished: a process is at it, or was stopped.
        step: Steps in the log.
        sentence: Why it failed, or "".
    """

    phase: Phase
    step: int = 0
    sentence: str = ""


def state_of(run: Path, *, test: bool = False) -> State:
    """Where the run in ``run`` stands; with ``test``, one that has not scored the test scans is not finished."""
    log = read_log(run / "log.jsonl")
    step = int(log[-1]["step"]) if log else 0
    done = RunFolder(run).finished
    if done and (done["test"] or not test):
        return State("finished", int(done["steps"]))
    failure = read_json(run / FAILED, dict[str, str], missing_ok=True)
    if failure is not None:
        return State("failed", step, str(failure["sentence"]))
    return State("begun" if (run / "config.json").exists() else "waiting", step)


def record_failure(run: Path, sentence: str) -> None:
    """Leave ``failed.json`` in the run's folder."""
    write_json(run / FAILED, {"sentence": sentence})


def forget_failure(run: Path) -> None:
    """For another try."""
    (run / FAILED).unlink(missing_ok=True)
