"""The layouts of the ACDC and left atrium challenges, made up and real."""

import time

import numpy as np
import pytest

from dataset_folders import image, make_acdc, make_la, mask, nifti
from mixseg.core.errors import MixsegError
from mixseg.core.types import IGNORE
from mixseg.datasets import check, formats, load
from mixseg.datasets.labels import LabelFlags
from mixseg.datasets.layouts import acdc, la


def test_acdc_gives_full_masks_and_scribbles_of_each_frame_and_no_films(tmp_path):
    cases = acdc.cases(make_acdc(tmp_path / "acdc"))
    assert [case.id for case in cases] == [
        f"patient{patient}_frame{frame}" for patient in ("001", "010") for frame in ("01", "12")
    ]
    assert {(case.patient, case.frame) for case in cases} == {
        (f"patient{patient}", frame) for patient in ("001", "010") for frame in ("01", "12")
    }
    for case in cases:
        assert case.classes == ("background", "RV", "Myo", "LV")
        assert (formats.read_labels(case.full).array == mask()).all()
        labels = formats.read_labels(case.partial).array
        assert (labels[:, 0] == mask()[:, 0]).all()
        assert (labels[:, 1:] == IGNORE).all()


def test_the_official_halves_of_acdc_say_the_split(tmp_path):
    make_acdc(tmp_path / "training")
    nifti(tmp_path / "testing" / "patient101" / "patient101_frame01.nii.gz", image())
    cases = load(tmp_path)
    assert {case.patient: case.split for case in cases} == {
        "patient001": "train",
        "patient010": "train",
        "patient101": "test",
    }
    assert {case.kind for case in cases if case.split == "test"} == {"unlabeled"}


def test_acdc_scribbles_with_another_unlabelled_id_are_read_by_the_flag(tmp_path):
    make_acdc(tmp_path)
    path = tmp_path / "patient001" / "patient001_frame01_scribble.nii.gz"
    nifti(path, np.where(np.asarray(mask()) == 3, 255, 1).astype(np.uint8))
    assert "undeclared label 255" in check(acdc.cases(tmp_path)[0])[0]
    assert check(acdc.cases(tmp_path, LabelFlags(unlabeled=255))[0]) == []


def test_a_mask_without_its_scan_and_a_scan_stored_twice_are_named(tmp_path):
    make_acdc(tmp_path)
    twin = nifti(tmp_path / "patient001" / "patient001_frame01.nii", image())
    with pytest.raises(MixsegError, match=r"frame01\.nii.* are two files for one scan"):
        acdc.cases(tmp_path)
    twin.unlink()
    (tmp_path / "patient001" / "patient001_frame01.nii.gz").unlink()
    with pytest.raises(MixsegError, match=r"frame01_gt\.nii\.gz has no scan"):
        acdc.cases(tmp_path)


def test_la_masks_of_0_and_255_are_binary_and_a_missing_one_is_no_label(tmp_path):
    make_la(tmp_path)
    cases = la.cases(tmp_path)
    assert (formats.read_labels(cases[0].full).array == mask(2)).all()
    (tmp_path / "AAA" / "laendo.nrrd").unlink()
    assert [case.kind for case in la.cases(tmp_path)] == ["unlabeled", "full"]
    (tmp_path / "BBB" / "lgemri.nrrd").unlink()
    with pytest.raises(MixsegError, match="BBB has a mask but no scan"):
        la.cases(tmp_path)


@pytest.mark.real
def test_the_real_acdc_gives_160_scans_of_80_patients_with_scribbles_in_no_time(real_data):
    started = time.perf_counter()
    cases = load(real_data / "acdc")
    assert time.perf_counter() - started < 1
    assert len(cases) == 160
    assert len({case.patient for case in cases}) == 80
    assert all(case.full is not None and case.partial is not None for case in cases)
    assert check(cases[0]) == check(cases[-1]) == []
    scribbles, full = formats.read_labels(cases[0].partial).array, formats.read_labels(cases[0].full).array
    drawn = scribbles != IGNORE
    assert 0.001 < drawn.mean() < 0.05
    assert (scribbles[drawn] == full[drawn]).mean() > 0.99


@pytest.mark.real
def test_the_real_la_gives_42_scans(real_data):
    cases = load(real_data / "la")
    assert len(cases) == len({case.patient for case in cases}) == 42
    assert check(cases[0]) == []
    assert formats.read(cases[0].image[0]).spacing == pytest.approx((0.625, 0.625, 0.625))
