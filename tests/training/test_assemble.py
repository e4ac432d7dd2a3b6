import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import ndimage

from made_runs import config, data
from mixseg.core.errors import MixsegError
from mixseg.core.types import IGNORE
from mixseg.data.prepare.files import prepare
from mixseg.datasets.split import Split
from mixseg.evaluation.scores import read_metrics
from mixseg.runs.build import load
from mixseg.runs.device import Hardware
from mixseg.training.assemble import seen_by, settle_largest
from mixseg.training.train import train
from scans import write_case


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


def test_a_test_without_test_scans_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(MixsegError, match=r"There are no test patients: leave the test out .*, or name some"):
        train(config(steps=2), replace(data(), open_test=tuple), tmp_path / "run", hardware=Hardware("cpu"), test=True)
    assert not (tmp_path / "run").exists()


def test_a_class_that_only_partial_labels_show_will_do(tmp_path):
    some = data()
    for scan in some.train["partial"]:
        scan.partial[0, :2, :2] = 2
    three = replace(some, classes=("background", "disc", "square"))
    run = train(config(steps=2), three, tmp_path, hardware=Hardware("cpu"))
    assert run.facts["classes"] == list(three.classes)
    found = load(run, channels=1, classes=3).method.predict(torch.zeros(1, 1, 16, 16))
    assert {name: probs.shape[1] for name, probs in found.items()} == dict.fromkeys(found, 3)
    assert {row.label for row in read_metrics(tmp_path / "metrics.csv")} == {"disc", "square"}


def test_validation_scans_without_a_structure_choose_no_best_checkpoint_and_that_is_said(tmp_path, capsys):
    some = data()
    told = "No validation scan (val0, val1) shows any foreground (disc): no best checkpoint can be chosen"
    for scan in some.val:
        scan.full[:] = 0
    run = train(config(steps=2), some, tmp_path / "blank", hardware=Hardware("cpu"))
    assert capsys.readouterr().out.count(told) == 1
    assert not (run.path / "best.pt").exists()
    assert load(run, channels=1, classes=2, checkpoint=None).checkpoint == "last"
    assert {row.case for row in read_metrics(run.path / "metrics.csv")} == {"val0", "val1"}, "scored all the same"
    some.val[1].full[0, :3] = 1
    run = train(config(steps=2), some, tmp_path / "one", hardware=Hardware("cpu"))
    assert (told in capsys.readouterr().out, (run.path / "best.pt").exists()) == (False, True)


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
    assert f"No scan is partly labelled or unlabeled: what needs one is off ({off})." in capsys.readouterr().out


def test_without_partial_labels_unlabelled_scans_still_feed_the_other_terms(tmp_path, capsys):
    some = without_partial_labels(partial=0, unlabeled=2)
    train(config(steps=2, method="kl-ent"), some, tmp_path, hardware=Hardware("cpu"))
    assert "No scan has partial labels: the term weak is off." in capsys.readouterr().out


@pytest.mark.parametrize("method", ["lower-bound", "kl-ent"])
def test_terms_that_have_scans_are_not_spoken_of(tmp_path, capsys, method):
    # The full scans have partial labels too.
    scans = data(partial=0, unlabeled=0 if method == "lower-bound" else 2)
    train(config(steps=2, method=method), scans, tmp_path, hardware=Hardware("cpu"))
    assert "off" not in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["partial", "unlabeled"])
def test_no_rows_for_a_kind_is_what_a_run_keeps_and_it_says_which_scans_are_not_seen(tmp_path, capsys, kind):
    sizes = {"full": 2, "partial": 4, "unlabeled": 4, kind: 0}
    run = train(config(steps=2, batch=sizes), data(partial=2, unlabeled=2), tmp_path, hardware=Hardware("cpu"))
    assert json.loads((run.path / "config.json").read_text())["training"]["batch"] == sizes
    words = {"partial": "partly labelled", "unlabeled": "unlabeled"}[kind]
    assert f"batch.{kind} is 0: 2 {words} scans are not seen ({kind}0, {kind}1)." in capsys.readouterr().out


