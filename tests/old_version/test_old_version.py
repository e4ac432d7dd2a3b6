"""Files that an earlier version wrote are still read: scans, prepared arrays, archives, run folders, configs.

README.md beside this file says what wrote them. What is expected of them is in expected.json.
"""

import csv
import hashlib
import json
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path

import nibabel
import numpy as np
import pytest
import torch

from mixseg.cli import main
from mixseg.core.types import renamed
from mixseg.data.prepare.store import Prepared
from mixseg.runs.log import read_log
from mixseg.training.__main__ import main as train_arrays
from stores import same_arrays

HERE = Path(__file__).resolve().parent
EXPECTED = json.loads((HERE / "expected.json").read_text())
IMAGE = "scans/imagesTr/patient006_frame01_0000.nii.gz"
ROUNDING = {"rel": 1e-3, "abs": 1e-3}
"""Ten steps on another CPU end within this of the same weights; on the one of expected.json, on the same."""


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("written")
    with tarfile.open(HERE / "files.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture
def files(unpacked, tmp_path, monkeypatch):
    """A copy of all files, newer than what they were made from, in the current folder."""
    shutil.copytree(unpacked, tmp_path / "files", copy_function=shutil.copyfile)
    monkeypatch.chdir(tmp_path / "files")
    return tmp_path / "files"


def train(run, config, *more):
    return main(["train", "scans", "--out", run, "--config", config, "--device", "cpu", "--test", *more])


def drop_average(run):
    """Make ``run-3d`` what it would be without its moving average, of which later versions know nothing."""
    if run != "run-3d":
        return
    for path in (Path(config_of(run)), Path(run) / "config.json"):
        content = json.loads(path.read_text())
        del content["average"]
        path.write_text(json.dumps(content))
    content = torch.load(Path(run) / "last.pt", weights_only=True)
    del content["average"]
    torch.save(content, Path(run) / "last.pt")


def config_of(run):
    return f"config-{run.split('-')[1]}.json"


def log_of(run):
    return [json.loads(line) for line in (Path(run) / "log.jsonl").read_text().splitlines()]


def steps_of(run):
    return [entry["step"] for entry in log_of(run)]


def rows_of(file):
    with Path(file).open(newline="") as lines:
        return list(csv.DictReader(lines))


def labels_in(file):
    return np.ascontiguousarray(np.asarray(nibabel.load(file).dataobj, dtype=np.uint8))


@pytest.mark.parametrize("checkpoint", ["best", "last"])
@pytest.mark.parametrize("run", ["run-2d", "run-3d"])
def test_a_finished_run_predicts_what_it_did(files, run, checkpoint):
    words = ["predict", run, "-i", IMAGE, "-o", "maps", "--checkpoint", checkpoint, "--device", "cpu"]
    assert main(words) == 0
    expected = EXPECTED[run]["labels"][checkpoint]
    labels = labels_in(f"maps/{expected['file']}")
    then = labels_in(f"{run}/predictions/{checkpoint}/bottom/{expected['file']}")
    assert hashlib.sha256(then.tobytes()).hexdigest() == expected["sha256"]
    assert list(labels.shape) == expected["shape"]
    if hashlib.sha256(labels.tobytes()).hexdigest() != expected["sha256"]:
        # Two classes as good as equal may change places where another CPU rounds in another way.
        assert (labels == then).mean() > 0.999


@pytest.mark.parametrize("run", ["run-2d", "run-3d"])
def test_a_finished_run_is_finished(files, run, capsys):
    drop_average(run)
    before = (Path(run) / "last.pt").read_bytes()
    assert train(run, config_of(run)) == 0
    assert "is finished already" in capsys.readouterr().out
    assert (Path(run) / "last.pt").read_bytes() == before
    assert log_of(run)[-1] == EXPECTED[run]["last_entry"]


@pytest.mark.parametrize("run", ["run-2d", "run-3d"])
def test_a_finished_run_is_trained_longer(files, run):
    drop_average(run)
    before = read_log(Path(run) / "log.jsonl")
    assert train(run, config_of(run), "--set", "steps=14") == 0
    assert steps_of(run) == [*EXPECTED[run]["log_steps"], 12, 14]
    assert log_of(run)[: len(before)] == before, "by the names of today"
    assert json.loads((Path(run) / "finished.json").read_text())["steps"] == 14
    assert torch.load(Path(run) / "last.pt", weights_only=True)["step"] == 14


def test_a_run_with_a_key_that_is_gone_is_not_continued_and_stays_as_it_is(files, capsys):
    before = {path: path.read_bytes() for path in Path("run-3d").rglob("*") if path.is_file()}
    assert train("run-3d", "config-3d.json") == 4
    assert "config-3d.json has average=0.9, and this version knows no average but 0.0" in capsys.readouterr().err
    settings = json.loads(Path("config-3d.json").read_text())
    del settings["average"]
    Path("config-3d.json").write_text(json.dumps(settings))
    assert train("run-3d", "config-3d.json", "--set", "steps=14") == 4
    assert "run-3d holds a run with average=0.9, which this version cannot continue" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in before} == before


