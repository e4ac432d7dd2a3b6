import json

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from made_runs import config, data
from mixseg.core.errors import MixsegError
from mixseg.runs.device import Hardware
from mixseg.runs.folder import RunFolder
from mixseg.runs.log import read_log
from mixseg.training.trackers import STORE, make_trackers, numbers
from mixseg.training.train import train, train_run

CPU = Hardware("cpu")


def test_every_number_of_an_entry_has_a_path():
    entry = {
        "step": 3,
        "loss": 2,
        "dsc": {"bottom": {"LV": 0.5}},
        "shares": [0.25, 0.75],
        "told": "x",
        "collapsed": True,
    }
    found = dict(numbers(entry))
    assert found == {"loss": 2.0, "dsc/bottom/LV": 0.5, "shares/0": 0.25, "shares/1": 0.75}


def test_tensorboard_shows_the_numbers_of_the_log(tmp_path):
    train(config(steps=4, validate_every=2, tensorboard=True), data(), tmp_path, hardware=CPU)
    shown = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    entries = read_log(tmp_path / "log.jsonl")
    assert len(entries) == 2
    points = [(event.step, event.value) for event in shown.Scalars("dsc/bottom/disc")]
    assert points == [(entry["step"], pytest.approx(entry["dsc"]["bottom"]["disc"])) for entry in entries]
    assert {f"terms/{name}" for name in entries[0]["terms"]} <= set(shown.Tags()["scalars"])


def test_a_tracker_that_is_not_installed_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "mlflow.tracking", None)
    with pytest.raises(MixsegError, match=r"mixseg\[mlflow\]"):
        make_trackers(tmp_path, config(mlflow=True), keep_until=0)


@pytest.mark.filterwarnings("ignore")  # of the libraries below MLflow
def test_mlflow_keeps_all_runs_of_a_folder_and_a_continued_one_once(tmp_path):
    tracking = pytest.importorskip("mlflow.tracking", reason="needs pip install 'mixseg[mlflow]'")
    pytest.importorskip("sqlalchemy", reason="needs pip install 'mixseg[mlflow]'")
    runs = tmp_path / "runs"
    train(config(steps=4, validate_every=2, mlflow=True), data(), runs / "it's long", hardware=CPU)
    train(config(steps=6, validate_every=2, mlflow=True), data(), runs / "it's long", hardware=CPU)
    train(config(steps=2, validate_every=2, mlflow=True, seed=5), data(), runs / "short", hardware=CPU)
    client = tracking.MlflowClient(tracking_uri=f"sqlite:///{runs / STORE}")
    found = client.search_runs([client.get_experiment_by_name("runs").experiment_id])
    assert sorted(run.info.run_name for run in found) == ["it_s long", "short"]
    by_name = {run.info.run_name: run for run in found}
    assert by_name["short"].data.params["seed"] == "5"
    assert by_name["short"].info.status == "FINISHED"
    history = client.get_metric_history(by_name["it_s long"].info.run_id, "dsc/bottom/disc")
    entries = read_log(runs / "it's long" / "log.jsonl")
    assert [(point.step, point.value) for point in history] == [
        (entry["step"], entry["dsc"]["bottom"]["disc"]) for entry in entries
    ]
    assert [point.step for point in history] == [2, 4, 6]


def test_a_hook_of_ones_own_is_given_every_entry_of_the_log(tmp_path):
    seen = []
    train_run(RunFolder(tmp_path / "run"), config(steps=4, validate_every=2), data(), hardware=CPU, on_log=seen.append)
    assert [entry["step"] for entry in seen] == [2, 4]
    assert json.dumps(seen) == json.dumps(read_log(tmp_path / "run" / "log.jsonl"))
    assert dict(numbers(seen[-1]))["loss"] == seen[-1]["loss"]
