"""The run folder between processes."""

from pathlib import Path

import pytest

from made_runs import config, data
from mixseg.core.errors import MixsegError
from mixseg.runs.device import Hardware
from mixseg.runs.folder import RunFolder
from mixseg.training.folder import train_folder
from mixseg.training.train import train


def test_a_run_that_is_begun_again_at_this_moment_is_not_finished(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "exists", lambda path: True)  # it was there just now
    assert RunFolder(tmp_path).finished is None


@pytest.mark.parametrize("name", ["imagesTr/a_0000.nii.gz", "a.nii.gz", "classes.json", "kl-ent/config.json"])
def test_a_folder_of_something_else_is_no_place_for_a_run(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("{}")
    first = name.split("/")[0]
    sentence = (
        rf"is no run folder \(it has no config\.json\), and it is not empty \({first}\): choose a new or an empty"
    )
    with pytest.raises(MixsegError, match=sentence):
        train(config(steps=2), data(), tmp_path, hardware=Hardware("cpu"))
    assert [path.name for path in tmp_path.iterdir()] == [first], "nothing was written"
    with pytest.raises(MixsegError, match=sentence):
        train_folder(tmp_path / "nowhere", tmp_path)  # before the scans are looked at


@pytest.mark.parametrize("names", [[], [".lock"], ["config.json", "proposals.npz"], ["console.log", "failed.json"]])
def test_what_a_run_leaves_that_did_not_come_to_begin_is_no_hindrance(tmp_path, names):
    for name in names:
        (tmp_path / name).write_text("{}")
    assert train(config(steps=2), data(), tmp_path, hardware=Hardware("cpu")).finished["steps"] == 2
