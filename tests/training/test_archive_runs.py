"""``python -m mixseg.training``: training from what ``mixseg prepare`` made, an archive or a folder."""

import json
import os
import re
import subprocess
import sys

import pytest

from made_runs import checkpoint
from mixseg.cli import main as mixseg
from mixseg.data.prepare.store import Prepared
from mixseg.datasets.simulate import Recipe, simulate_phantom
from mixseg.runs.folder import RunFolder
from mixseg.training.__main__ import main
from patience import wait_until

CONFIG = {"preset": "quick", "method": "lower-bound", "steps": 2, "width": 2, "depth": 2, "size": [16, 16]}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Scans, and what prepare makes of them with the outermost percentiles clipped."""
    root = tmp_path_factory.mktemp("made")
    simulate_phantom(root / "scans", Recipe(keep_full=1), kind="heart", size=20, seed=0, patients=4, val=1, test=1)
    clip = ["--clip", "1", "99", "--workers", "1"]
    assert mixseg(["prepare", str(root / "scans"), str(root / "scans.zip"), "--pack", *clip]) == 0
    assert mixseg(["prepare", str(root / "scans"), str(root / "arrays"), "--size", "16", "16", *clip]) == 0
    return root


def start(made, out, data, **changes):
    path = out / "config.json"
    path.write_text(json.dumps(CONFIG | changes))
    split = made / "scans" / "splits.json"
    main([str(path), "--data", str(made / data), "--split", str(split), "--out", str(out), "--device", "cpu"])
    return RunFolder(out / "config")


@pytest.mark.parametrize(("data", "name"), [("scans.zip", "scans"), ("arrays", "")])
def test_a_run_trains_from_it_and_takes_its_clip_over(made, tmp_path, data, name):
    run = start(made, tmp_path, data)
    assert run.finished["steps"] == 2
    assert run.facts.get("folder", "") == name, "a name, no path; arrays may be called anything"
    assert run.facts["data"] == Prepared(made / "arrays").content
    assert run.config.data.prepare_options.clip == (1.0, 99.0), "what will be predicted is clipped alike"
    assert start(made, tmp_path, data).finished == run.finished, "the same call again changes nothing"


def test_an_archive_is_unpacked_to_a_folder_named_after_it_and_the_grid(made, tmp_path):
    start(made, tmp_path, "scans.zip")
    (folder,) = (tmp_path / ".prepared").iterdir()
    assert folder.name.startswith("scans-")
    assert Prepared(folder).content == Prepared(made / "arrays").content


@pytest.mark.parametrize(
    ("data", "changes", "sentence"),
    [
        ("arrays", {"size": [20, 20]}, "arrays was prepared with size (16, 16), and the config asks for (20, 20)"),
        ("arrays", {"clip": [2, 98]}, "arrays was prepared with clip (1.0, 99.0), and the config asks for (2.0, 98.0)"),
        ("scans.zip", {"clip": [2, 98]}, "scans.zip was packed with clip (1.0, 99.0), not (2.0, 98.0)"),
    ],
)
def test_another_grid_or_clip_than_that_of_the_config_is_one_sentence(made, tmp_path, capsys, data, changes, sentence):
    with pytest.raises(SystemExit) as ended:
        start(made, tmp_path, data, **changes)
    assert ended.value.code == 4
    assert sentence in capsys.readouterr().err


def test_without_test_patients_there_is_nothing_to_test(made, tmp_path, capsys):
    parts = json.loads((made / "scans" / "splits.json").read_text())
    (tmp_path / "splits.json").write_text(json.dumps(parts | {"test": []}))
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    words = [str(tmp_path / "config.json"), "--data", str(made / "arrays"), "--out", str(tmp_path), "--device", "cpu"]
    words += ["--split", str(tmp_path / "splits.json")]
    with pytest.raises(SystemExit, match="4"):
        main([*words, "--test"])
    assert "There are no test patients: leave the test out" in capsys.readouterr().err
    assert not (tmp_path / "config").exists()
    main(words)
    assert RunFolder(tmp_path / "config").finished["test"] is False


def test_a_training_goes_on_when_nobody_reads_what_it_prints(made, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG | {"steps": 40}))
    words = [str(path), "--data", str(made / "arrays"), "--split", str(made / "scans" / "splits.json")]
    command = [sys.executable, "-m", "mixseg.training", *words, "--out", str(tmp_path), "--device", "cpu"]
    ours, theirs = os.pipe()
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs)
    os.close(theirs)
    assert b"config: lower-bound" in os.read(ours, 200)
    os.close(ours)
    assert process.wait(timeout=120) == 0
    assert RunFolder(tmp_path / "config").finished["steps"] == 40


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such signal")
def test_a_training_that_is_terminated_says_what_it_keeps(made, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG | {"steps": 100_000, "validate_every": 50}))
    words = [str(path), "--data", str(made / "arrays"), "--split", str(made / "scans" / "splits.json")]
    command = [sys.executable, "-m", "mixseg.training", *words, "--out", str(tmp_path), "--device", "cpu"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_until((tmp_path / "config" / "last.pt").exists, seconds=60)
            process.terminate()
            told = process.communicate(timeout=60)[1].splitlines()[-1]
        finally:
            process.kill()
    assert process.returncode == 143
    kept = checkpoint(tmp_path / "config" / "last.pt")["step"]
    assert re.fullmatch(rf"Stopped at step \d+ of 100000; the checkpoint of step {kept} is kept: the same .*", told)


def test_an_interrupt_is_one_sentence(monkeypatch, tmp_path, capsys):
    def interrupted(options):
        raise KeyboardInterrupt("Stopped at step 412 of 3000; ...")

    monkeypatch.setattr("mixseg.training.__main__._train_all", interrupted)
    words = ["config.json", "--data", "arrays", "--split", "splits.json", "--out", str(tmp_path)]
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 130
    assert capsys.readouterr().err == "Stopped at step 412 of 3000; ...\n"


def test_a_file_that_the_system_refuses_is_one_sentence_here_too(tmp_path, capsys):
    long = "x" * 300
    with pytest.raises(SystemExit) as ended:
        main([long, "--data", "arrays", "--split", "splits.json", "--out", str(tmp_path)])
    assert ended.value.code == 4
    assert capsys.readouterr().err == f"{long}: File name too long; name another file or folder.\n"
