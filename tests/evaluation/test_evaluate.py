"""Folders of predictions against folders of masks and against cases."""

import json
import math
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import mixseg.evaluation.evaluate as evaluation
from mixseg.core.errors import MixsegError
from mixseg.core.types import IGNORE, Case, Source
from mixseg.datasets import formats
from mixseg.datasets.labels import LabelFlags
from mixseg.evaluation.evaluate import evaluate, read_metrics, write_metrics
from mixseg.evaluation.metrics import case_metrics

AFFINE = np.diag([1.5, 1.5, 8.0, 1.0])
CLASSES = ("background", "LV", "RV")


def maps(cases=("a", "b", "c"), classes=3, shape=(8, 7, 4), seed=0):
    """Case -> (prediction, truth), alike in most voxels."""
    rng = np.random.default_rng(seed)
    found = {}
    for case in cases:
        truth = rng.integers(0, classes, shape).astype(np.uint8)
        prediction = np.where(rng.random(shape) < 0.8, truth, rng.integers(0, classes, shape)).astype(np.uint8)
        found[case] = prediction, truth
    return found


def write(folder, arrays, suffix=".nii.gz", affine=AFFINE):
    for case, array in arrays.items():
        formats.write(folder / f"{case}{suffix}", array, affine=affine)
    return folder


def declare(folder, ignore=None):
    labels = {name: index for index, name in enumerate(CLASSES)} | ({"ignore": ignore} if ignore else {})
    (folder / "dataset.json").write_text(json.dumps({"labels": labels, "channel_names": {"0": "MR"}}))


@pytest.fixture
def folders(tmp_path):
    """Predictions, masks, and the arrays in them."""
    arrays = maps()
    predictions = write(tmp_path / "predictions", {case: pair[0] for case, pair in arrays.items()})
    masks = write(tmp_path / "masks", {case: pair[1] for case, pair in arrays.items()})
    declare(masks)
    return predictions, masks, arrays


def as_case(case, mask, **fields):
    image = (Source((mask,)),)
    full = Source((mask,), ids={index: index for index in range(3)})
    return Case(id=case, patient=case, image=image, **{"full": full, "classes": CLASSES, **fields})


def test_rows_are_the_metrics_of_the_arrays_in_voxels_and_mm(folders):
    predictions, masks, arrays = folders
    rows = evaluate(predictions, masks).rows
    assert [(row.case, row.label) for row in rows] == [(case, name) for case in "abc" for name in CLASSES[1:]]
    for case, (prediction, truth) in arrays.items():
        expected = case_metrics(prediction, truth, classes=CLASSES, spacing_mm=(1.5, 1.5, 8.0))
        for row, one in zip((row for row in rows if row.case == case), expected, strict=True):
            for metric in ("dsc", "hd95_vox", "hd95_mm", "assd_vox", "assd_mm"):
                assert getattr(row, metric) == pytest.approx(getattr(one.scores, metric), rel=1e-6)


@pytest.mark.parametrize("suffix", [".nrrd", ".nii", ".mha"])
def test_a_prediction_may_have_another_format_than_its_mask(folders, tmp_path, suffix):
    predictions, masks, arrays = folders
    others = write(tmp_path / "others", {case: pair[0] for case, pair in arrays.items()}, suffix)
    assert [row.dsc for row in evaluate(others, masks).rows] == [row.dsc for row in evaluate(predictions, masks).rows]


def test_cases_are_judged_by_their_hidden_mask_first(folders):
    predictions, masks, _ = folders
    perfect = predictions / "a.nii.gz"
    hidden = Source((perfect,), ids={index: index for index in range(3)})
    cases = [
        as_case("a", masks / "a.nii.gz", hidden=hidden, split="test"),
        as_case("b", masks / "b.nii.gz"),
        as_case("c", masks / "c.nii.gz", full=None),
    ]
    result = evaluate(predictions, cases)
    assert [(row.case, row.part) for row in result.rows] == [("a", "test"), ("a", "test"), ("b", ""), ("b", "")]
    assert [row.dsc for row in result.rows[:2]] == [1, 1]
    assert [path.name for path in result.unmatched] == ["c.nii.gz"]