def test_rows_that_nobody_asked_for_are_shared_between_the_kinds_and_nothing_is_said(tmp_path, capsys):
    asked = config(steps=2, batch={"full": 2, "partial": 4})
    run = train(asked, data(partial=2, unlabeled=2), tmp_path, hardware=Hardware("cpu"))
    assert json.loads((run.path / "config.json").read_text())["training"]["batch"] == {
        "full": 2,
        "partial": 2,
        "unlabeled": 2,
    }
    assert "not seen" not in capsys.readouterr().out


def test_masks_of_val_and_test_do_not_stand_in_for_training_labels(tmp_path):
    some = data()
    for scan in some.val:
        assert np.any(scan.full == 1)
    none = {
        kind: [replace(scan, full=scan.full * 0, partial=None) for scan in some.train["full"]] for kind in ("full",)
    }
    with pytest.raises(MixsegError, match="labelled disc"):
        train(config(steps=2, method="lower-bound"), replace(some, train={**none, "partial": []}), tmp_path)


@pytest.mark.parametrize("method", ["lower-bound", "upper-bound", "kl-ent"])
@pytest.mark.parametrize("target", [[], ["LV"]])
def test_a_mask_in_which_a_class_was_not_looked_for_is_partial_labels_unless_the_class_is_left_out(
    tmp_path, capsys, method, target
):
    scans = [write_case(tmp_path / "scans", name, drawn=False) for name in ("a", "b")]
    scans[0] = replace(scans[0], annotated=("LV", "Myo"))
    settings = config(method=method, target=target, steps=1)
    prepared = prepare(scans, tmp_path / "arrays", settings.data.prepare_options, workers=1)
    some = seen_by(settings, prepared, Split(train=("a", "b")))
    train(settings, some, tmp_path / "run", hardware=Hardware("cpu"))
    full, partial = ([scan.name for scan in some.train[kind]] for kind in ("full", "partial"))
    told = f"{method} learns from full masks alone: 1 scan in which a class was not looked for is not used (a_01)."
    unused = not target and method != "kl-ent"
    assert full == (["a_01", "b_01"] if target else ["b_01"])
    assert partial == ([] if target or unused else ["a_01"])
    assert (told in capsys.readouterr().out, some.protocol.get("unused")) == (unused, ["a_01"] if unused else None)
    if partial:
        mask = prepared.full(prepared["a_01"])
        np.testing.assert_array_equal(some.train["partial"][0].partial, np.where(mask == 0, IGNORE, mask))


def test_scans_in_which_a_class_was_not_looked_for_do_not_judge(tmp_path):
    scans = [write_case(tmp_path / "scans", name) for name in ("a", "b")]
    scans[0] = replace(scans[0], annotated=("LV", "Myo"))
    settings = config(method="kl-ent")
    prepared = prepare(scans, tmp_path / "arrays", settings.data.prepare_options, workers=1)
    with pytest.raises(MixsegError, match="In a_01 nobody looked for RV"):
        seen_by(settings, prepared, Split(train=("b",), val=("a",)))
    some = seen_by(settings, prepared, Split(train=("b",), test=("a",)))
    with pytest.raises(MixsegError, match="In a_01 nobody looked for RV"):
        train(settings, some, tmp_path / "run", hardware=Hardware("cpu"), test=True)
    assert not (tmp_path / "run").exists()


def test_what_is_one_piece_in_the_full_masks_is_one_piece_in_predictions(tmp_path):
    some = data()
    assert settle_largest(None, some) == (1,)
    run = train(config(steps=2, largest=None), some, tmp_path / "run", hardware=Hardware("cpu"))
    assert run.config.inference.largest == (1,)
    with np.load(run.path / "predictions.npz") as kept:
        for labels in kept.values():
            assert ndimage.label(labels == 1, np.ones((3, 3, 3)))[1] <= 1
    torn = [replace(scan, full=scan.full.copy()) for scan in some.train["full"]]
    torn[0].full[0] = 0
    torn[0].full[0, :2] = torn[0].full[0, -2:] = 1
    assert settle_largest(None, replace(some, train={**some.train, "full": torn})) == ()


def test_a_class_number_that_does_not_exist_is_named():
    assert settle_largest((1,), data()) == (1,)
    with pytest.raises(MixsegError, match="'largest' names class 2, and there are the classes 1 to 1 "):
        settle_largest((2,), data())