def test_a_run_that_was_stopped_ends_as_one_that_was_not(files, capfd):
    run, expected = "run-2d-stopped", EXPECTED["run-2d"]
    assert steps_of(run) == [2, 4]
    assert torch.load(Path(run) / "last.pt", weights_only=True)["step"] == EXPECTED["stopped_after"]
    assert train(run, "config-2d.json") == 0
    assert f"goes on after step {EXPECTED['stopped_after']} of 10" in "".join(capfd.readouterr())
    assert steps_of(run) == expected["log_steps"]
    assert log_of(run)[-1]["loss"] == pytest.approx(expected["last_entry"]["loss"], rel=1e-2)
    assert len((Path(run) / "metrics.csv").read_text().splitlines()) - 1 == expected["metrics_rows"]
    one, other = (torch.load(Path(path) / "last.pt", weights_only=True)["method"] for path in (run, "run-2d"))
    assert one.keys() == {name.replace("elder.", "ema.") for name in other}
    assert len(one) == expected["tensors"]
    for name, then in expected["weights"].items():
        assert float(one[name.replace("elder.", "ema.")].double().sum()) == pytest.approx(then, **ROUNDING), name


def test_a_run_refuses_the_settings_of_another(files, capsys):
    assert train("run-2d", "config-2d.json", "--set", "batch.bare=2", "--set", "steps=12") == 4
    assert "holds a run with batch=" in capsys.readouterr().err


@pytest.mark.parametrize("data", ["prepared", "scans.zip"])
def test_prepared_arrays_and_an_archive_are_trained_on(files, data):
    split = ["--split", "scans/splits.json", "--out", "runs", "--device", "cpu", "--test"]
    train_arrays(["config-arrays.json", "--data", data, *split])
    run = Path("runs/config-arrays")
    assert steps_of(run) == [2, 4, 6, 8, 10]
    facts = json.loads((run / "environment.json").read_text())
    then = json.loads(Path("run-2d/environment.json").read_text())
    assert facts["protocol"] == renamed(then["protocol"])
    assert facts["classes"] == then["classes"]
    assert json.loads((run / "config.json").read_text())["data"]["clip"] == [1.0, 99.0]


@pytest.mark.parametrize("source", ["scans", "scans.zip"])
def test_preparing_gives_the_same_arrays(files, source):
    clip = [] if source.endswith(".zip") else ["--clip", "1", "99"]
    assert main(["prepare", source, "arrays", "--size", "16", "16", *clip, "--workers", "1"]) == 0
    new, old = Prepared(Path("arrays")), Prepared(Path("prepared"))
    assert same_arrays(new, old)
    for read, name in zip(new.slices(), ("image", "full", "partial"), strict=True):
        assert np.array_equal(read.ravel(), np.load(f"prepared/{name}.npy")), name
    assert new.content != old.content
    assert new.holds(old.content), "what runs of that version were trained on"
    assert not new.holds(old.content[:-1] + "-")
    for now, then in zip(new.cases, old.cases, strict=True):
        assert replace(now.header, classes=(), fingerprint="") == then.header
        assert replace(now, header=then.header) == then


@pytest.mark.parametrize("run", ["run-2d", "run-3d"])
def test_the_label_maps_of_a_run_are_scored_as_they_were(files, run):
    assert main(["evaluate", "-i", run, "-r", "scans", "-o", "scores"]) == 0
    now, then = rows_of("scores/metrics.csv"), rows_of(f"{run}/native/metrics.csv")
    assert [{key: row[key] for key in then[0]} for row in now] == then


def test_runs_are_reported_and_compared(files):
    assert main(["report", "run-2d"]) == 0
    assert "kl-ent" in Path("run-2d/report.html").read_text()
    assert main(["report", "run-2d", "run-3d", "--out", "comparison.html"]) == 0
    assert "run-3d" in Path("comparison.html").read_text()