def test_cases_read_their_masks_by_their_own_ids_and_predictions_by_class_index(tmp_path):
    truth = np.zeros((6, 6, 3), np.uint8)
    truth[1:4, 1:4] = 3
    truth[4:] = 1
    write(tmp_path / "masks", {"a": truth})
    write(tmp_path / "predictions", {"a": (truth == 3).astype(np.uint8)})
    full = Source((tmp_path / "masks" / "a.nii.gz",), ids={0: 0, 1: 0, 2: 0, 3: 1})
    case = as_case("a", tmp_path / "masks" / "a.nii.gz", full=full, classes=("background", "LV"))
    (row,) = evaluate(tmp_path / "predictions", [case]).rows
    assert (row.label, row.dsc) == ("LV", 1)


def test_a_number_that_may_be_an_id_or_a_class_index_is_not_guessed(tmp_path):
    truth = np.zeros((6, 6, 3), np.uint8)
    truth[1:3], truth[4:] = 2, 3
    write(tmp_path / "masks", {"a": truth})
    write(tmp_path / "ids", {"a": truth})
    full = Source((tmp_path / "masks" / "a.nii.gz",), ids={0: 0, 2: 1, 3: 2})
    case = as_case("a", tmp_path / "masks" / "a.nii.gz", full=full)
    with pytest.raises(MixsegError, match=r"2 in .*ids may be .*, whose id it is in the masks, or .*give the folder"):
        evaluate(tmp_path / "ids", [case])
    assert [row.dsc for row in evaluate(tmp_path / "ids", [case], prediction_ids=full.ids).rows] == [1, 1]
    write(tmp_path / "ours", {"a": np.maximum(truth, 1) - 1})
    (tmp_path / "ours" / "classes.json").write_text(json.dumps(case.classes))
    assert [row.dsc for row in evaluate(tmp_path / "ours", [case]).rows] == [1, 1]


