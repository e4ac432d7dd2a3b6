import json
import math

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from made_runs import config, data
from mixseg.engine import Hardware
from mixseg.logbook import Log, read_log
from mixseg.run import train


def test_what_is_no_number_is_null_in_the_log(tmp_path):
    log = Log(tmp_path / "log.jsonl", keep_until=0)
    log.write({"step": 1, "score": math.nan, "watch": {"shares": [0.5, math.inf]}})
    text = (tmp_path / "log.jsonl").read_text()
    assert json.loads(text, parse_constant=pytest.fail) == {"step": 1, "score": None, "watch": {"shares": [0.5, None]}}


def test_tensorboard_shows_the_numbers_of_the_log(tmp_path):
    train(config(steps=4, validate_every=2, tensorboard=True), data(), tmp_path, hardware=Hardware("cpu"))
    shown = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    entries = read_log(tmp_path / "log.jsonl")
    assert len(entries) == 2
    points = [(event.step, event.value) for event in shown.Scalars("dsc/bottom/disc")]
    assert points == [(entry["step"], pytest.approx(entry["dsc"]["bottom"]["disc"])) for entry in entries]
    assert {f"terms/{name}" for name in entries[0]["terms"]} <= set(shown.Tags()["scalars"])
