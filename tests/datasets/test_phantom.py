"""The phantom is the same for the same seed, is anatomy, differs between patients, and becomes a readable dataset."""

import json
import time

import nibabel
import numpy as np
import pytest
from scipy import ndimage

from mixseg.core.errors import MixsegError
from mixseg.datasets import load, phantom
from mixseg.datasets.phantom.scanner import bias_field, scan

RV, MYO, LV = 1, 2, 3
SMALL = {"size": (64, 64), "slices": 8}
PATIENTS = range(24)
CROSS = ndimage.generate_binary_structure(2, 1)[:, :, None]
"""Neighbours within the slice."""


@pytest.fixture(scope="module")
def hearts():
    return {
        (patient, frame): phantom.heart(0, patient, frame, **SMALL) for patient in PATIENTS for frame in phantom.FRAMES
    }


@pytest.fixture(scope="module")
def atria():
    return [phantom.atrium(0, patient, size=(48, 48), slices=24) for patient in range(6)]


def test_scan_and_mask_have_the_asked_shape_and_type(hearts):
    for image, mask in hearts.values():
        assert image.shape == mask.shape == (64, 64, 8)
        assert image.dtype == np.float32
        assert mask.dtype == np.uint8
        assert np.isfinite(image).all()
        assert image.min() >= 0


def test_equal_arguments_give_equal_arrays_and_any_other_argument_does_not():
    image, mask = phantom.heart(3, 5, "ED", **SMALL)
    again = phantom.heart(3, 5, "ED", **SMALL)
    assert np.array_equal(image, again[0])
    assert np.array_equal(mask, again[1])
    for other in ((4, 5, "ED"), (3, 6, "ED"), (3, 5, "ES")):
        assert not np.array_equal(image, phantom.heart(*other, **SMALL)[0])
    assert np.array_equal(
        phantom.atrium(0, 1, size=(24, 24), slices=9)[0], phantom.atrium(0, 1, size=(24, 24), slices=9)[0]
    )


def test_a_patient_is_the_same_person_at_every_size():
    for patient in range(4):
        _, fine = phantom.heart(0, patient, "ED", size=(192, 192), slices=8)
        _, coarse = phantom.heart(0, patient, "ED", size=(64, 64), slices=8)
        # With 3 fine voxels to a coarse one, the middle one lies where the coarse one does.
        assert np.mean(fine[1::3, 1::3] == coarse) > 0.999


def test_a_picture_need_not_be_square():
    image, mask = phantom.heart(0, 0, "ED", size=(48, 64), slices=5)
    assert image.shape == mask.shape == (48, 64, 5)


def test_every_heart_has_its_three_structures_and_they_fill_plausible_shares(hearts):
    for _, mask in hearts.values():
        shares = np.bincount(mask.ravel(), minlength=4) / mask.size
        assert (shares > 0).all()
        assert 0.001 < shares[LV] < 0.04
        assert shares[1:].sum() < 0.10


def test_the_myocardium_encloses_the_left_ventricle(hearts):
    """Whatever touches the cavity, within its slice, is myocardium: it never leaks into background or RV."""
    for _, mask in hearts.values():
        rim = ndimage.binary_dilation(mask == LV, CROSS) & (mask != LV)
        assert np.mean(mask[rim] == MYO) > 0.95


def test_the_right_ventricle_lies_to_the_patients_right(hearts):
    for _, mask in hearts.values():
        assert np.nonzero(mask == RV)[0].mean() < np.nonzero(mask == LV)[0].mean()


def test_the_left_ventricle_shrinks_to_end_systole_and_its_muscle_remains(hearts):
    for patient in PATIENTS:
        filled, contracted = (
            np.bincount(hearts[patient, frame][1].ravel(), minlength=4).astype(float) for frame in phantom.FRAMES
        )
        assert contracted[LV] < filled[LV]
        assert 0.5 < contracted[MYO] / filled[MYO] < 1.3


def test_hearts_taper_towards_the_apex_and_some_basal_slices_have_none(hearts):
    areas = np.array([(mask == LV).sum(axis=(0, 1)) for _, mask in hearts.values()])
    assert areas[:, 6].mean() < 0.75 * areas[:, 3].mean()
    without = (areas[:, 0] == 0).mean()
    assert 0.2 < without < 0.9
    assert (areas[:, 3] > 0).all()


def test_blood_is_brighter_than_muscle_by_a_contrast_that_differs_between_patients(hearts):
    contrasts = []
    for image, mask in hearts.values():
        contrasts.append(np.median(image[mask == LV]) / np.median(image[mask == MYO]))
    assert min(contrasts) > 1
    assert max(contrasts) > 1.8 * min(contrasts)


