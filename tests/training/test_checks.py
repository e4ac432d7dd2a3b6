"""What no scans can be trained with is told before a scan is read; what some scans could be is not refused."""

import sys

import pytest

from dataset_folders import make_nnunet
from made_runs import config, data
from mixseg.core.errors import MixsegError
from mixseg.datasets.labels import LabelFlags
from mixseg.runs.config import settings_of
from mixseg.runs.device import Hardware
from mixseg.runs.folder import RunFolder
from mixseg.training import folder
from mixseg.training.checks import check_before_reading
from mixseg.training.folder import train_folder
from mixseg.training.plan.settings import planned
from mixseg.training.train import train

CPU = Hardware("cpu")


@pytest.fixture
def unread(tmp_path, monkeypatch):
    """A folder of scans that may not be read."""

    def read(*_):
        pytest.fail("the scans were read")

    monkeypatch.setattr(folder, "load", read)
    return make_nnunet(tmp_path / "scans")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"method": "kl-entt"}, "Unknown method 'kl-entt': did you mean 'kl-ent'"),
        ({"method": 5}, "Unknown method 5: choose one of"),
        ({"preset": 5}, "Unknown preset 5: choose one of"),
        ({"weights": {"entropi": 1.0}}, "kl-ent has no term 'entropi' to weigh"),
        ({"method": "lower-bound", "weights": {"weak": 1.0}}, "lower-bound has no term 'weak' to weigh"),
        ({"lr": -1}, "'lr' in the config is -1"),
        ({"stepz": 4}, "Unknown key 'stepz'"),
        ({"partial": "erosion-4x4"}, "no partial labels named 'erosion-4x4'"),
        ({"target": ["LV", "RV", "LV"]}, "target names the class LV twice"),
        ({"clip": [99, 1]}, r"clip is \(99.0, 1.0\)"),
        ({"spacing": [1, 1, 1], "patch": [0, 8, 8]}, "'patch' in the config is"),
        ({"spacing": 1.5}, "'spacing' in the config is 1.5"),
        ({"network": "vnet", "geometry": "authors"}, "V-Net has one geometry"),
        ({"method": "glmi", "depth": 1}, "glmi reads features at half resolution"),
        ({"dropout": 1}, r"A dropout lies in \[0, 1\)"),
        ({"width": 10**9, "depth": 40}, "No network fits width, depth, grid and batch"),
        ({"dims": 2, "size": [250, 250]}, r"pad \(250, 250\) to \(256, 256\)"),
        ({"dims": 3, "patch": [30, 32, 32], "preset": "quick"}, r"pad \(30, 32, 32\)"),
        (
            {"dims": 3, "size": [48, 48]},
            r"size is a setting of slices, .* volumes \(dims 3\): leave it out, give",
        ),
        ({"dims": 3, "long_side": 48}, "long_side is a setting of slices"),
        (
            {"dims": 2, "patch": [16, 16, 16]},
            r"patch is a setting of volumes, .* slices \(dims 2\): leave it out",
        ),
        ({"dims": 2, "stride": [8, 8, 8], "preset": "quick"}, "stride is a setting of volumes"),
        ({"method": "proposals"}, "name it with --from RUN"),
        ({"method": "kl", "proposals_from": "run"}, "kl takes no proposals"),
        ({"method": "proposals", "proposals_from": "nowhere"}, "nowhere is no run folder"),
        ({"split": "nowhere.json"}, "nowhere.json does not exist"),
        (
            {"preset": "quick", "dims": 3, "patch": [16, 16, 16], "batch": {"full": 1}},
            "batch .*more than 1 value per",
        ),
        ({"preset": "quick", "dims": 2, "size": [8, 8], "batch": {"partial": 1}}, "batch .*more than 1 value per"),
    ],
)
def test_settings_that_suit_no_scans_are_refused_before_they_are_read(unread, tmp_path, settings, sentence):
    with pytest.raises(MixsegError, match=sentence):
        train_folder(unread, tmp_path / "run", settings=settings, hardware=CPU)
    assert not (tmp_path / "run").exists()


def test_so_are_flags_processes_and_libraries(unread, tmp_path, monkeypatch):
    out = tmp_path / "run"
    with pytest.raises(MixsegError, match="--foreground-only says it all"):
        train_folder(unread, out, flags=LabelFlags(background=4, foreground_only=True), hardware=CPU)
    with pytest.raises(MixsegError, match="2 cannot be both unlabeled and background"):
        train_folder(unread, out, flags=LabelFlags(unlabeled=2, background=2), hardware=CPU)
    three = Hardware("cpu", devices=3)
    with pytest.raises(MixsegError, match="8 full images a step cannot be shared by 3 processes"):
        train_folder(unread, out, settings={"preset": "quick", "dims": 2}, hardware=three)
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MixsegError, match="MLflow is not installed"):
        train_folder(unread, out, settings={"mlflow": True}, hardware=CPU)


def test_so_is_what_the_run_folder_or_the_run_that_proposes_is_no_good_for(unread, tmp_path):
    run = train(config(dataset="nnunet"), data(), tmp_path / "run", hardware=CPU)
    same = {key: value for key, value in settings_of(run.config).items() if key not in ("batch", "largest")}
    with pytest.raises(MixsegError, match=r"run holds a run with lr=0\.01, not 0\.5"):
        train_folder(unread, run.path, settings={**same, "lr": 0.5}, hardware=CPU)
    with pytest.raises(MixsegError, match="was trained for 20 steps already"):
        train_folder(unread, run.path, settings={**same, "steps": 10}, hardware=CPU)
    (run.path / "finished.json").unlink()
    with pytest.raises(MixsegError, match="run is not finished, so it cannot propose masks"):
        train_folder(unread, tmp_path / "new", settings={"method": "proposals", "proposals_from": "run"}, hardware=CPU)
    with pytest.raises(pytest.fail.Exception, match="the scans were read"):
        train_folder(unread, run.path, settings=same, hardware=CPU)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"spacing": [1, 1, 1]},  # volumes, if the scans are such
        {"spacing": [1.5, 1.5]},
        {"geometry": "authors"},  # slices alone can have it
        {"preset": "quick", "patch": [30, 32, 32]},  # of no concern to slices
        {"method": "ssco", "dims": 2, "size": [64, 96]},
        {"dims": 2, "size": [16, 16]},  # a single voxel in the bottleneck
        {"preset": "paper", "dims": 3},
        {"preset": "quick", "dims": 3},  # whose stride or size is its own
        {"dims": 3, "size": [256, 256], "patch": [32, 32, 32]},  # serves either
        settings_of(config(dims=2)),
        settings_of(config(dims=3, size=[48, 48])),  # as a run wrote it that was not asked
    ],
)
def test_settings_that_some_scans_can_be_trained_with_are_not_refused(tmp_path, settings):
    check_before_reading(settings, RunFolder(tmp_path / "run"), CPU)
    assert not (tmp_path / "run").exists()


def test_a_run_that_has_begun_with_a_key_of_no_use_goes_on_without_it(tmp_path):
    run = train(config(dims=3, steps=2, size=[48, 48]), data(dims=3), tmp_path / "run", hardware=CPU)
    same = {key: value for key, value in settings_of(run.config).items() if key not in ("size", "patch", "stride")}
    with pytest.raises(MixsegError, match="size is a setting of slices"):
        check_before_reading({**same, "size": [48, 48]}, run, CPU)
    check_before_reading(same, run, CPU)
    found, _ = planned(list, same, run, CPU)
    assert found.data.size == (48, 48)
