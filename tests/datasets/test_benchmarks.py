"""The h5 files of SSL4MIS, WSL4MIS and UA-MT, and the folders of png slices."""

import numpy as np
import pytest

from dataset_folders import SHAPE, h5, image, make_h5, make_png, mask, picture, strokes
from mixseg.core.errors import MixsegError
from mixseg.core.types import IGNORE
from mixseg.datasets import check, formats, load
from mixseg.datasets.labels import LabelFlags
from mixseg.datasets.layouts import png
from mixseg.datasets.layouts.h5 import cases as h5_cases


def test_volumes_and_slices_give_the_same_arrays_and_lists_the_split(tmp_path):
    volume, slices = h5_cases(make_h5(tmp_path))
    assert (volume.id, volume.split, volume.patient, volume.frame) == (
        "patient001_frame01",
        "test",
        "patient001",
        "01",
    )
    assert (slices.id, slices.split) == ("patient002_frame01", "train")
    assert len(volume.image[0].files) == 1
    assert len(slices.image[0].files) == SHAPE[2]
    for case in (volume, slices):
        assert (formats.read(case.image[0]).array == image()).all()
        assert (formats.read_labels(case.full).array == mask()).all()
        assert ((formats.read_labels(case.partial).array == IGNORE) == (strokes() == 4)).all()
        assert case.classes == ("background", "RV", "Myo", "LV")


def test_slices_are_stacked_by_number_and_not_by_name(tmp_path):
    for index in range(12):
        h5(tmp_path / f"patient001_frame01_slice_{index}.h5", image=np.full((3, 2), index), label=np.zeros((3, 2)))
    (case,) = load(tmp_path)
    assert formats.read(case.image[0]).array[0, 0].tolist() == list(range(12))


def test_ua_mt_files_keep_their_axes_and_are_called_by_their_folder(tmp_path):
    root = tmp_path / "2018LA_Seg_Training Set"
    for name in ("AAA", "BBB"):
        h5(root / name / "mri_norm2.h5", image=image().astype(np.float32), label=mask(2))
    (tmp_path / "train.list").write_text("AAA\n")
    (tmp_path / "test.list").write_text("BBB\n")
    first, second = load(tmp_path)
    assert (first.id, first.split, second.id, second.split) == ("AAA", "train", "BBB", "test")
    assert (formats.read(first.image[0]).array == image()).all()
    assert (formats.read_labels(first.full).array == mask(2)).all()
    assert first.classes == ("background", "left atrium")


def test_notes_in_another_encoding_are_no_list(tmp_path):
    make_h5(tmp_path)
    (tmp_path / "train_notes.txt").write_bytes("größer als gedacht\n\n".encode("latin-1"))
    assert [case.split for case in h5_cases(tmp_path)] == ["test", "train"]


def test_a_scan_in_two_lists_is_refused_by_name(tmp_path):
    make_h5(tmp_path)
    (tmp_path / "train.list").write_text("elsewhere\n\npatient001_frame01\n")
    with pytest.raises(MixsegError, match=r"train\.list names patient001_frame01, which is in the list of test too"):
        h5_cases(tmp_path)


def test_other_h5_files_are_read_by_the_general_rule(tmp_path):
    h5(tmp_path / "scan1.h5", image=image(), label=mask(3), scribble=strokes(3, unlabeled=3))
    h5(tmp_path / "scan2.h5", image=image())
    with pytest.raises(MixsegError, match=r"label: which of the label ids .* --background 0"):
        load(tmp_path)
    first, second = load(tmp_path, flags=LabelFlags(unlabeled=3))
    assert first.classes == ("background", "class 1", "class 2")
    assert first.partial.ids[3] == IGNORE
    assert second.kind == "unlabeled"


def test_an_h5_label_with_unlabelled_voxels_is_partial(tmp_path):
    h5(tmp_path / "scan1.h5", image=image(), label=mask(3))
    h5(tmp_path / "scan2.h5", image=image(), label=strokes(3, unlabeled=255))
    assert [case.kind for case in load(tmp_path)] == ["full", "partial"]


def test_broken_h5_files_are_left_to_check_and_foreign_ones_named(tmp_path):
    make_h5(tmp_path)
    (tmp_path / "data" / "patient003_frame01.h5").write_bytes(b"nothing")
    cases = load(tmp_path)
    assert len(cases) == 3
    assert "patient003_frame01.h5 cannot be read" in check(cases[-1])[0]
    h5(tmp_path / "data" / "patient003_frame01.h5", scan=image())
    with pytest.raises(MixsegError, match=r"patient003_frame01\.h5 holds no array 'image' \(it holds scan\)"):
        load(tmp_path)


def test_png_slices_are_stacked_by_number_and_semi_masks_are_hidden(tmp_path):
    cases = {case.id: case for case in png.cases(make_png(tmp_path))}
    assert {name: (case.split, case.kind) for name, case in cases.items()} == {
        "patient0001_01": ("train", "full"),
        "patient0002_01": ("train", "partial"),
        "patient0003_01": ("val", "full"),
        "patient0004_01": ("test", "full"),
    }
    semi = cases["patient0002_01"]
    assert (semi.patient, semi.frame) == ("patient0002", "01")
    assert formats.read(semi.image[0]).array[0, 0].tolist() == list(range(11))
    labels, hidden = formats.read_labels(semi.partial).array, formats.read_labels(semi.hidden).array
    assert set(np.unique(labels)) == {1, IGNORE}
    assert ((labels == 1) == (hidden == 1)).all()
    assert cases["patient0001_01"].hidden is None


def test_png_values_become_consecutive_classes(tmp_path):
    make_png(tmp_path)
    for path in (tmp_path / "val" / "GT").iterdir():
        picture(path, mask(4)[..., 0] * np.uint8(85))
    case = next(case for case in png.cases(tmp_path) if case.split == "val")
    assert case.classes == ("background", "class 85", "class 170", "class 255")
    assert (formats.read_labels(case.full).array[..., 0] == mask(4)[..., 0]).all()


def test_png_folders_that_do_not_match_are_named(tmp_path):
    make_png(tmp_path)
    with pytest.raises(MixsegError, match="give the folder that directly holds them"):
        png.cases(tmp_path.parent)
    (tmp_path / "val" / "GT" / "patient0003_01_4.png").unlink()
    with pytest.raises(MixsegError, match=r"patient0003_01_4\.png is in only one of .*Img and .*GT"):
        png.cases(tmp_path)
    picture(tmp_path / "test" / "Img" / "overview.png", np.zeros((3, 3), np.uint8))
    (tmp_path / "val" / "Img" / "patient0003_01_4.png").unlink()
    with pytest.raises(MixsegError, match=r"overview\.png is not called PATIENT_PHASE_SLICE\.png"):
        png.cases(tmp_path)
