"""What one command reads of a run: its config once, and no weights that it has just written."""

import sys
from pathlib import Path

import pytest
import torch

from mixseg.cli import main
from mixseg.datasets import phantom

OPENED: list[str] = []
"""Files that were opened for reading, while ``opened`` is in use."""
LISTENING = []


def _hook(event, arguments):
    if event == "open" and LISTENING and isinstance(arguments[0], str | Path) and arguments[1] in ("r", "rb"):
        OPENED.append(str(arguments[0]))


@pytest.fixture(scope="module", autouse=True)
def hook():
    sys.addaudithook(_hook)  # which cannot be taken away again: it does nothing where nobody listens


@pytest.fixture
def opened(monkeypatch):
    """How often a call opens files of a name, and loads weights."""
    loaded, load = [], torch.load

    def counted(path, *words, **more):
        loaded.append(Path(path).name)
        return load(path, *words, **more)

    monkeypatch.setattr(torch, "load", counted)

    def count(*words):
        OPENED.clear()
        loaded.clear()
        LISTENING.append(True)
        try:
            assert main([*words]) == 0
        finally:
            LISTENING.clear()
        runs = [Path(path) for path in OPENED if Path(path).name == "config.json"]
        return {path.parent.name: runs.count(path) for path in runs}, list(loaded)

    return count


def test_one_training_reads_a_config_once_and_no_weights_that_it_has_in_memory(tmp_path, monkeypatch, opened):
    monkeypatch.chdir(tmp_path)
    phantom.write(Path("scans"), patients=4, val=1, test=1, size=(24, 24))
    tiny = ["--preset", "quick", "--device", "cpu", "--set", "width=2", "--set", "depth=2", "--set", "size=[16,16]"]
    tiny += ["--set", 'batch={"full":1,"partial":1}', "--set", "spacing=[2,2]", "--set", "validate_every=1"]
    train = [
        "train",
        "scans",
        *tiny,
        "--set",
        'target=["LV"]',
        "--set",
        "partial=points",
        "--set",
        "set=1",
        "--set",
        "ratio=1",
    ]
    first = [*train, "--out", "run", "--method", "kl", "--set", "steps=2", "--test"]
    assert opened(*first) == ({}, []), "what is written is known; resampled scans are predicted once more"
    assert {path.name for path in Path("run/predictions").iterdir()} >= {"last"}
    assert opened(*first) == ({"run": 1}, []), "the same command again finds it finished"
    assert opened(*first, "--set", "steps=3") == ({"run": 1}, ["last.pt", "best.pt"]), "more steps take it up"
    proposals = [*train, "--out", "taught", "--method", "proposals", "--from", "run", "--set", "steps=2"]
    assert opened(*proposals) == ({"run": 1}, ["last.pt"]), "the run that proposes is asked once for everything"