def test_ids_that_are_no_class_index_are_read_as_the_masks_have_them(tmp_path):
    truth = np.zeros((6, 6, 3), np.uint8)
    truth[1:3] = 255
    for name, array in {"masks": truth, "ids": truth, "indices": truth // 255}.items():
        write(tmp_path / name, {"a": array})
    full = Source((tmp_path / "masks" / "a.nii.gz",), ids={0: 0, 255: 1})
    case = as_case("a", tmp_path / "masks" / "a.nii.gz", full=full, classes=("background", "LV"))
    for name in ("ids", "indices"):
        assert [row.dsc for row in evaluate(tmp_path / name, [case]).rows] == [1]


def test_only_annotated_classes_are_scored(folders):
    predictions, masks, _ = folders
    case = as_case("a", masks / "a.nii.gz", annotated=("RV",))
    assert [row.label for row in evaluate(predictions, [case]).rows] == ["RV"]


def test_only_annotated_classes_of_a_folder_of_masks_are_scored(folders, tmp_path):
    predictions, masks, _ = folders
    (masks / "dataset.json").unlink()
    labels = {name: index for index, name in enumerate(CLASSES)}
    (tmp_path / "dataset.json").write_text(json.dumps({"labels": labels, "annotated": {"b": ["RV"]}}))
    found = [(row.case, row.label) for row in evaluate(predictions, masks).rows]
    assert found == [("a", "LV"), ("a", "RV"), ("b", "RV"), ("c", "LV"), ("c", "RV")]


def test_checkpoints_and_branches_are_the_names_of_folders(folders, tmp_path):
    _, masks, arrays = folders
    for checkpoint, branch in (("last", "bottom"), ("last", "top"), ("best", "bottom")):
        write(tmp_path / "run" / "predictions" / checkpoint / branch, {"a": arrays["a"][0]})
    result = evaluate(tmp_path / "run", masks)
    found = {(row.checkpoint, row.branch) for row in result.rows}
    assert found == {("last", "bottom"), ("last", "top"), ("best", "bottom")}
    written = [path.name for path in result.write(tmp_path / "out")]
    assert written == ["metrics.csv", "summary_best_bottom.json", "summary_last_bottom.json", "summary_last_top.json"]
    assert len(result.missing) == 6


def test_cases_have_the_parts_that_they_had_in_the_run_that_predicted_them(folders, tmp_path):
    _, masks, arrays = folders
    run = tmp_path / "run"
    write(run / "predictions" / "last" / "bottom", {case: predicted for case, (predicted, _) in arrays.items()})
    (run / "environment.json").write_text(json.dumps({"classes": list(CLASSES)}))
    (run / "config.json").write_text("{}")
    parts = {"a": "test", "b": "val", "c": "test"}
    unscored = evaluate(run, masks).rows
    assert {row.part for row in unscored} == {""}
    write_metrics(run / "metrics.csv", [replace(row, part=parts[row.case]) for row in unscored])
    for where in (run, run / "predictions" / "last" / "bottom"):
        result = evaluate(where, masks)
        assert {(row.case, row.part) for row in result.rows} == set(parts.items())
    written = [path.name for path in result.write(tmp_path / "out")]
    assert written == ["metrics.csv", "summary_test.json", "summary_val.json"]
    elsewhere = write(run / "of_others", {case: predicted for case, (predicted, _) in arrays.items()})
    assert {row.part for row in evaluate(elsewhere, masks).rows} == {""}
    cases = json.loads((tmp_path / "out" / "summary_val.json").read_text())["metric_per_case"]
    assert [Path(case["reference_file"]).name for case in cases] == ["b.nii.gz"]


def test_missing_predictions_and_left_out_classes_are_named(folders):
    predictions, masks, _ = folders
    (predictions / "b.nii.gz").unlink()
    empty = np.zeros((8, 7, 4), np.uint8)
    write(predictions, {"c": empty, "z": empty})
    write(masks, {"c": empty})
    result = evaluate(predictions, masks)
    assert result.missing == (predictions / "b",)
    assert result.unmatched == (predictions / "z.nii.gz",)
    remarks = " ".join(result.remarks())
    assert f"1 without a prediction, not scored: {predictions / 'b'}." in remarks
    assert f"1 without a reference, not scored: {predictions / 'z.nii.gz'}." in remarks
    assert "LV: 1 left out of the means" in remarks
    assert math.isnan(result.rows[-1].dsc)
    assert [line[:4] for line in result.table()[1:]] == [
        ("LV", "2", "1", result.table()[1][3]),
        ("RV", "2", "1", result.table()[2][3]),
        ("mean", "2", "2", result.table()[3][3]),
    ]


def test_maps_beside_a_prediction_are_no_predictions_without_a_reference(folders):
    predictions, masks, _ = folders
    sure = np.zeros((8, 7, 4), np.float32)
    write(predictions, {"a_entropy": sure, "b_probability_LV": sure, "lost_entropy": sure})
    result = evaluate(predictions, masks)
    assert [path.name for path in result.unmatched] == ["lost_entropy.nii.gz"]
    assert not evaluate(masks, masks).unmatched


def test_written_files_hold_the_same_rows(folders, tmp_path):
    predictions, masks, _ = folders
    result = evaluate(predictions, masks)
    assert result.write(tmp_path) == [tmp_path / "metrics.csv", tmp_path / "summary.json"]
    assert read_metrics(tmp_path / "metrics.csv") == result.rows


def test_an_evaluation_takes_the_place_of_the_one_before(folders, tmp_path):
    predictions, masks, _ = folders
    for branch in ("top", "bottom"):
        shutil.copytree(predictions, tmp_path / "both" / branch)
    evaluate(tmp_path / "both", masks).write(tmp_path / "scores")
    (tmp_path / "scores" / "summary_of_mine.json").write_text("{}")
    evaluate(predictions, masks).write(tmp_path / "scores")
    names = sorted(path.name for path in (tmp_path / "scores").iterdir())
    assert names == ["metrics.csv", "summary.json", "summary_of_mine.json"]


def test_summary_has_nnunets_keys_and_hand_counted_values(tmp_path):
    truth = np.zeros((4, 4, 2), np.uint8)
    truth[:2] = 1
    prediction = np.zeros_like(truth)
    prediction[1:3] = 1
    empty = np.zeros_like(truth)
    predictions = write(tmp_path / "p", {"a": prediction, "b": empty})
    masks = write(tmp_path / "m", {"a": truth, "b": empty})
    evaluate(predictions, masks).write(tmp_path)
    summary = json.loads((tmp_path / "summary.json").read_text())
    first, second = summary["metric_per_case"]
    assert first["prediction_file"] == str(predictions / "a.nii.gz")
    assert first["reference_file"] == str(masks / "a.nii.gz")
    metrics = first["metrics"]["1"]
    counts = {"TP": 8, "FP": 8, "FN": 8, "TN": 8, "n_pred": 16, "n_ref": 16}
    assert {key: metrics[key] for key in counts} == counts
    assert (metrics["Dice"], metrics["IoU"]) == (0.5, pytest.approx(1 / 3))
    assert (metrics["HD95_vox"], metrics["HD95_mm"]) == (1, pytest.approx(1.5))
    assert metrics["ASSD_mm"] == pytest.approx(1.5 * metrics["ASSD_vox"])
    assert second["metrics"]["1"]["Dice"] is None
    assert summary["mean"]["1"]["Dice"] == summary["foreground_mean"]["Dice"] == 0.5
    assert summary["mean"]["1"]["TP"] == 4
    assert summary["left_out"] == {"1": 1}


def test_another_grid_is_one_sentence_with_both_files(folders):
    predictions, masks, arrays = folders
    write(predictions, {"b": arrays["b"][0][:-1]})
    with pytest.raises(MixsegError, match=r"predictions/b.nii.gz .*masks/b.nii.gz.* sizes are 7 x 7 x 4 and 8 x 7 x 4"):
        evaluate(predictions, masks)


def test_another_spacing_is_refused_too(folders):
    predictions, masks, arrays = folders
    write(predictions, {"b": arrays["b"][0]}, affine=np.diag([1.5, 1.5, 7.0, 1.0]))
    with pytest.raises(MixsegError, match=r"b.nii.gz.*spacings"):
        evaluate(predictions, masks)


def test_pictures_have_no_mm(tmp_path):
    truth = np.zeros((9, 8, 1), np.uint8)
    truth[2:6, 2:6] = 255
    prediction = np.roll(truth, 1, axis=0) // 255
    predictions = write(tmp_path / "p", {"a": prediction}, ".png", affine=None)
    masks = write(tmp_path / "m", {"a": truth}, ".png", affine=None)
    (row,) = evaluate(predictions, masks).rows
    assert row.dsc == pytest.approx(0.75)
    assert row.hd95_vox == 1
    assert math.isnan(row.hd95_mm)
    assert row.label == "foreground"


def test_unlabelled_voxels_of_a_declared_ignore_id_are_left_out(tmp_path):
    arrays = maps(("a",))
    truth = arrays["a"][1].copy()
    truth[:2] = 3
    predictions = write(tmp_path / "p", {"a": arrays["a"][0]})
    masks = write(tmp_path / "m", {"a": truth})
    declare(masks, ignore=3)
    known = np.where(truth == 3, IGNORE, truth)
    expected = case_metrics(arrays["a"][0], known, classes=CLASSES, spacing_mm=(1.5, 1.5, 8.0))
    result = evaluate(predictions, masks)
    assert [row.dsc for row in result.rows] == [one.scores.dsc for one in expected]
    share = f"{np.mean(truth == 3):.1%}"
    (remark,) = (remark for remark in result.remarks() if "partly unlabeled" in remark)
    assert remark.startswith(f"1 reference is partly unlabeled (up to {share} of the voxels)")
    assert remark.endswith(": a.")


def test_ids_without_names_are_classes_of_their_own(tmp_path):
    arrays = maps(("a",))
    predictions = write(tmp_path / "p", {"a": 2 * arrays["a"][0]})
    masks = write(tmp_path / "m", {"a": 2 * arrays["a"][1]})
    result = evaluate(predictions, masks)
    assert [row.label for row in result.rows] == ["class 2", "class 4"]
    expected = case_metrics(*arrays["a"], classes=CLASSES)
    assert [row.dsc for row in result.rows] == [one.scores.dsc for one in expected]
    assert "2 = class 2" in result.meaning


def test_flags_say_what_ids_mean(tmp_path):
    arrays = maps(("a",))
    truth = arrays["a"][1].copy()
    truth[:2] = 9
    predictions = write(tmp_path / "p", {"a": arrays["a"][0]})
    masks = write(tmp_path / "m", {"a": truth})
    result = evaluate(predictions, masks, flags=LabelFlags(unlabeled=9))
    assert [row.label for row in result.rows] == ["class 1", "class 2"]
    assert sum(result.rows[0].counts) == int((truth != 9).sum())


def test_an_unknown_id_in_a_prediction_names_file_and_id(folders):
    predictions, masks, arrays = folders
    write(predictions, {"b": arrays["b"][0] + np.uint8(7)})
    with pytest.raises(MixsegError, match=r"predictions/b.nii.gz .*7"):
        evaluate(predictions, masks)


def test_ids_of_predictions_can_be_translated(folders, tmp_path):
    predictions, masks, arrays = folders
    other = write(tmp_path / "other", {case: 10 * pair[0] for case, pair in arrays.items()})
    translated = evaluate(other, masks, prediction_ids={0: 0, 10: 1, 20: 2})
    assert translated.rows == evaluate(predictions, masks).rows


@pytest.mark.parametrize(
    ("name", "message"), [("nowhere", "is no folder"), ("empty", "holds no label map"), ("other", "name predictions")]
)
def test_a_folder_without_predictions_is_named(folders, tmp_path, name, message):
    _, masks, arrays = folders
    (tmp_path / "empty").mkdir()
    write(tmp_path / "other", {"unknown": arrays["a"][0]})
    with pytest.raises(MixsegError, match=message):
        evaluate(tmp_path / name, masks)


def test_two_files_of_one_case_are_refused(folders):
    predictions, masks, arrays = folders
    write(predictions, {"a": arrays["a"][0]}, ".nrrd")
    with pytest.raises(MixsegError, match="same case"):
        evaluate(predictions, masks)


def test_cases_without_masks_cannot_be_judged(folders):
    predictions, masks, _ = folders
    with pytest.raises(MixsegError, match="None of the cases has a complete mask"):
        evaluate(predictions, [as_case("a", masks / "a.nii.gz", full=None)])


def test_the_number_of_workers_changes_nothing(folders):
    predictions, masks, _ = folders
    assert evaluate(predictions, masks, workers=1).rows == evaluate(predictions, masks, workers=3).rows


def test_evaluating_needs_no_torch():
    code = "import sys, mixseg.evaluation.evaluate; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.real
def test_a_real_scan_is_perfect_against_itself_and_its_slices_shifted_are_not(real_data, tmp_path):
    mask = next((real_data / "acdc").glob("patient*/*_gt.nii.gz"))
    volume = formats.read(mask)
    formats.write(tmp_path / "same" / mask.name, volume.array, like=mask)
    formats.write(tmp_path / "moved" / mask.name, np.roll(volume.array, 1, axis=0), like=mask)
    formats.write(tmp_path / "truth" / mask.name, volume.array, like=mask)
    assert all(row.dsc == 1 and row.hd95_vox == 0 for row in evaluate(tmp_path / "same", tmp_path / "truth").rows)
    for row in evaluate(tmp_path / "moved", tmp_path / "truth").rows:
        assert 0.5 < row.dsc < 1
        assert row.hd95_vox == pytest.approx(1, rel=1e-5)
        assert math.isnan(row.hd95_mm), "these files claim 1 mm along every axis: the voxel size is lost"


def test_no_more_threads_than_cores_that_this_process_may_use(folders, monkeypatch):
    asked = []
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {3}, raising=False)
    monkeypatch.setattr(
        evaluation, "ThreadPoolExecutor", lambda count: asked.append(count) or ThreadPoolExecutor(count)
    )
    evaluate(*folders[:2])
    assert asked == [1]


