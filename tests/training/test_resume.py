"""A run that was killed and goes on ends with the weights, bit for bit, of one that was not."""

import json
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from conftest import ROOT
from made_runs import checkpoint, config, data, differences, log_of
from mixseg.core.errors import MixsegError
from mixseg.runs.device import Hardware
from mixseg.runs.folder import RunFolder
from mixseg.runs.log import read_log
from mixseg.training import loop
from mixseg.training import train as run
from mixseg.training.train import train
from mixseg.training.validation import Validation
from patience import wait_until

CPU = Hardware("cpu")
SCRIPT = ROOT / "tests" / "train_script.py"

KL_ENT = {"method": "kl-ent", "augment": "strong", "schedule": "poly"}
MIXED = {"method": "kl-ent", "norm": "instance", "weights": {"cutmix": 1.0, "dice": 1.0}, "largest": None}
UA_MT = {"method": "ua-mt", "optimizer": "sgd", "lr": 0.05}
GLMI, SSCO = {"method": "glmi"}, {"method": "ssco"}


def scans_for(settings):
    size = {"dims": 3, "side": 10} if settings.get("dims") == 3 else {}
    return data(**size) if settings["method"] == "kl-ent" else data(partial=0, unlabeled=3, **size)


def timeless(path):
    """What a checkpoint holds, but for the seconds that it took."""
    return {name: value for name, value in checkpoint(path).items() if name != "seconds"}


def assert_same_run(one, other):
    for name in ("last.pt", "best.pt"):
        assert not differences(timeless(one / name), timeless(other / name)), name
    assert log_of(one) == log_of(other)
    assert (one / "metrics.csv").read_text() == (other / "metrics.csv").read_text()


class PowerCutError(Exception):
    """As if the power had gone."""


@pytest.fixture
def killed_at(monkeypatch):
    """Makes trainings save at every step, and stop at the look of a step, before anything of it is written."""
    monkeypatch.setattr(loop, "SECONDS_BETWEEN_CHECKPOINTS", -1.0)

    def arrange(step, steps):
        class Dies(Validation):
            def __call__(self, method, progress, before, terms):
                if round(progress * steps) == step:
                    raise PowerCutError
                return super().__call__(method, progress, before, terms)

        monkeypatch.setattr(run, "Validation", Dies)

    return arrange


@pytest.mark.parametrize(
    "settings",
    [
        *(KL_ENT, MIXED, UA_MT, GLMI, SSCO, {**KL_ENT, "precision": "fp64"}),
        *({**method, "dims": 3} for method in (KL_ENT, UA_MT, GLMI, SSCO)),
    ],
    ids=lambda settings: "-".join(
        str(value) for key, value in settings.items() if key in ("method", "precision", "dims", "norm")
    ),
)
def test_stopped_twice_and_resumed_is_bit_equal_to_uninterrupted(tmp_path, killed_at, settings):
    settings = {**settings, "validate_every": 3, "steps": 10}
    scans = scans_for(settings)
    whole = train(config(**settings), scans, tmp_path / "whole", hardware=CPU)
    for step in (6, 9):
        killed_at(step, steps=10)
        with pytest.raises(PowerCutError):
            train(config(**settings), scans, tmp_path / "broken", hardware=CPU)
        assert checkpoint(tmp_path / "broken" / "last.pt")["step"] == step - 1, "between two looks"
        assert not RunFolder(tmp_path / "broken").finished
    killed_at(-1, steps=10)
    resumed = train(config(**settings), scans, tmp_path / "broken", hardware=CPU)
    assert_same_run(whole.path, resumed.path)


def kill_when(process, log, lines):
    """SIGKILL as soon as the log has so many lines."""

    def reached():
        return process.poll() is not None or (log.exists() and log.read_text().count("\n") >= lines)

    wait_until(reached, seconds=60, every=0.002)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return process.returncode == -signal.SIGKILL


def test_killed_for_real_three_times_at_random_steps_is_bit_equal_to_uninterrupted(tmp_path):
    settings = {**KL_ENT, "steps": 60, "validate_every": 2}
    asked = json.dumps({"config": settings, "seconds_between_checkpoints": 0.01})
    out = tmp_path / "killed"
    random.seed(time.time_ns())
    for round_ in range(3):
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), str(out), asked], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        lines = 5 * round_ + random.randint(1, 4)
        assert kill_when(process, out / "log.jsonl", lines), "it was still training"
        assert not RunFolder(out).finished
    resumed = train(config(**settings), data(), out, hardware=CPU)
    whole = train(config(**settings), data(), tmp_path / "whole", hardware=CPU)
    assert_same_run(whole.path, resumed.path)


