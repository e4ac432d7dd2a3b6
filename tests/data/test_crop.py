"""Slices of one voxel size: cropped or padded round their centre, brought back in place, nothing lost in silence."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixseg.core.errors import MixsegError
from mixseg.core.types import IGNORE
from mixseg.data.prepare.files import PrepareOptions, prepare, read_header
from mixseg.data.prepare.grid import lay_out
from mixseg.data.resample import (
    centred,
    cropped_foreground,
    kept_part,
    probabilities_to_source,
    resize_linear,
    resize_masks,
    restore_cropped,
    to_slices,
    to_source,
)
from mixseg.datasets import formats
from mixseg.evaluation.metrics import dice
from scans import header, write_case

sides = st.integers(1, 30)
quiet = settings(deadline=None, derandomize=True, max_examples=80)
AT_1_MM = PrepareOptions(size=(32, 32), spacing=(1.0, 1.0))


@quiet
@given(sides, sides, sides, sides)
def test_what_a_crop_keeps_comes_back_where_it_was(i, j, height, width):
    array = np.arange(1, i * j + 1).reshape(1, i, j)
    back = centred(centred(array, (height, width), 0), (i, j), 0)
    kept = np.zeros_like(array, bool)
    kept[0][kept_part((i, j), (height, width))] = True
    assert (back == np.where(kept, array, 0)).all()
    assert kept.sum() == min(i, height) * min(j, width)


@quiet
@given(sides, sides, sides, sides, st.integers(0, 5))
def test_a_score_on_the_crop_counts_what_was_cut_off(i, j, height, width, seed):
    rng = np.random.default_rng(seed)
    truth, guess = rng.integers(0, 3, (2, 2, i, j), dtype=np.uint8)
    size = (height, width)
    beyond = cropped_foreground(truth, size)
    small = centred(guess, size, 0)
    labels, whole = restore_cropped(small, centred(truth, size, IGNORE), beyond)
    answered = centred(small, (i, j), 0)  # the same prediction on the uncropped grid: nothing beyond the crop
    for label in (1, 2):
        assert (whole == label).sum() == (truth == label).sum()
        padded = centred(small, (max(i, height), max(j, width)), 0)
        there = centred(truth, padded.shape[1:], 0)
        known = centred(np.ones_like(truth), padded.shape[1:], 0) == 1
        inside = (labels == label) & (whole != IGNORE)
        assert inside.sum() == ((padded == label) & known).sum() == (answered == label).sum()
        assert (inside & (whole == label)).sum() == ((padded == label) & (there == label)).sum()


def test_nothing_is_copied_where_nothing_is_cut():
    truth = np.ones((2, 4, 4), np.uint8)
    beyond = cropped_foreground(truth, (6, 6))
    assert beyond.shape == (0, 4)
    assert restore_cropped(truth, truth, beyond)[1] is truth


def test_slices_have_the_asked_spacing_and_size_with_nothing_known_round_them(tmp_path):
    prepared = prepare([write_case(tmp_path / "in", "a")], tmp_path / "out", AT_1_MM, workers=1)
    entry = prepared.cases[0]  # 20 x 24 pixels of 1.5 x 1.25 mm
    assert (entry.field, entry.shape) == ((30, 30), (3, 32, 32))
    assert entry.spacing == pytest.approx((8, 1, 1))
    rim = np.ones((32, 32), bool)
    rim[1:31, 1:31] = False
    assert (prepared.image(entry)[:, 0, rim] == 0).all()
    assert (prepared.full(entry)[:, rim] == IGNORE).all()
    assert (prepared.full(entry)[:, ~rim] != IGNORE).all()
    inner = prepared.image(entry)[..., 1:31, 1:31]
    np.testing.assert_allclose((entry.mean[0], entry.std[0]), (inner.mean(), inner.std()))


def test_scans_that_lost_their_voxel_size_get_one_size_without_being_stretched(tmp_path):
    shapes = ((20, 24, 2), (40, 48, 2), (24, 16, 2))
    cases = [write_case(tmp_path / "in", name, shape=shape) for name, shape in zip("abc", shapes, strict=True)]
    headers = [dataclasses.replace(read_header(case), spacing=(1.0, 1.0, 1.0), spacing_known=False) for case in cases]
    placed = lay_out(headers, PrepareOptions(size=(36, 36), long_side=36))
    assert [case.field for case in placed] == [(30, 36), (30, 36), (36, 24)]
    with pytest.raises(MixsegError, match="holds no voxel size"):
        lay_out(headers, AT_1_MM)


def test_what_a_crop_cuts_off_is_counted_and_told(tmp_path):
    case = write_case(tmp_path / "in", "a")
    small = dataclasses.replace(AT_1_MM, size=(8, 12))
    whole = prepare([case], tmp_path / "whole", AT_1_MM, workers=1)
    cropped = prepare([case, write_case(tmp_path / "in", "b")], tmp_path / "out", small, workers=1)
    for number, entry in enumerate(cropped.cases):
        labels, truth = restore_cropped(cropped.full(entry), cropped.full(entry), cropped.cropped(entry))
        assert entry.cropped_full == len(cropped.cropped(entry)) > 0
        if number == 0:
            before = whole.full(whole.cases[0])
            assert [(truth == label).sum() for label in (1, 2, 3)] == [(before == label).sum() for label in (1, 2, 3)]
            assert dice(labels == 1, truth == 1) < 1
            drawn = (whole.partial(whole.cases[0]) != IGNORE).sum()
            assert entry.cropped_partial == drawn - (cropped.partial(entry) != IGNORE).sum() > 0
    (told,) = cropped.remarks()
    assert f"{sum(entry.cropped_full for entry in cropped.cases)} foreground voxels" in told
    assert "in 2 of 2 scans" in told
    assert whole.remarks() == []
    assert not (tmp_path / "whole" / "beyond.npy").exists()


def test_all_drawn_strokes_survive_a_coarser_spacing(tmp_path):
    case = write_case(tmp_path / "in", "a")
    coarse = prepare([case], tmp_path / "out", PrepareOptions(size=(16, 16), spacing=(3.0, 3.0)), workers=1)
    entry = coarse.cases[0]
    strokes = to_slices(formats.read_labels(case.partial).array)
    kept = centred(coarse.partial(entry), entry.field, IGNORE)
    for k, s, t in np.argwhere(strokes != IGNORE):
        h, w = (int((x + 0.5) * m / n) for x, m, n in zip((s, t), entry.field, strokes.shape[1:], strict=True))
        assert kept[k, h, w] != IGNORE


SHIFTS = np.random.default_rng(0).uniform(-3, 3, (40, 2))


def ellipses(shape, spacing):
    """An ellipse per slice, each at another fraction of a voxel: the voxels whose centres lie in it."""
    axes = [(np.arange(n) + 0.5) * mm for n, mm in zip(shape, spacing, strict=True)]
    i, j = np.meshgrid(*axes, indexing="ij")
    middle = [0.5 * n * mm for n, mm in zip(shape, spacing, strict=True)]
    return np.stack(
        [np.hypot((i - middle[0] - a) / 31.3, (j - middle[1] - b) / 27.8) <= 1 for a, b in SHIFTS], axis=-1
    ).astype(np.uint8)


@pytest.mark.parametrize("target", [0.8, 1.25, 2.1, 3.0])
@pytest.mark.parametrize(
    ("shape", "spacing"), [((101, 87), (1.37, 1.37)), ((64, 91), (2.2, 1.1)), ((130, 131), (1, 1))]
)
def test_shapes_come_back_to_their_own_grid_without_a_shift(shape, spacing, target):
    mask = ellipses(shape, spacing)
    place = lay_out([header(mask.shape, (*spacing, 10.0))], PrepareOptions(size=(150, 110), spacing=(target, target)))[
        0
    ]
    hard = centred(resize_masks(to_slices(mask), place.field), place.shape[1:], 0)
    share = centred(resize_linear(to_slices(mask), place.field, smooth=True), place.shape[1:], 0)
    pitch = max(1, target / min(spacing))
    centres = {}
    for name, back in {
        "labels": to_source(hard, place),
        "probabilities": probabilities_to_source(np.stack([hard == 0, hard == 1]), place).argmax(axis=0),
        "shares": probabilities_to_source(np.stack([1 - share, share]), place)[1],
    }.items():
        assert back.shape == mask.shape
        assert min(dice(mask[..., k] > 0, back[..., k] > 0.5) for k in range(len(SHIFTS))) > 1 - 0.015 * pitch
        centres[name] = np.stack([centroid(back[..., k]) - centroid(mask[..., k]) for k in range(len(SHIFTS))])
    # Hard labels on a coarse grid are a little off, now here, now there; what keeps its shares is in place each time.
    assert np.abs(centres["shares"]).max() < 0.01
    for name in ("labels", "probabilities"):
        assert np.abs(centres[name]).max() < 0.25 * pitch
        assert np.abs(centres[name].mean(axis=0)).max() < 0.05 * pitch


def centroid(weights):
    return np.array([(np.indices(weights.shape)[axis] * weights).sum() / weights.sum() for axis in range(2)])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"spacing": (1.0,)}, "2 voxel sizes"),
        ({"spacing": (1.0, 1.0), "dims": 3}, "3 voxel sizes"),
        ({"spacing": (1.0, 0.0)}, "2 voxel sizes"),
        ({"spacing": (1.0, 1.0), "long_side": 256}, "leave one out"),
        ({"long_side": 0}, "number of pixels"),
    ],
)
def test_a_voxel_size_that_makes_no_sense_is_one_sentence(options, words):
    with pytest.raises(MixsegError, match=words):
        PrepareOptions(**options)