def test_predictions_of_some_classes_are_scored_by_their_names(tmp_path):
    truth = np.zeros((8, 8, 2), np.uint8)
    truth[1:3], truth[3:5], truth[5:7] = 1, 2, 3
    formats.write(tmp_path / "truth" / "a.nii.gz", truth)
    formats.write(tmp_path / "found" / "a.nii.gz", (truth == 3).astype(np.uint8))
    image = Source((tmp_path / "truth" / "a.nii.gz",))
    ids = {index: index for index in range(4)}
    full = Source(image.files, ids=ids)
    case = Case("a", "a", (image,), full=full, classes=("background", "RV", "Myo", "LV"))
    (tmp_path / "found" / "classes.json").write_text('["background", "LV"]')
    rows = evaluate(tmp_path / "found", [case]).rows
    assert [(row.label, row.dsc) for row in rows] == [("LV", 1.0)]
    (tmp_path / "found" / "classes.json").unlink()
    assert {row.label: row.dsc for row in evaluate(tmp_path / "found", [case]).rows}["LV"] == 0.0


def nameless(folder, ids, classes):
    """Masks with stripes of ``ids`` that nobody named, and the same label maps as predictions of ``classes``."""
    truth = np.zeros((8, 8, 2), np.uint8)
    for row, value in enumerate(ids):
        truth[2 * row : 2 * row + 2] = value
    masks = write(folder / "masks", {"a": truth})
    predictions = write(folder / "found", {"a": np.where(truth < len(classes), truth, 0).astype(np.uint8)})
    (predictions / "classes.json").write_text(json.dumps(classes))
    return predictions, masks


