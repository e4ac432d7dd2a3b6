from dataclasses import replace

import numpy as np
import pytest

from made_runs import config, data
from mixseg.engine import Hardware
from mixseg.errors import MixsegError
from mixseg.run import train


def test_a_class_that_no_label_shows_is_named_before_anything_is_written(tmp_path):
    three = replace(data(), classes=("background", "disc", "square"))
    with pytest.raises(MixsegError, match="No training scan has a voxel labelled square"):
        train(config(steps=2), three, tmp_path / "run", hardware=Hardware("cpu"))
    assert not (tmp_path / "run").exists()


def test_a_class_that_only_partial_labels_show_will_do(tmp_path):
    some = data()
    for scan in some.train["partial"]:
        scan.partial[0, :2, :2] = 2
    train(config(steps=2), replace(some, classes=("background", "disc", "square")), tmp_path, hardware=Hardware("cpu"))


def test_without_partly_labelled_scans_it_trains_and_says_which_term_is_off(tmp_path, capsys):
    train(config(steps=2, method="kl-ent"), data(partial=0), tmp_path, hardware=Hardware("cpu"))
    assert "the confidence term (entropy) is off" in capsys.readouterr().out


def test_terms_that_have_scans_are_not_spoken_of(tmp_path, capsys):
    train(config(steps=2, method="kl-ent"), data(partial=0, bare=2), tmp_path, hardware=Hardware("cpu"))
    assert "off" not in capsys.readouterr().out


def test_masks_of_val_and_test_do_not_stand_in_for_training_labels(tmp_path):
    some = data()
    for scan in some.val:
        assert np.any(scan.full == 1)
    none = {
        kind: [replace(scan, full=scan.full * 0, partial=None) for scan in some.train["full"]] for kind in ("full",)
    }
    with pytest.raises(MixsegError, match="labelled disc"):
        train(config(steps=2, method="lower-bound"), replace(some, train={**none, "partial": []}), tmp_path)
