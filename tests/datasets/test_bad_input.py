"""What users get wrong: one sentence each, with the file and the remedy; ``check`` finds all bad files of a folder."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from dataset_folders import AFFINE, SHAPE, dataset_json, image, make_acdc, make_la, make_nnunet, mask, nifti
from mixseg.core.errors import MixsegError
from mixseg.datasets import check, load, recognise


def problems(root):
    return [sentence for case in load(root) for sentence in check(case)]


def test_check_reports_every_bad_file_of_a_folder(tmp_path):
    root = make_acdc(tmp_path)
    first, second = root / "patient001", root / "patient010"
    (first / "patient001_frame01.nii.gz").write_bytes(b"")
    truncated = first / "patient001_frame01_gt.nii.gz"
    truncated.write_bytes(truncated.read_bytes()[:-30])
    nifti(first / "patient001_frame12_gt.nii.gz", np.full(SHAPE, np.nan, np.float32))
    nifti(first / "patient001_frame12_scribble.nii.gz", mask() * np.float32(0.5))
    nifti(second / "patient010_frame01_gt.nii.gz", mask()[:-1])
    nifti(second / "patient010_frame01_scribble.nii.gz", mask() + np.uint8(5))
    nifti(second / "patient010_frame12_gt.nii.gz", mask(), AFFINE * np.array([1.01, 1, 1, 1]))
    bad = np.full(SHAPE, 1.0, np.float32)
    bad[0, 0, 0] = np.inf
    nifti(second / "patient010_frame12.nii.gz", bad)
    wanted = [
        "patient001_frame01.nii.gz is empty (zero bytes)",
        "patient001_frame01_gt.nii.gz cannot be read, it is truncated or damaged",
        "patient001_frame12_gt.nii.gz holds nan or inf in all of its voxels",
        "patient001_frame12_scribble.nii.gz holds 0.5, which is no label id",
        "the sizes are 8 x 7 x 4 and 7 x 7 x 4 voxels",
        "patient010_frame01_scribble.nii.gz holds the undeclared label 5, 6, 7, 8",
        "patient010_frame12.nii.gz holds nan or inf in 1 of its 224 voxels",
        "the spacings are 1.5 x 1.5 x 8 and 1.515 x 1.5 x 8 mm",
    ]
    found = problems(root)
    assert len(found) == len(wanted)
    for sentence, clause in zip(found, wanted, strict=True):
        assert clause in sentence
        assert str(root) in sentence
        assert sentence.count(". ") == 0, "one sentence"
        assert ": " in sentence, "a remedy after a colon"


def test_a_spacing_off_by_header_noise_is_accepted(tmp_path):
    make_nnunet(tmp_path)
    nifti(tmp_path / "labelsTr" / "a.nii.gz", mask(), AFFINE * (1 + 1e-8))
    assert problems(tmp_path) == []


def test_broken_label_maps_do_not_stop_the_list_of_cases(tmp_path):
    make_nnunet(tmp_path)
    (tmp_path / "labelsTr" / "a.nii.gz").write_bytes(b"")
    nifti(tmp_path / "labelsTr" / "b.nii.gz", np.full(SHAPE, np.nan, np.float32))
    found = problems(tmp_path)
    assert [Path(sentence.split(" ")[0]).name for sentence in found] == ["a.nii.gz", "b.nii.gz"]


def test_an_undeclared_id_is_reported_for_the_file_that_holds_it(tmp_path):
    dataset_json(tmp_path, labels={"background": 0, "RV": 1, "Myo": 2, "LV": 3})
    for name in ("x", "y"):
        nifti(tmp_path / "imagesTr" / f"{name}.nii.gz", image())
        nifti(tmp_path / "labelsTr" / f"{name}.nii.gz", mask())
    wrong = mask()
    wrong[0, 0, 0] = 77
    nifti(tmp_path / "labelsTr" / "y.nii.gz", wrong)
    (sentence,) = problems(tmp_path)
    assert "y.nii.gz holds the undeclared label 77 (declared: 0, 1, 2, 3)" in sentence


def test_empty_missing_and_unknown_folders_are_one_sentence(tmp_path):
    (tmp_path / "file.txt").write_text("x")
    (tmp_path / "empty").mkdir()
    with pytest.raises(MixsegError, match=r"empty is empty: give the folder"):
        load(tmp_path / "empty")
    with pytest.raises(MixsegError, match="missing does not exist"):
        load(tmp_path / "missing")
    with pytest.raises(MixsegError, match=r"file\.txt is not a folder"):
        load(tmp_path / "file.txt")
    with pytest.raises(MixsegError, match=r"holds no image that can be read \(1 \.txt\)") as caught:
        load(tmp_path)
    assert caught.value.code == "unknown-layout"
    with pytest.raises(MixsegError, match=r"'acd' is no known layout .* did you mean 'acdc'\?"):
        load(tmp_path, "acd")
    for layout in ("acdc", "la", "h5"):
        with pytest.raises(MixsegError, match="holds no scans"):
            load(tmp_path / "empty", layout)
    dataset_json(tmp_path / "empty")
    with pytest.raises(MixsegError, match="empty holds no scans"):
        load(tmp_path / "empty")


def test_symbolic_links_in_a_circle_are_named(tmp_path):
    (tmp_path / "round").symlink_to(tmp_path / "round")
    with pytest.raises(MixsegError, match=r"round .*leads back to itself"):
        load(tmp_path / "round")
    make_la(tmp_path / "la")
    (tmp_path / "la" / "CCC").symlink_to(tmp_path / "la" / "CCC")
    with pytest.raises(MixsegError, match=r"CCC is a symbolic link that leads nowhere or back to itself"):
        load(tmp_path / "la")
    make_nnunet(tmp_path / "nnunet")
    link = tmp_path / "nnunet" / "imagesTr" / "f_0000.nii.gz"
    link.symlink_to(link)
    assert "f_0000.nii.gz is a symbolic link that leads back to itself" in problems(tmp_path / "nnunet")[0]


def test_a_link_to_a_folder_above_does_not_go_round_for_ever(tmp_path):
    make_acdc(tmp_path)
    (tmp_path / "patient001" / "up").symlink_to(tmp_path)
    (tmp_path / "up").symlink_to(tmp_path)
    assert len(load(tmp_path)) == 4
    assert recognise(tmp_path) == "acdc"
    with pytest.raises(MixsegError, match="holds no scans"):
        load(tmp_path, "h5")


def test_a_folder_without_permission_is_one_sentence(tmp_path, monkeypatch):
    make_acdc(tmp_path)
    listing = os.listdir

    def guarded(path):
        if Path(path).name == "patient010":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return listing(path)

    monkeypatch.setattr(os, "listdir", guarded)  # root may read everything, so a chmod would prove nothing
    with pytest.raises(MixsegError, match=r"patient010 may not be listed \(no permission\)"):
        load(tmp_path)
