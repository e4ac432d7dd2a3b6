"""What inspect finds in a folder: who is supervised how, what is odd, and every bad file; and the page about it."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from dataset_folders import AFFINE, SHAPE, dataset_json, image, make_acdc, make_nnunet, mask, nifti, strokes
from mixseg.core.types import IGNORE, Case, Source
from mixseg.datasets import load
from mixseg.datasets.formats import nifti as reader
from mixseg.report import inspection
from mixseg.report.inspect_page import inspection_page
from mixseg.report.inspection import inspect, sample


def summary(found):
    return dict(found.summary())


def scan(root, name, label=None, *, voxels=None, affine=AFFINE):
    """One more scan of a raw dataset, with voxels of its own unless told otherwise."""
    if voxels is None:
        voxels = np.random.default_rng(sum(name.encode())).integers(0, 1000, SHAPE).astype(np.int16)
    nifti(root / "imagesTr" / f"{name}.nii.gz", voxels, affine)
    if label is not None:
        nifti(root / "labelsTr" / f"{name}.nii.gz", label, affine)


def block():
    """A mask with one thick structure of each class."""
    label = np.zeros(SHAPE, np.uint8)
    label[1:6, 1:6] = 1
    label[..., 2] = 2 * (label[..., 2] > 0)
    label[..., 3] = 3 * (label[..., 3] > 0)
    return label


def test_each_kind_of_supervision_is_counted(tmp_path):
    found = inspect(make_nnunet(tmp_path))
    lines = summary(found)
    assert lines["scans"] == "5 of 5 patients"
    assert (lines["full masks"], lines["only partial labels"], lines["no labels"]) == ("2", "2", "1")
    assert lines["hidden references"] == "1, for evaluation only"
    assert lines["size"] == "8 x 7 x 4 voxels"
    assert lines["voxel"] == "1.5 x 1.5 x 8 mm"
    assert any("4 = unlabeled (dataset.json calls 4 ignore)" in sentence for sentence in found.meanings)


def test_each_file_is_read_once_for_what_it_holds(tmp_path, monkeypatch):
    folder, opened = make_nnunet(tmp_path), []

    def noted(path, read=reader.read, **options):
        opened.append(path)
        return read(path, **options)

    monkeypatch.setattr(reader, "read", noted)
    cases = load(folder)  # which reads label maps for the meaning of their ids
    for_ids = Counter(opened)
    opened.clear()
    inspect(folder)
    of_scans = [(*case.image, *filter(None, (case.full, case.partial, case.hidden))) for case in cases]
    assert Counter(opened) - for_ids == Counter(source.path for sources in of_scans for source in sources)


def test_shares_are_those_of_the_labelled_voxels(tmp_path):
    dataset_json(tmp_path)
    partial = np.full(SHAPE, 4, np.uint8)
    partial[0, 0], partial[1, 0] = 0, 2  # four voxels of background, four of Myo
    scan(tmp_path, "a", block())
    scan(tmp_path, "b", partial)
    head, *rows = inspect(tmp_path).class_table()
    cells = {row[0]: row[1:] for row in rows}
    voxels = np.prod(SHAPE)
    assert head[1:] == ("in full masks", "share", "in partial labels", "share")
    assert cells["background"] == ("1", f"{100 * (voxels - 100) / voxels:.3g} %", "1", "50 %")
    assert cells["RV"] == ("1", f"{100 * 50 / voxels:.3g} %", "0", "0 %")
    assert cells["Myo"][2:] == ("1", "50 %")
    assert cells["labelled, of all voxels"] == ("1", "100 %", "1", f"{100 * 8 / voxels:.3g} %")


def test_a_scan_with_both_maps_is_said_to_have_both(tmp_path):
    assert summary(inspect(make_acdc(tmp_path)))["full masks"] == "4, 4 of them with partial labels too"


def test_masks_in_which_a_class_was_not_looked_for_are_told_apart(tmp_path):
    dataset_json(tmp_path, annotated={"a": ["LV", "Myo"], "b": ["RV", "Myo", "LV"], "d": []})
    for name in ("a", "b", "c", "d"):
        scan(tmp_path, name, block())
    scan(tmp_path, "e", strokes())
    found = inspect(tmp_path)
    lines = summary(found)
    assert lines["full masks"] == "2"
    assert lines["full masks of some classes"] == "2, which training takes for partial labels"
    assert lines["only partial labels"] == "1"
    head, *rows = found.scan_table()
    kinds = [row[head.index("supervision")] for row in rows]
    assert kinds == ["full for LV, Myo only", "full", "full", "full for no class only", "partial"]


def test_no_mask_of_all_classes_is_pointed_out(tmp_path):
    dataset_json(tmp_path, annotated={"a": ["LV"]})
    scan(tmp_path, "a", block())
    assert odd(tmp_path, "No scan has a full mask of all classes")
    assert "full masks of some classes" not in summary(inspect(make_nnunet(tmp_path / "other")))


def odd(root, clause, **options):
    return [sentence for sentence in inspect(root, **options).oddities if clause in sentence]


def test_what_a_training_would_say_of_the_split_beside_the_scans_is_told(tmp_path):
    make_nnunet(tmp_path)
    split = tmp_path / "splits.json"
    split.write_text('{"train": ["a", "b"], "val": ["e"]}')
    others = sorted({case.patient for case in load(tmp_path)} - {"a", "b", "e"})
    (sentence,) = odd(tmp_path, "splits.json")
    assert sentence == f"{len(others)} patients are in no part of {split} and not used: {', '.join(others)}."
    split.write_text('{"train": ["a", "bee"], "val": ["e"]}')
    (sentence,) = odd(tmp_path, "splits.json")
    assert "names bee in train, and there is no scan of it" in sentence


def test_strokes_that_read_as_a_full_mask_are_pointed_out_with_the_flag(tmp_path):
    dataset_json(tmp_path, labels={"background": 0, "LV": 1})
    line = np.zeros(SHAPE, np.uint8)
    line[:, 3] = 1
    scan(tmp_path, "a", line)
    (sentence,) = odd(tmp_path, "wider than a line")
    assert "(a)" in sentence
    assert "--foreground-only" in sentence


def test_a_thick_mask_is_not_taken_for_strokes(tmp_path):
    dataset_json(tmp_path)
    scan(tmp_path, "a", block())
    assert odd(tmp_path, "") == []


def test_what_no_label_map_holds_is_pointed_out(tmp_path):
    dataset_json(tmp_path)
    only_rv = np.where(block() > 0, 1, 0).astype(np.uint8)
    marks = np.full(SHAPE, 4, np.uint8)
    marks[2, 2] = 1
    scan(tmp_path, "a", only_rv)
    scan(tmp_path, "b", marks)
    assert [sentence.split(":")[0] for sentence in odd(tmp_path, "No label map")] == [
        "No label map holds Myo",
        "No label map holds LV",
    ]
    assert odd(tmp_path, "never mark the background")


def test_without_a_full_mask_it_says_that_training_needs_one(tmp_path):
    dataset_json(tmp_path)
    scan(tmp_path, "a", strokes())
    assert odd(tmp_path, "No scan has a full mask")


def test_an_empty_full_mask_is_pointed_out(tmp_path):
    dataset_json(tmp_path)
    scan(tmp_path, "a", np.zeros(SHAPE, np.uint8))
    scan(tmp_path, "b", block())
    (sentence,) = odd(tmp_path, "all background")
    assert sentence.startswith("1 scan (a)")


def test_strokes_that_contradict_the_mask_are_pointed_out(tmp_path):
    make_acdc(tmp_path)
    wrong = strokes()
    wrong[:, 0] = (mask()[:, 0] + 1) % 4
    nifti(tmp_path / "patient010" / "patient010_frame12_scribble.nii.gz", wrong)
    (sentence,) = odd(tmp_path, "contradict")
    assert "25 % of their voxels, most in patient010_frame12 (32 voxels)" in sentence


def test_one_scan_under_two_names_is_pointed_out(tmp_path):
    dataset_json(tmp_path)
    for name in ("a", "b"):
        scan(tmp_path, name, block(), voxels=image())
    scan(tmp_path, "c", block())
    (sentence,) = odd(tmp_path, "same voxels")
    assert "(a = b)" in sentence


def test_lost_voxel_sizes_mixed_orientations_and_flat_images_are_pointed_out(tmp_path):
    dataset_json(tmp_path)
    scan(tmp_path, "a", block(), affine=np.eye(4))
    assert odd(tmp_path, "1 x 1 x 1 mm")
    scan(tmp_path, "b", block(), affine=np.diag([-1.0, -1, 1, 1]), voxels=np.zeros(SHAPE, np.int16))
    assert odd(tmp_path, "(RAS: 1, LPS: 1)")
    assert odd(tmp_path, "same value in every voxel")
    assert not odd(tmp_path, "nearly of one grey")


def test_a_scan_whose_range_a_voxel_takes_up_is_pointed_out(tmp_path):
    dataset_json(tmp_path)
    voxels = np.random.default_rng(0).integers(0, 100, (40, 40, 8)).astype(np.int16)
    scan(tmp_path, "a", np.zeros(voxels.shape, np.uint8), affine=np.eye(4), voxels=voxels)
    assert not odd(tmp_path, "nearly of one grey")
    voxels[0, 0, 0] = 32000
    scan(tmp_path, "b", np.zeros(voxels.shape, np.uint8), affine=np.eye(4), voxels=voxels)
    assert odd(tmp_path, "1 scan (b) is nearly of one grey")


def test_an_oblique_scan_has_each_direction_once_in_its_orientation(tmp_path):
    dataset_json(tmp_path)
    oblique = np.eye(4)
    # Turned by about 50 degrees round two axes: two columns lie nearest to the same direction, the one to the head.
    oblique[:3, :3] = np.array([[0.64, -0.49, 0.59], [0.77, 0.41, -0.49], [0.0, 0.77, 0.64]]) * [1.4, 1.2, 8]
    assert np.abs(oblique[:3, :3]).argmax(axis=0).tolist() == [1, 2, 2]
    scan(tmp_path, "a", block(), affine=oblique)
    assert summary(inspect(tmp_path))["orientation"] == "ASR: 1"


def test_all_bad_files_are_reported_and_the_rest_still_counts(tmp_path):
    make_acdc(tmp_path)
    (tmp_path / "patient001" / "patient001_frame01.nii.gz").write_bytes(b"")
    nifti(tmp_path / "patient010" / "patient010_frame12_gt.nii.gz", np.full(SHAPE, np.nan, np.float32))
    found = inspect(tmp_path)
    assert [Path(sentence.split(" ")[0]).name for sentence in found.problems] == [
        "patient001_frame01.nii.gz",
        "patient010_frame12_gt.nii.gz",
    ]
    assert summary(found)["bad files"] == "2"
    assert {row[0]: row[1] for row in found.class_table()[1:]}["LV"] == "2"


def test_samples_show_every_kind_and_are_spread(tmp_path):
    files = Source((tmp_path,))
    kinds = [{"full": files}] * 90 + [{"partial": files}] * 9 + [{}]
    cases = [Case(f"{number:03}", f"{number}", (files,), **kind) for number, kind in enumerate(kinds)]
    chosen = sample(cases, 12)
    assert len(set(chosen)) == 12
    assert 99 in chosen
    assert sum(90 <= index < 99 for index in chosen) == 6
    assert max(index for index in chosen if index < 90) > 60
    assert sample(cases[:3], 12) == [0, 1, 2]


def test_the_picture_has_the_patients_front_up_whatever_way_the_file_is_stored(tmp_path):
    pictures = []
    for number, signs in enumerate([(-1, -1), (1, -1), (-1, 1), (1, 1)]):
        root = tmp_path / str(number)
        dataset_json(root)
        flips = tuple(slice(None, None, -sign) for sign in signs)
        affine = np.diag([signs[0] * 2.0, signs[1] * 1.0, 8.0, 1.0])
        scan(root, "a", block()[flips], voxels=image()[flips], affine=affine)
        pictures.append(inspect(root).scans[0].preview)
    for picture in pictures:
        assert np.array_equal(picture.image, image()[..., picture.index].T)
        assert np.array_equal(picture.full, block()[..., picture.index].T)
        assert picture.aspect == pytest.approx(0.5)


def test_the_page_is_one_file_and_escapes_names(tmp_path):
    root = tmp_path / "a<b>"
    dataset_json(root, labels={"background": 0, "<script>": 1, "ignore": 2})
    label = np.zeros(SHAPE, np.uint8)
    label[1:6, 1:6] = 1
    scan(root, "a", label)
    scan(root, "b", np.where(label > 0, 1, 2).astype(np.uint8))
    scan(root, "c")
    text = inspection_page(inspect(root))
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert text.count("data:image/png;base64,") == 1
    assert "http" not in text


def test_a_slice_is_shown_where_there_is_something_to_see(tmp_path):
    dataset_json(tmp_path)
    label = np.full(SHAPE, 4, np.uint8)
    label[3, 3, 1] = 2
    scan(tmp_path, "a", label)
    preview = inspect(tmp_path).scans[0].preview
    assert preview.index == 1
    assert preview.full is None
    assert (preview.partial != IGNORE).sum() == 1


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "scans", "full"),
    [("acdc", "160 of 80 patients", "160, 160 of them with partial labels too"), ("la", "42 of 42 patients", "42")],
)
def test_the_public_scans_are_recognised(real_data, name, scans, full):
    found = inspect(real_data / name)
    assert (found.layout, summary(found)["scans"], summary(found)["full masks"]) == (name, scans, full)
    assert found.problems == []


def test_no_more_threads_than_cores_that_this_process_may_use(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {3}, raising=False)
    monkeypatch.setattr(
        inspection, "ThreadPoolExecutor", lambda count: asked.append(count) or ThreadPoolExecutor(count)
    )
    inspect(make_nnunet(tmp_path))
    assert asked == [1]