def test_position_and_size_differ_between_patients(hearts):
    masks = [hearts[patient, "ED"][1] == LV for patient in PATIENTS]
    centres = np.array([np.argwhere(mask).mean(axis=0)[:2] for mask in masks])
    volumes = np.array([mask.sum() for mask in masks])
    assert (centres.std(axis=0) > 1).all()
    assert volumes.max() > 2 * volumes.min()


def test_other_things_are_as_bright_as_the_left_ventricle(hearts):
    """Else a threshold would do: in most scans more voxels outside the heart than in the cavity are so bright."""
    crowded = [
        np.count_nonzero(image[mask == 0] > np.median(image[mask == LV])) > np.count_nonzero(mask == LV)
        for image, mask in hearts.values()
    ]
    assert np.mean(crowded) > 0.5


def test_noise_is_rician():
    """In air the magnitude of two normal channels has mean sigma sqrt(pi / 2) and mean square 2 sigma^2."""
    rng = np.random.default_rng(0)
    air = scan(np.zeros((64, 64, 16), np.float32), rng, rng, noise=0.05)
    assert air.mean() ** 2 / (air**2).mean() == pytest.approx(np.pi / 4, rel=0.01)


def test_a_bias_field_is_smooth_and_near_one():
    for seed in range(10):
        field = bias_field((64, 64, 8), np.random.default_rng(seed))
        assert np.abs(np.diff(field, axis=0)).max() < 0.1
        assert 0.4 < np.median(field) < 2.5


def test_an_atrium_is_one_piece_of_plausible_volume_with_veins(atria):
    for image, mask in atria:
        assert image.shape == mask.shape == (48, 48, 24)
        assert set(np.unique(mask)) == {0, 1}
        assert ndimage.label(mask)[1] == 1
        millilitres = mask.sum() * (160 / 48) ** 2 * (80 / 24) / 1000
        assert 20 < millilitres < 160
        # Opening with a ball wider than a vein leaves the body: what it removes reaches beyond it on both sides.
        body = ndimage.binary_opening(mask, ndimage.iterate_structure(ndimage.generate_binary_structure(3, 1), 3))
        across, whole = (np.ptp(np.nonzero(region)[0]) for region in (body, mask))
        assert whole >= across + 4


def test_making_scans_takes_milliseconds():
    started = time.process_time()
    for patient in range(10):
        phantom.heart(1, patient, "ED", **SMALL)
    assert (time.process_time() - started) / 10 < 0.1


@pytest.mark.parametrize(("kind", "scans"), [("heart", 12), ("atrium", 6)])
def test_a_written_dataset_reads_back_as_cases(tmp_path, kind, scans):
    root = phantom.write(tmp_path / "made", kind=kind, patients=6, val=1, test=2, size=(32, 32), slices=4, seed=5)
    cases = load(root, "phantom")
    assert len(cases) == scans
    assert {case.kind for case in cases} == {"full"}
    splits = json.loads((root / "splits.json").read_text())
    assert [len(splits[part]) for part in ("train", "val", "test")] == [3, 1, 2]
    assert sorted(name for names in splits.values() for name in names) == sorted({case.patient for case in cases})
    assert cases[0].classes == (("background", "RV", "Myo", "LV") if kind == "heart" else ("background", "LA"))


def test_a_written_scan_holds_the_array_and_its_spacing(tmp_path):
    root = phantom.write(tmp_path / "made", patients=1, val=0, test=0, size=(32, 32), slices=4, seed=5)
    scan_ = nibabel.load(root / "imagesTr" / "patient001_frame01_0000.nii.gz")
    label = nibabel.load(root / "labelsTr" / "patient001_frame01.nii.gz")
    image, mask = phantom.heart(5, 0, "ED", size=(32, 32), slices=4)
    assert np.array_equal(np.asarray(scan_.dataobj), np.round(image))
    assert np.array_equal(np.asarray(label.dataobj), mask)
    assert scan_.header.get_zooms() == pytest.approx((11.25, 11.25, 10))
    assert np.array_equal(scan_.affine, label.affine)
    assert nibabel.aff2axcodes(scan_.affine) == ("L", "P", "S")


def test_too_few_patients_or_an_unknown_kind_is_one_sentence(tmp_path):
    with pytest.raises(MixsegError, match="ask for more"):
        phantom.write(tmp_path / "made", patients=20, val=5, test=15)
    with pytest.raises(MixsegError, match="choose heart or atrium"):
        phantom.write(tmp_path / "made", kind="liver")
    assert not (tmp_path / "made").exists()
