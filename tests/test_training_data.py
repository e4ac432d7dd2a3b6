from dataclasses import replace

import numpy as np
import pytest

from made_runs import config, data
from mixseg.engine import Hardware
from mixseg.errors import MixsegError
from mixseg.run import train


def without_partial_labels(**counts):
    """Scans with full masks or with nothing."""
    some = data(**counts)
    full = [replace(scan, partial=None) for scan in some.train["full"]]
    return replace(some, train={**some.train, "full": full})


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


@pytest.mark.parametrize(
    ("settings", "off"),
    [
        ({"method": "kl-ent"}, "weak, entropy"),
        ({"method": "kl-ent", "weights": {"weak": 0.0}}, "entropy"),
        ({"method": "kl-ent", "entropy_on": "all"}, "weak"),
        ({"method": "ua-mt"}, "consistency"),
    ],
)
def test_without_partly_labelled_scans_it_trains_and_says_which_terms_are_off(tmp_path, capsys, settings, off):
    train(config(steps=2, **settings), without_partial_labels(partial=0), tmp_path, hardware=Hardware("cpu"))
    assert f"No scan is partly labelled or unlabelled: what needs one is off ({off})." in capsys.readouterr().out


def test_without_partial_labels_unlabelled_scans_still_feed_the_other_terms(tmp_path, capsys):
    some = without_partial_labels(partial=0, bare=2)
    train(config(steps=2, method="kl-ent"), some, tmp_path, hardware=Hardware("cpu"))
    assert "No scan has partial labels: the term weak is off." in capsys.readouterr().out


@pytest.mark.parametrize("method", ["lower-bound", "kl-ent"])
def test_terms_that_have_scans_are_not_spoken_of(tmp_path, capsys, method):
    # The full scans have partial labels too.
    scans = data(partial=0, bare=0 if method == "lower-bound" else 2)
    train(config(steps=2, method=method), scans, tmp_path, hardware=Hardware("cpu"))
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