def test_a_line_that_a_kill_cut_short_is_written_anew(tmp_path, killed_at):
    killed_at(15, steps=20)
    with pytest.raises(PowerCutError):
        train(config(), data(), tmp_path / "run", hardware=CPU)
    with (tmp_path / "run" / "log.jsonl").open("a") as file:
        file.write('{"step": 15, "lo')
    killed_at(-1, steps=20)
    train(config(), data(), tmp_path / "run", hardware=CPU)
    assert [entry["step"] for entry in read_log(tmp_path / "run" / "log.jsonl")] == [5, 10, 15, 20]


def test_a_resumed_run_warns_of_a_collapse_once_as_an_uninterrupted_one_does(tmp_path, killed_at):
    scans = data()
    empty = [replace(scan, full=(scan.full * 0)) for scan in scans.train["full"]]
    scans = replace(scans, train={**scans.train, "full": empty})  # the full masks lead to expect no disc at all
    settings = {"method": "single", "weights": {"weak": 10.0}, "lr": 0.05, "steps": 40}
    whole = train(config(**settings), scans, tmp_path / "whole", hardware=CPU)
    entries = read_log(whole.path / "log.jsonl")
    first = next(entry["step"] for entry in entries if entry["warning"])
    killed_at(first + 5, steps=40)
    with pytest.raises(PowerCutError):
        train(config(**settings), scans, tmp_path / "broken", hardware=CPU)
    killed_at(-1, steps=40)
    resumed = train(config(**settings), scans, tmp_path / "broken", hardware=CPU)
    assert entries[first // 5]["collapsed"]
    assert not entries[first // 5]["warning"], "said once"
    assert log_of(resumed.path) == log_of(whole.path)


def test_a_finished_run_is_left_alone(tmp_path, monkeypatch):
    train(config(), data(), tmp_path / "run", hardware=CPU)
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in (tmp_path / "run").iterdir()}
    monkeypatch.setattr(run, "fit", None)
    train(config(), data(), tmp_path / "run", hardware=CPU)
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in before if path.name != ".lock"} == {
        path: found for path, found in before.items() if path.name != ".lock"
    }


def test_a_finished_run_trained_longer_goes_on_from_its_last_step(tmp_path):
    # With a constant schedule and no ramps, longer is the same as long from the start.
    train(config(), data(), tmp_path / "longer", hardware=CPU)
    longer = train(config(steps=30), data(), tmp_path / "longer", hardware=CPU)
    whole = train(config(steps=30), data(), tmp_path / "whole", hardware=CPU)
    assert longer.finished["steps"] == 30
    assert longer.config.training.steps == 30
    assert not differences(timeless(longer.path / "last.pt"), timeless(whole.path / "last.pt"))
    assert [entry["step"] for entry in read_log(longer.path / "log.jsonl")] == [5, 10, 15, 20, 25, 30]
    assert (longer.path / "metrics.csv").read_text() == (whole.path / "metrics.csv").read_text()


def test_trained_longer_the_schedule_is_that_of_the_new_length(tmp_path):
    train(config(schedule="poly"), data(), tmp_path / "run", hardware=CPU)
    train(config(schedule="poly", steps=40), data(), tmp_path / "run", hardware=CPU)
    rates = {entry["step"]: entry["lr"] for entry in read_log(tmp_path / "run" / "log.jsonl")}
    assert rates[20] == pytest.approx(1e-2 * (1 - 19 / 20) ** 0.9)
    assert rates[25] == pytest.approx(1e-2 * (1 - 24 / 40) ** 0.9)


def test_a_finished_run_is_no_longer_finished_while_it_is_trained_longer(tmp_path, killed_at):
    train(config(), data(), tmp_path / "run", hardware=CPU)
    killed_at(25, steps=30)
    with pytest.raises(PowerCutError):
        train(config(steps=30), data(), tmp_path / "run", hardware=CPU)
    assert not RunFolder(tmp_path / "run").finished


def test_a_run_that_goes_on_says_from_where(tmp_path, killed_at, capsys):
    killed_at(15, steps=20)
    with pytest.raises(PowerCutError):
        train(config(), data(), tmp_path / "run", hardware=CPU)
    assert "goes on" not in "".join(capsys.readouterr())
    killed_at(-1, steps=20)
    train(config(), data(), tmp_path / "run", hardware=CPU)
    assert "run goes on after step 14 of 20." in "".join(capsys.readouterr())