@pytest.mark.parametrize("ids", [(1, 2, 3), (1, 3), (2,)])
def test_masks_without_names_have_those_of_the_predictions_if_their_ids_go_no_further(tmp_path, ids):
    classes = ["background", "RV", "Myo", "LV"]
    rows = evaluate(*nameless(tmp_path, ids, classes)).rows
    assert {row.label for row in rows if row.dsc == 1.0} == {classes[value] for value in ids}
    assert [row.label for row in rows] == classes[1:]


def test_an_unlabelled_id_is_no_class_beyond_those_of_the_predictions(tmp_path):
    found = evaluate(*nameless(tmp_path, (1, 2, 9), ["background", "RV", "LV"]), flags=LabelFlags(unlabeled=9))
    assert [(row.label, row.dsc) for row in found.rows] == [("RV", 1.0), ("LV", 1.0)]


@pytest.mark.parametrize(
    ("ids", "classes", "sides"),
    [
        ((1, 2, 3), ["background", "LV"], "are of LV and the references of class 1, class 2, class 3:"),
        ((1, 2, 4), ["background", "RV", "LV"], "are of RV, LV and the references of class 1, class 2, class 4:"),
        ((1,), ["background", "RV", "LV"], "are of RV, LV and the references of foreground:"),
    ],
)
def test_another_number_of_classes_than_in_masks_without_names_is_one_sentence(tmp_path, ids, classes, sides):
    predictions, masks = nameless(tmp_path, ids, classes)
    with pytest.raises(MixsegError, match=f"{sides} call them alike in a dataset.json beside the masks, or give the"):
        evaluate(predictions, masks)
    assert evaluate(predictions, masks, prediction_ids={0: 0, 1: 1, 2: 0}).rows[0].dsc == 1.0, "said by the caller"


