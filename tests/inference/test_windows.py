"""Where windows lie, what they weigh, and what is said of the memory that they need."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mixseg.inference.sliding_window import Windows
from mixseg.runs.config import make_config

sides = st.integers(1, 60)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(size=sides, patch=sides, stride=st.one_of(st.none(), st.integers(1, 80)))
def test_windows_cover_every_voxel_and_stay_inside(size, patch, stride):
    size = max(size, patch)
    (starts,) = Windows((patch,), None if stride is None else (stride,)).starts((size,))
    covered = set(itertools.chain(*(range(start, start + patch) for start in starts)))
    assert covered == set(range(size))
    assert starts == sorted(set(starts))


def test_the_papers_stride_is_that_of_its_sliding_window():
    windows = Windows.of(make_config(preset="paper", dims=3))
    assert (windows.patch, windows.stride, windows.weights) == ((112, 112, 80), (18, 18, 4), "uniform")
    assert windows.starts((112, 150, 88)) == [[0], [0, 18, 36, 38], [0, 4, 8]]


def test_the_other_presets_overlap_by_half_and_let_the_middle_count_more():
    for preset in ("strong", "quick"):
        windows = Windows.of(make_config(preset=preset, dims=3))
        assert windows.weights == "gaussian"
        half = [side // 2 for side in windows.patch]
        assert windows.starts([2 * side for side in windows.patch]) == [[0, step, 2 * step] for step in half]
    assert Windows.of(make_config(preset="strong", dims=2)) is None


def test_gaussian_weights_are_highest_in_the_middle_even_and_never_lost():
    weight = Windows((9, 8, 33)).weight(torch.zeros(()))
    assert weight.shape == (9, 8, 33)
    assert weight[4, 3, 16] == weight.max()
    for axis in range(3):
        torch.testing.assert_close(weight, weight.flip(axis))
    assert weight.min() == pytest.approx(1e-3)
    # exp(-d^2 / 2 sigma^2), sigma an eighth of the window.
    fallen = weight[4, 3, 16 + 8] / weight[4, 3, 16]
    assert fallen.item() == pytest.approx(math.exp(-(8**2) / (2 * (33 / 8) ** 2)))
    assert (Windows((3, 4, 5), weights="uniform").weight(torch.zeros(())) == 1).all()


def test_slabs_lie_along_the_axis_where_they_are_the_smallest_share():
    assert Windows((64, 64, 64)).slab_axis((512, 512, 600)) == 2
    assert Windows((112, 112, 80)).slab_axis((194, 142, 88)) == 0
    assert Windows((32, 32, 8)).slab_axis((64, 64, 64)) == 2


def test_the_plan_counts_windows_and_gigabytes():
    said = Windows((64, 64, 64)).plan((512, 512, 600), channels=1, classes=5, outputs=3)
    # 15 x 15 x 18 windows. Bytes: the image and three label maps, and 5 x 3 + 2 floats in a slab of 64 slices.
    assert said.startswith("512 x 512 x 600 voxels: 4050 windows of 64 x 64 x 64, ")
    assert f"{(4 * 512 * 512 * 600 + 4 * 17 * 512 * 512 * 64) / 1e9:.1f} GB" in said
    whole = Windows((64, 64, 64)).plan((512, 512, 600), channels=1, classes=5, outputs=3, probabilities=True)
    assert f"{(512 * 512 * 600 * (1 + 4 * 15) + 4 * 17 * 512 * 512 * 64) / 1e9:.1f} GB" in whole