def test_fewer_steps_than_were_done_are_refused(tmp_path, killed_at):
    killed_at(15, steps=20)
    with pytest.raises(PowerCutError):
        train(config(), data(), tmp_path / "run", hardware=CPU)
    killed_at(-1, steps=20)
    with pytest.raises(MixsegError, match="was trained for 14 steps already"):
        train(config(steps=5), data(), tmp_path / "run", hardware=CPU)
    train(config(), data(), tmp_path / "run", hardware=CPU)
    with pytest.raises(MixsegError, match="was trained for 20 steps already"):
        train(config(steps=10), data(), tmp_path / "run", hardware=CPU)
    assert RunFolder(tmp_path / "run").finished["steps"] == 20


def test_the_test_set_of_a_finished_run_can_be_opened_later(tmp_path):
    train(config(), data(), tmp_path / "run", hardware=CPU)
    weights = (tmp_path / "run" / "last.pt").read_bytes()
    assert "test0" not in (tmp_path / "run" / "metrics.csv").read_text()
    opened = train(config(), data(), tmp_path / "run", hardware=CPU, test=True)
    assert opened.finished["test"]
    assert "test0" in (tmp_path / "run" / "metrics.csv").read_text()
    assert (tmp_path / "run" / "last.pt").read_bytes() == weights


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"lr": 0.5}, "lr=0.01, not 0.5"),
        ({"method": "kl"}, "method='kl-ent', not 'kl'"),
        ({"seed": 1}, "seed=0, not 1"),
        ({"batch": {"full": 1, "partial": 2}}, "batch="),
        ({"weights": {"distill": 1.0}}, "weights="),
    ],
)
def test_a_changed_config_is_refused_by_name(tmp_path, changes, words):
    settings = {"steps": 5}
    train(config(**settings), data(), tmp_path / "run", hardware=CPU)
    with pytest.raises(MixsegError) as caught:
        train(config(**{**settings, **changes}), data(), tmp_path / "run", hardware=CPU)
    assert words in str(caught.value)
    assert "choose another --out" in str(caught.value)
    assert RunFolder(tmp_path / "run").finished, "a refusal changes nothing"


@pytest.mark.parametrize("other", [{"hash": "others"}, {"protocol": {"full": ["x"]}}, {"classes": ("background", "b")}])
def test_other_data_or_another_split_are_refused(tmp_path, other):
    train(config(steps=5), replace(data(), folder="Hearts"), tmp_path / "run", hardware=CPU)
    for steps in (5, 10):
        with pytest.raises(MixsegError, match=r"holds a run on other data \(Hearts\)"):
            train(config(steps=steps), replace(data(), **other), tmp_path / "run", hardware=CPU)
    assert RunFolder(tmp_path / "run").finished


def test_what_does_not_change_the_weights_may_change(tmp_path):
    train(config(steps=5), data(), tmp_path / "run", hardware=CPU)
    again = train(config(steps=10, validate_every=2, compile=True), data(), tmp_path / "run", hardware=CPU)
    assert again.config.training.validate_every == 2


HOLD = """
import sys, time
from pathlib import Path
from mixseg.runs.folder import RunFolder
with RunFolder(Path(sys.argv[1])).locked():
    print("locked", flush=True)
    time.sleep(60)
"""


def test_two_processes_never_write_one_run(tmp_path):
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(MixsegError, match="Another process is writing"):
            train(config(steps=5), data(), tmp_path, hardware=CPU)
        assert not (tmp_path / "config.json").exists()
    finally:
        holder.kill()
        holder.communicate()
    assert train(config(steps=5), data(), tmp_path, hardware=CPU).finished, "a kill frees the lock"


def test_a_folder_that_is_no_run_is_one_sentence(tmp_path):
    with pytest.raises(MixsegError, match="is no run folder"):
        _ = RunFolder(tmp_path).config


def test_the_environment_tells_what_repeats_the_run(tmp_path):
    facts = train(config(steps=5), data(), tmp_path / "run", hardware=CPU).facts
    assert facts["data"] == "made"
    assert facts["classes"] == ["background", "disc"]
    assert {"mixseg", "torch", "numpy", "scipy"} <= set(facts["versions"])
    assert facts["device"].startswith("cpu")
