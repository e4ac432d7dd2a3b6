"""Two processes (gloo) train what one trains, on the same step, through the entry point that users call."""

import json
import os
import subprocess
import sys

import pytest
import torch

from conftest import ROOT
from made_runs import checkpoint, config, data
from mixseg.core.errors import MixsegError
from mixseg.core.types import IGNORE
from mixseg.data.augment import NONE
from mixseg.data.batches import Feed
from mixseg.datasets.simulate import Recipe, simulate_phantom
from mixseg.runs.device import Hardware
from mixseg.runs.folder import RunFolder
from mixseg.runs.log import read_log
from mixseg.training.train import train
from patience import wait_until

SCRIPT = ROOT / "tests" / "train_script.py"
EXACT = {"precision": "fp64", "norm": "instance", "dropout": 0.0, "steps": 6, "validate_every": 3}


def train_with_two(out, **asked):
    """The finished process of a script that trains with two processes."""
    command = [sys.executable, str(SCRIPT), str(out), json.dumps({"devices": 2, **asked})]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, timeout=100, env=environment, check=False)


def furthest_apart(one, other):
    one, other = (checkpoint(folder / "last.pt")["method"] for folder in (one, other))
    assert one.keys() == other.keys()
    assert all(tensor.dtype == torch.float64 for tensor in one.values())
    return max((one[name] - other[name]).abs().max().item() for name in one)


@pytest.mark.parametrize("weak_over", ["voxels", "images"])
def test_two_processes_end_with_the_weights_of_one(tmp_path, weak_over):
    settings = {**EXACT, "batch": {"full": 2, "partial": 4}, "weights": {"weak": 1.0, "dice": 1.0}}
    settings["weak_over"] = weak_over
    scans = data(uneven=True)
    counts = []
    for rank in range(2):
        feed = Feed(
            scans.train,
            {"full": 2, "partial": 4},
            grid=(16, 16),
            seed=0,
            augmentation=NONE,
            device=torch.device("cpu"),
            rank=rank,
            world=2,
        )
        counts.append([(feed(step).partial.partial != IGNORE).sum().item() for step in range(6)])
    assert any(max(pair) > 2 * min(pair) for pair in zip(*counts, strict=True)), "labels are spread unevenly"

    done = train_with_two(tmp_path / "two", config=settings, data={"uneven": True})
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("the script goes on") == 1, "the other process ends with the training"
    assert "ends as a member" not in done.stderr
    train(config(**settings), scans, tmp_path / "one", hardware=Hardware("cpu"))
    assert furthest_apart(tmp_path / "one", tmp_path / "two") < 1e-6

    # The log tells the means over all processes, and the predictions agree.
    for one, two in zip(*(read_log(tmp_path / which / "log.jsonl") for which in ("one", "two")), strict=True):
        assert two["loss"] == pytest.approx(one["loss"], rel=1e-5)
        assert two["terms"] == pytest.approx(one["terms"], rel=1e-5)
        assert two["score"] == pytest.approx(one["score"], rel=1e-5)
    assert (tmp_path / "one" / "metrics.csv").read_text() == (tmp_path / "two" / "metrics.csv").read_text()


def test_parameters_that_no_term_needs_are_no_error_and_a_refusal_ends_both_processes(tmp_path):
    settings = {**EXACT, "norm": "group", "weights": {"weak": 0.0, "distill": 0.0, "entropy": 0.0}}
    done = train_with_two(tmp_path / "two", config=settings)
    assert done.returncode == 0, done.stderr
    train(config(**settings), data(), tmp_path / "one", hardware=Hardware("cpu"))
    assert furthest_apart(tmp_path / "one", tmp_path / "two") < 1e-6

    refused = train_with_two(tmp_path / "two", config={**settings, "steps": 4})
    assert refused.returncode == 4
    assert "was trained for 6 steps already" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert "ends as a member" not in refused.stderr


def test_a_busy_folder_is_told_once_and_as_one_process_tells_it(tmp_path):
    with RunFolder(tmp_path).locked():
        with pytest.raises(MixsegError, match=f"Another process is writing {tmp_path}") as told:
            train(config(), data(), tmp_path, hardware=Hardware("cpu"))
        done = train_with_two(tmp_path)
    assert done.returncode == 4
    assert done.stderr == f"BusyError: {told.value}\n"


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such signal")
def test_whoever_ends_the_first_process_ends_both(tmp_path):
    asked = json.dumps({"devices": 2, "config": {"steps": 100_000, "validate_every": 20}})
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(SCRIPT), str(tmp_path / "run"), asked]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            wait_until((tmp_path / "run" / "last.pt").exists, seconds=100)
            process.terminate()
            told = process.communicate(timeout=60)[1]  # until the other one, which has the same pipe, is gone too
        finally:
            process.kill()
    assert "Terminated: Stopped at step" in told
    assert "rank1" not in told
    assert "ends as a member" not in told


def test_what_is_said_before_training_is_said_once(tmp_path):
    simulate_phantom(tmp_path / "scans", Recipe(), kind="heart", size=16, seed=0, patients=6, val=1, test=1)
    small = {"preset": "quick", "steps": 2, "width": 2, "depth": 2, "size": [16, 16]}
    (tmp_path / "small.json").write_text(json.dumps(small))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}

    def said(*words):
        command = [sys.executable, "-m", *words, "--device", "cpu", "--devices", "2"]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=100, env=environment, cwd=tmp_path, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    trained = said("mixseg", "train", "scans", "--out", "run", "--config", "small.json")
    assert [trained.count(words) for words in ("0 = background", "Patients to train on")] == [1, 1]
    (arrays,) = (tmp_path / ".prepared").iterdir()
    files = ("--data", str(arrays), "--split", "scans/splits.json")
    assert said("mixseg.training", "small.json", *files, "--out", "runs").count("small: kl-ent, 2 steps") == 1