def test_one_of_several_structures_is_scored_once_the_masks_have_names(tmp_path):
    predictions, masks = nameless(tmp_path, (2, 1), ["background", "LV"])
    with pytest.raises(MixsegError, match="call them alike"):
        evaluate(predictions, masks)
    (masks / "dataset.json").write_text(json.dumps({"labels": {"background": 0, "LV": 1, "RV": 2}}))
    assert [(row.label, row.dsc) for row in evaluate(predictions, masks).rows] == [("LV", 1.0)]


def named(folder, predicted, declared):
    """Two stripes, as the first two classes of predictions and of masks."""
    stripes = np.zeros((8, 8, 2), np.uint8)
    stripes[1:3], stripes[4:7] = 1, 2
    predictions, masks = write(folder / "found", {"a": stripes}), write(folder / "masks", {"a": stripes})
    (predictions / "classes.json").write_text(json.dumps(["background", *predicted]))
    labels = {name: index for index, name in enumerate(["background", *declared])}
    (masks / "dataset.json").write_text(json.dumps({"labels": labels}))
    return predictions, masks


def test_classes_are_found_by_name_whatever_the_case_of_their_letters(tmp_path):
    found = evaluate(*named(tmp_path, ("LV", "Myo"), ("myo", "lv")))
    assert [(row.label, row.dsc) for row in found.rows] == [("myo", 0.0), ("lv", 0.0)], "the stripes are swapped"


