"""The seconds of a run by phase: they add up, and a run leaves them in finished.json."""

import time

import pytest

from made_runs import config, data
from mixseg.runs import log
from mixseg.runs.device import Hardware
from mixseg.runs.log import Phases
from mixseg.training.train import train


def test_each_phase_has_the_time_since_the_one_before(monkeypatch):
    now = iter([10.0, 12.0, 12.5, 15.5])
    monkeypatch.setattr(log.time, "monotonic", lambda: next(now))
    clock = Phases()
    for name in ("data", "steps", "data"):
        clock.end(name)
    assert clock.entry() == {"data": 5.0, "steps": 0.5}


def test_the_phases_of_a_run_add_up_to_its_seconds(tmp_path):
    clock, began = Phases(), time.monotonic()
    found = train(config(steps=10), data(), tmp_path / "run", hardware=Hardware("cpu"), phases=clock).finished
    assert list(found["phases"]) == ["start", "steps", "validation", "checkpoints", "assess"]
    assert sum(found["phases"].values()) == pytest.approx(time.monotonic() - began, abs=1.0)
    assert sum(found["phases"].values()) >= found["seconds"] - 0.2


def test_a_training_that_went_on_counts_the_seconds_of_every_process(tmp_path):
    once = train(config(steps=10), data(), tmp_path / "run", hardware=Hardware("cpu")).finished
    longer = train(config(steps=20), data(), tmp_path / "run", hardware=Hardware("cpu")).finished
    again = train(config(steps=20), data(), tmp_path / "run", hardware=Hardware("cpu"), test=True).finished
    assert longer["phases"]["steps"] > once["phases"]["steps"]
    assert again["training_seconds"] >= longer["training_seconds"] > once["training_seconds"]
    assert again["phases"]["steps"] == pytest.approx(longer["phases"]["steps"], abs=0.05), "no step was done again"
