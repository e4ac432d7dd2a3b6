"""Which intensities become black and white: CT by a window of HU, a spoiled range by the body, all else as it was."""

import numpy as np
import pytest

from ct import ct_like
from mixseg.core.errors import MixsegError
from mixseg.core.types import Case, Source
from mixseg.data.intensity import CLIP_BY, ct_window, is_ct, robust_ends, to_8_bits
from mixseg.data.prepare.files import PrepareOptions, prepare, some_images
from mixseg.datasets import formats
from mixseg.export import runner
from mixseg.runs.config import make_config
from mixseg.runs.device import Hardware
from mixseg.runs.folder import RunFolder
from mixseg.training.plan.intensities import choose_intensities
from mixseg.training.plan.settings import planned
from scans import AFFINE, discs, header


def mr_like(seed=0):
    return discs((48, 48, 12), seed)[0]


def test_ct_is_known_by_its_values_and_mr_is_not():
    image, _ = ct_like()
    assert is_ct(image)
    assert is_ct(np.asfortranarray(image.astype(np.float32)))
    assert not is_ct(mr_like())
    assert not is_ct(mr_like() - 3000), "below -900, but no fat and soft tissue"
    assert not is_ct((mr_like() - 500.0) / 200), "z-scores"
    phase = np.random.default_rng(0).integers(-4096, 4096, (32, 32, 8))
    assert not is_ct(phase)


def test_the_window_of_ct_holds_the_body_and_leaves_metal_and_air_out():
    low, high = ct_window([ct_like(seed=seed)[0] for seed in range(3)])
    assert -500 < low <= -100
    assert 200 <= high < 1000
    assert ct_window([ct_like(metal=False)[0]]) == pytest.approx((low, high), abs=40)


def test_a_contrast_of_20_hu_beside_metal_is_kept():
    image, mask = ct_like(noise=0)
    inside, around = image[mask == 1][0], image[mask == 0].max()
    assert around == 20000
    whole, _, _ = to_8_bits(image)
    window, _, _ = to_8_bits(image, ct_window([image]), "values")
    organ, tissue = mask == 1, image == inside - 20
    assert whole[organ][0] - whole[tissue][0] <= 1
    assert window[organ][0] - window[tissue][0] >= 4


@pytest.mark.parametrize("offset", [0, 1e6])
def test_a_range_that_a_few_voxels_take_up_is_that_of_the_body(offset):
    image = mr_like().astype(np.float64) + offset
    usual = to_8_bits(image)
    assert all(np.array_equal(a, b) for a, b in zip(to_8_bits(image, None, "outliers"), usual, strict=True))
    image[3, 4, 5] = offset + 50000
    assert robust_ends(image) is not None
    spoiled, kept = to_8_bits(image)[0].std(), to_8_bits(image, None, "outliers")[0].std()
    assert spoiled < 4 < 20 < kept
    narrow = to_8_bits(image, (5.0, 95.0), "outliers")
    assert narrow[1] > to_8_bits(image, None, "outliers")[1]


def test_images_of_few_values_are_not_taken_for_spoiled():
    for image in (np.zeros((4, 4, 4)), np.eye(9)[..., None] * 7.0, np.arange(8.0).reshape(2, 2, 2)):
        assert robust_ends(image) is None


def test_the_choice_follows_what_is_seen_and_what_is_given():
    scans = [ct_like(seed=seed)[0] for seed in range(2)]
    settings, why = choose_intensities(lambda: scans, {})
    assert settings["clip_by"] == "values"
    assert settings["clip"] == ct_window(scans)
    assert len(why) == 1
    assert choose_intensities(lambda: [mr_like()], {}) == ({}, [])
    mixed, why = choose_intensities(lambda: [mr_like(), scans[0]], {})
    assert mixed == {"clip_by": "outliers"}, "the metal of one"
    assert len(why) == 1
    for given in ({"clip": None}, {"clip_by": "percentiles"}):
        assert choose_intensities(lambda: scans, given) == ({}, [])


def ct_cases(folder):
    for name in ("a", "b"):
        image, mask = ct_like(seed=ord(name))
        formats.write(folder / f"{name}.nii.gz", image, affine=AFFINE)
        formats.write(folder / f"{name}_full.nii.gz", mask, affine=AFFINE)
    names = ("background", "organ")
    return [
        Case(
            id=name,
            patient=name,
            classes=names,
            image=(Source((folder / f"{name}.nii.gz",)),),
            full=Source((folder / f"{name}_full.nii.gz",), ids={0: 0, 1: 1}),
        )
        for name in ("a", "b")
    ]


def test_the_plan_takes_a_window_for_ct_and_the_papers_preset_never(tmp_path):
    cases = ct_cases(tmp_path / "in")

    def config(**settings):
        run, images = RunFolder(tmp_path / "run"), lambda: some_images(cases)
        return planned(lambda: [header((48, 48, 24), (1.0, 1.0, 1.0))], settings, run, Hardware("cpu"), images)

    strong, plan = config()
    assert strong.data.clip_by == "values"
    assert any("HU" in sentence for sentence in plan)
    assert config(preset="quick")[0].data.clip == strong.data.clip
    for settings in ({"preset": "paper"}, {"clip_by": "percentiles"}, {"preset": "quick", "clip": None}):
        found, plan = config(**settings)
        assert (found.data.clip, found.data.clip_by) == (None, "percentiles")
        assert not any("HU" in sentence for sentence in plan)
    prepared = prepare(cases, tmp_path / "out", strong.data.prepare_options, workers=1)
    assert {case.low + case.high for case in prepared.cases} == {strong.data.clip}


@pytest.mark.parametrize(
    "wrong", [{"clip_by": "values"}, {"clip": (5.0, 120.0)}, {"clip_by": "values", "clip": (3, 1)}]
)
def test_a_range_that_makes_no_sense_is_refused(wrong):
    for make in (PrepareOptions, make_config):
        with pytest.raises(MixsegError) as caught:
            make(**wrong)
        assert caught.value.code == "invalid-value"
        assert caught.value.fields["key"] == "clip"


@pytest.mark.parametrize("by", CLIP_BY)
def test_the_program_beside_an_exported_model_has_the_same_grey_values(by):
    spoiled = mr_like().astype(np.float64)
    spoiled[0, 0, 0] = 1e5
    big = np.tile(mr_like(), (3, 3, 8)).astype(np.float32)
    for image in (ct_like()[0], mr_like(), spoiled, big):
        for clip in ((2.0, 98.0), None):
            if clip or by != "values":
                theirs = runner.to_8_bits(image, {"clip": clip, "clip_by": by})
                assert np.abs(theirs - to_8_bits(image, clip, by)[0]).max() <= 1, "but for rounding"