def test_names_of_which_one_is_in_both_are_not_paired_by_position(tmp_path):
    with pytest.raises(MixsegError, match="predictions are of LV, Myo and the references of RV, LV: call them alike"):
        evaluate(*named(tmp_path, ("LV", "Myo"), ("RV", "LV")))


def test_names_of_which_none_is_in_both_are_paired_by_position_and_said_to_be(tmp_path):
    found = evaluate(*named(tmp_path, ("cavity", "wall"), ("LV", "Myo")))
    assert [(row.label, row.dsc) for row in found.rows] == [("LV", 1.0), ("Myo", 1.0)]
    said = "The predictions are of cavity, wall and the references of LV, Myo, no name is in both: they were paired in"
    assert said in found.remarks()[0]


def segments(folder, names, case="a"):
    """The two stripes of ``named`` as segments of these names, in the order of the file; "" is not written."""
    stripes = np.zeros((8, 8, 2), np.uint8)
    stripes[1:3], stripes[4:7] = 1, 2
    order = [name for name in sorted(names.values()) if name]  # another order than that of the stripes
    values = np.array([0, *(order.index(names[stripe]) + 1 if names[stripe] else 0 for stripe in (1, 2))], np.uint8)
    called = dict(enumerate(order, start=1))
    formats.write(folder / f"{case}.seg.nrrd", values[stripes], affine=AFFINE, names=called)
    return folder


def dices(predictions, masks):
    return {row.label: row.dsc for row in evaluate(predictions, masks).rows}


@pytest.mark.parametrize("where", ["", "masks", ".", "found"])
def test_segments_of_references_are_classes_by_name(tmp_path, where):
    predictions, masks = named(tmp_path, ("RV", "LV"), ("RV", "LV"))
    (masks / "a.nii.gz").unlink()
    segments(masks, {1: "rv", 2: "lv"})
    (masks / "dataset.json").rename(tmp_path / where / "dataset.json" if where else tmp_path / "unread.json")
    assert list(dices(predictions, masks).values()) == [1.0, 1.0]


