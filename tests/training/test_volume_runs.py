"""Runs on volumes, whole: what they write down, and with which windows they score."""

import itertools
import json
import shutil

import numpy as np
import pytest
import torch

from made_runs import config, data
from mixseg.data.augment import NONE
from mixseg.data.batches import Feed
from mixseg.datasets import phantom
from mixseg.inference.predictor import Predictor
from mixseg.methods import METHODS
from mixseg.runs.device import Hardware
from mixseg.runs.log import read_log
from mixseg.training.folder import train_folder
from mixseg.training.pseudo_labels import FILE as PROPOSALS
from mixseg.training.pseudo_labels import read_proposals
from mixseg.training.train import labelled_patches, train

CPU = Hardware("cpu")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run whose volumes are larger than its patches and sparsely labelled."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    return train(config(dims=3), data(dims=3, side=20, uneven=True), folder, hardware=CPU)


def test_the_share_of_patches_with_a_label_is_written_at_every_look_and_for_the_run(finished):
    log = read_log(finished.path / "log.jsonl")
    sizes = {"full": 2, "partial": 2}
    feed = Feed(
        data(dims=3, side=20, uneven=True).train,
        sizes,
        grid=(8, 8, 8),
        seed=0,
        augmentation=NONE,
        device=torch.device("cpu"),
    )
    steps = [0, *(entry["step"] for entry in log)]
    for entry, (first, last) in zip(log, itertools.pairwise(steps), strict=True):
        drawn = [(row != 255).any().item() for step in range(first, last) for row in feed(step).partial.partial]
        assert entry["labelled"] == pytest.approx(np.mean(drawn))
    assert 0 < finished.finished["labelled_patches"] < 1
    assert finished.finished["labelled_patches"] == pytest.approx(np.mean([entry["labelled"] for entry in log]))


def test_the_share_of_a_run_counts_every_step_once():
    log = [{"step": 50, "labelled": 1.0}, {"step": 100, "labelled": 0.5}, {"step": 120, "labelled": 0.0}]
    assert labelled_patches(log) == pytest.approx((50 * 1.0 + 50 * 0.5) / 120)
    assert labelled_patches([{"step": 5}]) is None
    assert labelled_patches([]) is None


def test_slices_have_no_such_share(tmp_path):
    flat = train(config(steps=2), data(), tmp_path / "run", hardware=CPU)
    assert flat.finished["labelled_patches"] is None
    assert all("labelled" not in entry for entry in read_log(flat.path / "log.jsonl"))


def test_a_finished_run_is_scored_anew_with_other_windows_and_not_trained(finished, tmp_path, capsys):
    shutil.copytree(finished.path, tmp_path / "run")
    weights = (tmp_path / "run" / "last.pt").read_bytes()
    scans = data(dims=3, side=20, uneven=True)
    again = train(config(dims=3, stride=[2, 2, 2], window="uniform"), scans, tmp_path / "run", hardware=CPU)
    assert "Scoring: 20 x 20 x 20 voxels: 343 windows of 8 x 8 x 8" in capsys.readouterr().out
    assert (tmp_path / "run" / "last.pt").read_bytes() == weights
    assert json.loads((tmp_path / "run" / "config.json").read_text())["inference"]["stride"] == [2, 2, 2]
    assert again.finished["summary"] != finished.finished["summary"]
    with np.load(finished.path / "predictions.npz") as one, np.load(tmp_path / "run" / "predictions.npz") as other:
        assert one.files == other.files


@pytest.mark.parametrize("method", [name for name in METHODS if name != "proposals"])
def test_every_method_trains_predicts_and_scores_volumes(tmp_path, method):
    kinds = {"partial": 0, "unlabeled": 2} if METHODS[method].sees == "unlabeled" else {"partial": 2}
    run = train(config(method=method, dims=3, steps=2), data(dims=3, side=10, **kinds), tmp_path, hardware=CPU)
    branches = {entry["branch"] for entry in run.finished["summary"]}
    assert branches
    with np.load(run.path / "predictions.npz") as maps:
        assert {name.split("/")[1] for name in maps.files} == branches
        assert all(maps[name].shape == (10, 10, 10) for name in maps.files)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("dims", [2, 3])
def test_on_a_gpu_a_run_that_was_loaded_answers_as_it_was_scored(tmp_path, dims):
    scans, hardware = data(dims=dims), Hardware("cuda")
    run = train(config(dims=dims, steps=4, precision="bf16"), scans, tmp_path / "run", hardware=hardware)
    predictor = Predictor.of(run, device="cuda", checkpoint="last")
    layout = torch.channels_last if dims == 2 else torch.channels_last_3d
    weights = [each for each in predictor.method.parameters() if each.ndim == dims + 2]
    assert all(each.is_contiguous(memory_format=layout) for each in weights)
    with np.load(run.path / "predictions.npz") as maps:
        for scan in scans.val:
            for branch, labels in predictor.maps(scan).labels.items():
                np.testing.assert_array_equal(labels, maps[f"last/{branch}/{scan.name}"])


def test_proposals_for_volumes_come_from_a_run_on_volumes(tmp_path):
    phantom.write(tmp_path / "scans", kind="atrium", patients=4, val=1, test=0, size=(24, 24), slices=20, seed=0)
    small = {"preset": "quick", "dims": 3, "set": 1, "ratio": 2, "partial": "erosion-10x10", "steps": 2}
    small |= {"network": "unet", "patch": [16, 16, 16], "width": 2, "depth": 2, "batch": {"full": 1}}
    for out, method in (("first", "lower-bound"), ("second", "proposals")):
        source = {"proposals_from": "first"} if method == "proposals" else {}
        settings = {**small, "method": method, **source}
        run = train_folder(tmp_path / "scans", tmp_path / out, settings=settings, dataset="phantom", hardware=CPU)
    assert run.finished["steps"] == 2
    proposed = read_proposals(tmp_path / "second" / PROPOSALS).masks
    assert {mask.shape for mask in proposed.values()} == {(24, 24, 20)}
    assert len(proposed) == 2
