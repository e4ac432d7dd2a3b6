import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage.transform import resize

from mixseg.core.types import IGNORE
from mixseg.data.prepare.store import PreparedCase
from mixseg.data.resample import (
    probabilities_to_source,
    resize_image,
    resize_labels,
    resize_linear,
    resize_strokes,
    to_slices,
    to_source,
)
from scans import header

sides = st.integers(1, 40)
quiet = settings(deadline=None, derandomize=True, max_examples=60)


def prepared_case(source_shape, shape, dims=2):
    return PreparedCase(header(source_shape, (1, 1, 1)), dims, shape, (1, 1, 1), True, True)


@quiet
@given(sides, sides, sides, sides)
def test_images_are_resized_as_skimage_does_within_one_grey_level(i, j, height, width):
    image = np.random.default_rng(0).integers(0, 256, (i, j), dtype=np.uint8)
    other = resize(image, (height, width), order=1, mode="edge", anti_aliasing=False, preserve_range=True)
    assert np.abs(resize_image(image, (height, width)) - other).max() <= 1


@quiet
@given(sides, sides, sides, sides)
def test_labels_come_from_the_voxel_under_the_centre(i, j, height, width):
    labels = np.random.default_rng(1).integers(0, 256, (i, j), dtype=np.uint8)
    out = resize_labels(labels, (height, width))
    for t, u in np.ndindex(height, width):
        assert out[t, u] == labels[int((t + 0.5) * i / height + 1e-9), int((u + 0.5) * j / width + 1e-9)]


@quiet
@given(sides, sides, sides, sides, st.integers(0, 9))
def test_every_stroke_of_one_class_survives_where_it_was(i, j, height, width, seed):
    rng = np.random.default_rng(seed)
    strokes = np.where(rng.random((1, i, j)) < 0.1, 1, IGNORE).astype(np.uint8)
    out = resize_strokes(strokes, (height, width))
    for _, s, t in np.argwhere(strokes == 1):
        assert out[0, int((s + 0.5) * height / i + 1e-9), int((t + 0.5) * width / j + 1e-9)] == 1
    if height >= i and width >= j:
        assert (out == resize_labels(strokes, (height, width))).all()


def test_plain_nearest_neighbours_would_lose_the_stroke_that_is_kept():
    strokes = np.full((1, 30, 30), IGNORE, np.uint8)
    strokes[0, 0] = 2
    assert (resize_labels(strokes, (10, 10)) == IGNORE).all()
    assert (resize_strokes(strokes, (10, 10))[0, 0] == 2).all()


def test_where_strokes_collide_the_rarer_class_stays():
    strokes = np.full((1, 4, 4), 0, np.uint8)
    strokes[0, 1, 1] = 3
    assert resize_strokes(strokes, (2, 2))[0, 0, 0] == 3


@quiet
@given(st.integers(8, 40), st.integers(8, 40))
def test_labels_come_back_from_a_finer_grid_as_they_went(i, j):
    labels = np.random.default_rng(2).integers(0, 4, (i, j, 3), dtype=np.uint8)
    there = resize_labels(to_slices(labels), (64, 48))
    assert (to_source(there, prepared_case((i, j, 3), (3, 64, 48))) == labels).all()


@pytest.mark.parametrize("source", [(50, 60), (200, 180), (250, 216)])
def test_a_square_does_not_shift_on_its_way_there_and_back(source):
    labels = np.zeros((*source, 30), np.uint8)
    for k in range(30):  # at many places: a border falls between coarse voxels now on one side, now on the other
        labels[5 + k : 25 + k, 3 + k : 20 + k, k] = 1
    case = prepared_case(labels.shape, (30, 128, 128))
    there = resize_labels(to_slices(labels), (128, 128))
    probabilities = np.stack([there == 0, there == 1]).astype(np.float32)
    for back in (to_source(there, case), probabilities_to_source(probabilities, case).argmax(axis=0)):
        assert back.shape == labels.shape
        for axis, first in ((0, 5), (1, 3)):
            edges = back.any(axis=1 - axis).astype(np.int8)
            begins = edges.argmax(axis=0) - (first + np.arange(30))
            pitch = max(1, source[axis] / 128)
            assert np.abs(begins).max() <= pitch
            assert abs(begins.mean()) < 0.35


@pytest.mark.parametrize("source", [(50, 60), (128, 100)])
def test_interpolated_probabilities_come_back_from_a_finer_grid_in_place(source):
    labels = np.zeros((*source, 1), np.uint8)
    labels[11:31, 23:47] = 1
    there = resize_labels(to_slices(labels), (128, 128))
    probabilities = np.stack([there == 0, there == 1]).astype(np.float32)
    back = probabilities_to_source(probabilities, prepared_case(labels.shape, (1, 128, 128))).argmax(axis=0)
    assert (back == labels).all()


def test_a_ramp_stays_a_ramp():
    ramp = np.arange(20, dtype=np.float32)
    fine = resize_linear(ramp[None], (80,))[0]
    expected = ((np.arange(80) + 0.5) / 4 - 0.5).clip(0, 19)
    np.testing.assert_allclose(fine, expected, atol=1e-5)


def test_a_volume_keeps_its_grid():
    case = prepared_case((3, 4, 5), (3, 4, 5), dims=3)
    labels = np.arange(60, dtype=np.uint8).reshape(3, 4, 5)
    assert to_source(labels, case) is labels
    assert probabilities_to_source(np.stack([labels, labels]) / 60, case).shape == (2, 3, 4, 5)