def test_segments_of_predictions_are_classes_by_name(tmp_path):
    predictions, masks = named(tmp_path, (), ("RV", "LV"))
    (predictions / "a.nii.gz").unlink()
    (predictions / "classes.json").unlink()
    segments(predictions, {1: "RV", 2: "LV"})
    ids = {index: index for index in range(3)}
    case = as_case("a", masks / "a.nii.gz", full=Source((masks / "a.nii.gz",), ids=ids), classes=("bg", "RV", "LV"))
    assert dices(predictions, masks) == dices(predictions, [case]) == {"RV": 1.0, "LV": 1.0}


def test_segments_that_nobody_declared_are_the_classes_that_any_file_names(tmp_path):
    for folder in (tmp_path / "found", tmp_path / "masks"):
        segments(folder, {1: "LV", 2: "RV"})
        segments(folder, {1: "Myo", 2: "LV"}, "b")
    segments(tmp_path / "found", {1: "RV", 2: "LV"})
    rows = [(row.case, row.label, row.dsc) for row in evaluate(tmp_path / "found", tmp_path / "masks").rows]
    assert rows[:2] == [("a", "LV", 0.0), ("a", "RV", 0.0)], "exchanged in one of the predictions"
    assert rows[3] == ("b", "LV", 1.0)
    assert rows[5] == ("b", "Myo", 1.0)


def test_a_segment_of_an_unknown_name_is_refused_on_either_side(tmp_path):
    predictions, masks = named(tmp_path, ("RV", "LV"), ("RV", "LV"))
    segments(tmp_path / "wrong", {1: "RV", 2: "aorta"})
    with pytest.raises(MixsegError, match=r"wrong/a\.seg\.nrrd holds the undeclared label aorta"):
        evaluate(tmp_path / "wrong", masks)
    (tmp_path / "wrong" / "dataset.json").write_text((masks / "dataset.json").read_text())
    with pytest.raises(MixsegError, match=r"wrong/a\.seg\.nrrd holds the undeclared label aorta"):
        evaluate(predictions, tmp_path / "wrong")


def test_ids_and_names_that_nobody_relates_are_refused(tmp_path):
    predictions, masks = named(tmp_path, (), ("RV", "LV"))
    (predictions / "classes.json").unlink()
    (masks / "dataset.json").unlink()
    named_ones = segments(tmp_path / "segments", {1: "RV", 2: "LV"})
    with pytest.raises(MixsegError, match=r"found/a\.nii\.gz holds the undeclared label 1, 2"):
        evaluate(predictions, named_ones)
    with pytest.raises(MixsegError, match=r"segments/a\.seg\.nrrd holds the undeclared label LV, RV"):
        evaluate(named_ones, masks)
    segments(masks, {1: "RV", 2: "LV"}, "b")
    with pytest.raises(MixsegError, match=r"masks holds segments, .* say in a dataset\.json"):
        evaluate(predictions, masks)


def test_one_structure_needs_no_name_beside_one_segment(tmp_path):
    stripe = np.zeros((8, 8, 2), np.uint8)
    stripe[1:3] = 1
    plain, painted = write(tmp_path / "plain", {"a": stripe}), segments(tmp_path / "segments", {1: "LV", 2: ""})
    assert dices(plain, painted) == dices(painted, plain) == {"LV": 1.0}


def test_an_empty_segmentation_is_no_reference(tmp_path):
    masks = segments(tmp_path / "masks", {1: "RV", 2: "LV"}, "b")
    formats.write(masks / "a.seg.nrrd", np.zeros((1, 1, 1), np.uint8), affine=AFFINE, names={1: "LV"})
    found = segments(segments(tmp_path / "found", {1: "RV", 2: "LV"}, "b"), {1: "RV", 2: "LV"})
    assert [path.name for path in evaluate(found, masks).unmatched] == ["a.seg.nrrd"]
    (masks / "b.seg.nrrd").unlink()
    with pytest.raises(MixsegError, match="masks holds empty segmentations alone"):
        evaluate(found, masks)
