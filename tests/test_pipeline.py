"""From files to runs and back: old label maps go."""

import numpy as np

from mixseg import io
from mixseg.folder import RunFolder
from mixseg.pipeline import write_predictions


def test_label_maps_of_an_earlier_training_do_not_stay_behind(tmp_path):
    np.savez(tmp_path / "predictions.npz")
    old = tmp_path / "predictions" / "last" / "top" / "test0.nii.gz"
    io.write(old, np.zeros((4, 4, 2), np.uint8))
    write_predictions(RunFolder(tmp_path), None, [])
    assert not old.exists()
