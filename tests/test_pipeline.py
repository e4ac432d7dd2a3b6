"""From files to runs and back: which files are images, which weights answer, and that old label maps go."""

import numpy as np
import pytest

from made_runs import config, data
from mixseg import io
from mixseg.engine import Hardware
from mixseg.errors import MixsegError
from mixseg.folder import RunFolder
from mixseg.pipeline import find_images, predict_folder, write_predictions
from mixseg.run import train


def touch(folder, *names):
    for name in names:
        (folder / name).write_bytes(b"x")


def test_files_are_images_and_numbers_are_channels(tmp_path):
    touch(tmp_path, "b_0001.nii.gz", "b_0000.nii.gz", "a.nii.gz", "patient_12.mha", "notes.txt")
    found = {case.id: [source.path.name for source in case.image] for case in find_images(tmp_path)}
    assert found == {
        "a": ["a.nii.gz"],
        "b": ["b_0000.nii.gz", "b_0001.nii.gz"],
        "patient_12": ["patient_12.mha"],
    }


@pytest.mark.parametrize("twin", ["a.mha", "a_0000.nii.gz"])
def test_two_files_of_one_scan_are_not_two_channels(tmp_path, twin):
    touch(tmp_path, "a.nii.gz", twin)
    with pytest.raises(MixsegError, match=r"a.* and .*a.* are two files for one scan: rename or remove one"):
        find_images(tmp_path)


def test_images_of_another_number_of_channels_are_refused_with_the_remedy(tmp_path):
    train(config(steps=2), data(val=0), tmp_path / "run", hardware=Hardware("cpu"))
    for channel in range(2):
        io.write(tmp_path / "images" / f"a_000{channel}.nii.gz", np.zeros((16, 16, 2), np.float32))
    with pytest.raises(MixsegError, match=r"a_0000\.nii\.gz has 2 channels, and the run was trained on 1: give"):
        predict_folder(tmp_path / "run", tmp_path / "images", tmp_path / "out", device="cpu")
    assert not (tmp_path / "out").exists()


def test_a_run_without_validation_scans_predicts_with_its_last_weights(tmp_path):
    train(config(steps=2), data(val=0), tmp_path / "run", hardware=Hardware("cpu"))
    assert not (tmp_path / "run" / "best.pt").exists()
    io.write(tmp_path / "images" / "a.nii.gz", np.random.default_rng(0).normal(size=(16, 16, 2)).astype(np.float32))
    (written,) = predict_folder(tmp_path / "run", tmp_path / "images", tmp_path / "out", device="cpu")
    assert io.read(written).array.shape == (16, 16, 2)
    with pytest.raises(MixsegError, match=r"best\.pt does not exist"):
        predict_folder(tmp_path / "run", tmp_path / "images", tmp_path / "out", checkpoint="best", device="cpu")


def test_label_maps_of_an_earlier_training_do_not_stay_behind(tmp_path):
    np.savez(tmp_path / "predictions.npz")
    old = tmp_path / "predictions" / "last" / "top" / "test0.nii.gz"
    io.write(old, np.zeros((4, 4, 2), np.uint8))
    write_predictions(RunFolder(tmp_path), None, [])
    assert not old.exists()
