"""Rounds of self-training: each from the one before, finished ones left alone, and what is shown of them."""

import json
import os
import shutil
import subprocess
import sys
from itertools import count, pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from mixseg.cli import main
from mixseg.core.errors import MixsegError
from mixseg.datasets.simulate import Recipe, simulate_phantom
from mixseg.report.contenders import common_part, gather, score_lines
from mixseg.report.run_files import RunFiles
from mixseg.report.self_training import write_rounds
from mixseg.runs.build import load
from mixseg.runs.config import read_config
from mixseg.runs.device import Hardware
from mixseg.runs.folder import RunFolder
from mixseg.training import self_training
from mixseg.training import train as run
from mixseg.training.folder import train_folder
from mixseg.training.pseudo_labels import FILE, read_proposals
from mixseg.training.self_training import self_train

CPU = Hardware("cpu")
pytestmark = pytest.mark.usefixtures("unpainted")  # but for the page of ``made``, which is there before
SMALL = {"preset": "quick", "target": ["LV"], "steps": 4, "size": [16, 16], "width": 2, "depth": 2, "validate_every": 2}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Scans of four train patients, one of them with full masks; a finished run; two rounds from it."""
    root = tmp_path_factory.mktemp("made")
    recipe = Recipe(partial="erosion-3x3", keep_full=1)
    simulate_phantom(root / "scans", recipe, kind="heart", size=16, seed=0, patients=6, val=1, test=1)
    train_folder(root / "scans", root / "first", settings={**SMALL, "method": "lower-bound", "seed": 1}, hardware=CPU)
    lines, page = rounds(root, 2)
    return root, lines, page


def rounds(root, wanted, **options):
    runs = self_train(
        root / "scans", root / "rounds", source=root / "first", rounds=wanted, hardware=CPU, test=True, **options
    )
    return write_rounds(runs, root / "rounds")


@pytest.fixture
def copied(made, tmp_path):
    return shutil.copytree(made[0], tmp_path / "copied", symlinks=True)


def test_each_round_learns_from_the_round_before_with_a_seed_of_its_own(made):
    root, _, _ = made
    runs = [root / "first", root / "rounds" / "round-1", root / "rounds" / "round-2"]
    configs = [RunFolder(run).config for run in runs]
    assert [config.training.seed for config in configs] == [1, 1001, 2001]
    assert [config.method.proposals_from for config in configs] == ["", "../first", "round-1"]
    assert [config.training.steps for config in configs] == [4, 4, 4], "the settings of the first run are taken over"
    assert RunFolder(runs[2]).facts["proposals"]["methods"] == ["lower-bound", "proposals"]
    first_weights = [next(iter(load(RunFolder(run), channels=1, classes=2).method.parameters())) for run in runs]
    assert not any((a == b).all() for a, b in pairwise(first_weights))
    assert all(read_proposals(run / FILE).masks for run in runs[1:]), "every round keeps its proposals"


def test_finished_rounds_are_left_alone_and_more_can_be_asked_for(copied, monkeypatch, capsys):
    trained = []

    def noted(folder, out, **options):
        trained.append(out.name)
        return train_folder(folder, out, **options)

    monkeypatch.setattr(self_training, "train_folder", noted)
    rounds(copied, 2)
    assert trained == []
    assert "round 2 of 2: finished before" in capsys.readouterr().out
    lines, _ = rounds(copied, 3)
    assert trained == ["round-3"]
    assert [line[0] for line in lines] == ["round", "1", "2", "3"]


def test_stopped_in_a_round_it_goes_on_there_and_ends_with_the_same_weights(copied, monkeypatch, capsys):
    uninterrupted = copied / "rounds" / "round-2" / "last.pt"
    expected = torch.load(uninterrupted, weights_only=True)["method"]
    shutil.rmtree(copied / "rounds")
    looks = count(1)

    class Dies(run.Validation):
        def __call__(self, *seen):
            if next(looks) == 4:  # each round looks twice: the end of the second one
                raise KeyboardInterrupt
            return super().__call__(*seen)

    with monkeypatch.context() as patch:
        patch.setattr(run, "Validation", Dies)
        with pytest.raises(KeyboardInterrupt):
            rounds(copied, 2)
    stopped = torch.load(uninterrupted, weights_only=True)
    assert stopped["step"] == 2
    assert not RunFolder(copied / "rounds" / "round-2").finished
    capsys.readouterr()
    rounds(copied, 2)
    assert "round 1 of 2: finished before" in capsys.readouterr().out
    found = torch.load(uninterrupted, weights_only=True)["method"]
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert not all(torch.equal(stopped["method"][name], expected[name]) for name in expected)


def test_other_settings_or_another_source_are_refused_not_skipped(copied):
    with pytest.raises(MixsegError, match="holds a run with lr="):
        rounds(copied, 2, settings={"lr": 0.5})
    shutil.copy(copied / "rounds" / "round-2" / "last.pt", copied / "rounds" / "round-1" / "last.pt")
    with pytest.raises(MixsegError, match=r"has changed since .*round-2 took its proposals"):
        rounds(copied, 2)


@pytest.mark.parametrize("wanted", [1, 3])
def test_other_steps_are_refused_before_a_round_that_a_later_one_has_learnt_from_is_touched(copied, wanted):
    def weights():
        return [(copied / "rounds" / name / "last.pt").read_bytes() for name in ("round-1", "round-2")]

    before = weights()
    with pytest.raises(MixsegError, match=r"round-1 was trained for 4 steps, not 6, and .*round-2 has learnt from it"):
        rounds(copied, wanted, settings={"steps": 6})
    assert weights() == before
    rounds(copied, 3, settings={"steps": 4, "on_collapse": "stop"})
    assert weights() == before
    assert RunFolder(copied / "rounds" / "round-3").finished["steps"] == 4


def test_the_last_round_can_be_trained_longer(copied):
    shutil.rmtree(copied / "rounds" / "round-2")
    rounds(copied, 1, settings={"steps": 6})
    assert RunFolder(copied / "rounds" / "round-1").finished["steps"] == 6


def test_the_table_has_the_means_of_every_round_that_was_scored_on_the_same_part(made):
    root, (head, *rows), _ = made
    assert head[:5] == ("round", "method", "seed", "scans", "DSC (%)")
    assert [row[:4] for row in rows] == [("1", "proposals", "1001", "2"), ("2", "proposals", "2001", "2")]
    for row, name in zip(rows, ("round-1", "round-2"), strict=True):
        scored = RunFiles.read(root / "rounds" / name).chosen(part="test", branch="top")
        assert row[4].startswith(f"{100 * np.mean([each.dsc for each in scored]):.2f} ±")


def test_the_first_run_is_round_0_where_it_was_scored_too(copied):
    train_folder(copied / "scans", copied / "first", settings={**SMALL, "method": "lower-bound", "seed": 1},
                 hardware=CPU, test=True)  # fmt: skip
    (_, *rows), _ = rounds(copied, 2)
    assert [row[:3] for row in rows] == [
        ("0", "lower-bound", "1"),
        ("1", "proposals", "1001"),
        ("2", "proposals", "2001"),
    ]


def test_the_picture_and_the_page_are_there(made):
    root, _, page = made
    with Image.open(root / "rounds" / "rounds.png") as picture:
        assert np.asarray(picture.convert("L")).std() > 5
    text = page.read_text()
    assert "Self-training, 2 rounds" in text
    assert "data:image/png" in text


def test_seeds_of_one_chain_are_compared_together_and_rounds_apart(made, tmp_path):
    root, _, _ = made
    other = shutil.copytree(root / "rounds" / "round-1", tmp_path / "round-1")
    config = read_config(other / "config.json")
    (other / "config.json").write_text(json.dumps({**config, "seed": 7, "proposals_from": "elsewhere"}))
    runs = [root / "rounds" / "round-1", other, root / "rounds" / "round-2"]
    found = gather(runs)
    head, first, second = score_lines(found, common_part(found))
    shown = [[line[head.index(name)] for name in ("method", "output", "seeds")] for line in (first, second)]
    assert shown[0] == ['proposals (proposals_from "lower-bound")', "network (top)", "2"]
    assert shown[1] == ['proposals (proposals_from "lower-bound > proposals")', "network (top)", "1"]


@pytest.mark.parametrize(
    ("folder", "sentence"),
    [
        ("first", "first is a run, whose report.html would be lost: choose another"),
        ("scans", r"scans is no run folder .* not empty \(dataset.json\): choose a new or an empty"),
    ],
)
def test_a_folder_of_a_run_or_of_scans_takes_no_rounds(copied, folder, sentence):
    out = copied / folder
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    with pytest.raises(MixsegError, match=sentence):
        self_train(copied / "scans", out, source=copied / "first", rounds=1, hardware=CPU)
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before


def test_finished_rounds_answer_for_no_other_scans(copied):
    for name, sentence in {
        "nowhere": "nowhere does not exist",
        "others": r"holds a run on other data \(scans\)",
    }.items():
        if name == "others":
            (copied / "scans").rename(copied / "others")
        with pytest.raises(MixsegError, match=sentence):
            self_train(copied / name, copied / "rounds", source=copied / "first", rounds=1, hardware=CPU, test=True)


def test_a_first_run_without_test_scores_is_said_to_be_left_out(copied, capsys):
    lines, _ = rounds(copied, 1)
    assert [line[0] for line in lines] == ["round", "1"]
    words = [
        "--from",
        str(copied / "first"),
        "--rounds",
        "1",
        "--out",
        str(copied / "rounds"),
        "--device",
        "cpu",
        "--test",
    ]
    capsys.readouterr()
    assert main(["self-train", str(copied / "scans"), *words]) == 0
    assert "first, round 0, was not scored on these scans and is left out" in capsys.readouterr().out


@pytest.mark.parametrize("settings", [{"method": "kl"}, {"proposals_from": "elsewhere"}])
def test_what_every_round_has_by_itself_is_not_taken_and_ignored(made, settings):
    with pytest.raises(MixsegError, match=f"--set {next(iter(settings))} is nothing to choose for a round"):
        rounds(made[0], 2, settings=settings)


@pytest.mark.parametrize("settings", [{"seed": "one"}, {"seed": None}, {"wieghts": {"full": 2}}, {"lr": {"full": 2}}])
def test_settings_that_no_run_can_have_are_told_beside_finished_rounds_too(made, settings):
    with pytest.raises(MixsegError, match=next(iter(settings))):
        rounds(made[0], 2, settings=settings)


def test_no_rounds_are_one_sentence(made):
    with pytest.raises(MixsegError, match="--rounds is 0"):
        rounds(made[0], 0)


def test_two_processes_train_round_after_round(copied):
    words = ["self-train", "scans", "--from", "first", "--rounds", "2", "--out", "two", "--device", "cpu"]
    more = ["--devices", "2", "--on-collapse", "stop", "--set", "steps=2"]
    done = subprocess.run(
        [sys.executable, "-m", "mixseg", *words, *more],
        cwd=copied,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("With a picture") == 1, "the other process ends with the training"
    runs = [RunFolder(copied / "two" / f"round-{number}") for number in (1, 2)]
    assert [run.finished["steps"] for run in runs] == [2, 2]
    assert [run.config.training.on_collapse for run in runs] == ["stop", "stop"]


def test_a_preset_of_its_own_takes_over_what_proposals_are_made_for_and_no_more(made, tmp_path, monkeypatch):
    monkeypatch.chdir(shutil.copytree(made[0], tmp_path / "copied", symlinks=True))
    clipped = {**SMALL, "method": "lower-bound", "clip": [1, 99], "lr": 0.5, "optimizer": "sgd"}
    first = train_folder(Path("scans"), Path("clipped"), settings=clipped, hardware=CPU)
    words = ["train", "scans", "--out", "again", "--method", "proposals", "--from", "clipped", "--preset", "quick"]
    small = [word for key in ("steps", "width", "depth") for word in ("--set", f"{key}={SMALL[key]}")]
    assert main([*words, *small, "--device", "cpu"]) == 0
    again = RunFolder(Path("again"))
    assert again.facts["data"] == first.facts["data"]
    assert again.config.data == first.config.data
    assert (again.config.data.clip, again.config.data.size) == ((1.0, 99.0), (16, 16))
    assert (again.config.training.lr, again.config.training.optimizer) == (2e-3, "adam"), "the preset's own"


def test_several_machines_are_refused(made):
    root = made[0]
    with pytest.raises(MixsegError, match="on one machine"):
        self_train(root / "scans", root / "far", source=root / "first", hardware=Hardware("cpu", nodes=2))


def test_from_the_command_line(copied, monkeypatch, capsys):
    monkeypatch.chdir(copied)
    shutil.rmtree("rounds")
    device = ["-device", "cpu"]
    assert main(["train", "scans", "--out", "again", "--method", "proposals", "--from", "first", *device]) == 0
    assert RunFolder(copied / "again").config.method.proposals_from == "first"
    words = ["self-train", "scans", "--from", "first", "--rounds", "1", "--out", "rounds", "--set", "steps=2"]
    assert main([*words, *device]) == 0
    assert "With a picture: rounds/report.html" in capsys.readouterr().out
    assert RunFolder(copied / "rounds" / "round-1").config.training.steps == 2
    assert main(["train", "scans", "--out", "wrong", "--from", "first", *device]) == 4
    assert "kl-ent takes no proposals" in capsys.readouterr().err
