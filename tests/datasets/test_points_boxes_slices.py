"""Points, boxes and slices: what they label can be counted."""

import numpy as np
import pytest
from scipy import ndimage

from mixseg.core.errors import MixsegError
from mixseg.core.types import IGNORE
from mixseg.datasets.partial_labels.boxes import boxes
from mixseg.datasets.partial_labels.points import points
from mixseg.datasets.partial_labels.slices import slices


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.fixture
def mask():
    out = np.zeros((30, 32, 7), dtype=np.uint8)
    out[4:15, 5:18, 1:6], out[17:26, 8:27, 2:] = 1, 2
    return out


@pytest.mark.parametrize("count", [1, 3])
def test_points_are_clicked_that_often_in_each_class_of_each_slice(mask, count):
    partial = points(mask, rng(), count=count)
    for label in (0, 1, 2):
        present = (mask == label).any(axis=(0, 1))
        assert np.array_equal((partial == label).sum(axis=(0, 1)), count * present)


def test_points_lie_well_inside_the_foreground(mask):
    for seed in range(20):
        partial = points(mask, rng(seed))
        depth = ndimage.distance_transform_cdt(np.pad(mask[..., 3] == 1, 1), metric="chessboard")[1:-1, 1:-1]
        assert np.all(2 * depth[partial[..., 3] == 1] >= depth.max())


def test_fewer_voxels_than_clicks_are_all_clicked():
    mask = np.zeros((5, 5), dtype=np.uint8)
    mask[2, 2] = 1
    partial = points(mask, rng(), count=4, background=False)
    assert np.array_equal(partial == 1, mask == 1)
    assert not (partial == 0).any()


def test_a_click_with_a_radius_paints_a_disc_of_its_class():
    mask = np.full((30, 30), 1, dtype=np.uint8)
    assert np.count_nonzero(points(mask, rng(), radius=2) == 1) == 13


def test_a_box_labels_the_background_outside_of_it_and_nothing_inside(mask):
    partial = boxes(mask, rng())
    inside = np.zeros_like(mask, dtype=bool)
    inside[4:15, 5:18, 1:6], inside[17:26, 8:27, 2:] = True, True
    assert np.array_equal(partial == 0, ~inside)
    assert np.array_equal(partial == IGNORE, inside)


def test_a_box_leaves_unlabelled_voxels_unlabelled(mask):
    mask[0] = IGNORE
    assert np.all(boxes(mask, rng())[0] == IGNORE)


def test_a_loose_box_is_larger_by_at_most_its_margin(mask):
    tight, within = boxes(mask, rng()) == IGNORE, ndimage.binary_dilation
    sizes = set()
    for seed in range(20):
        loose = boxes(mask, rng(seed), margin=3) == IGNORE
        assert np.all(loose[tight])
        assert not (loose & ~within(tight, np.ones((7, 7, 1)))).any()
        sizes.add(int(loose.sum()))
    assert len(sizes) > 10


@pytest.mark.parametrize("every", [1, 2, 3, 20])
def test_every_nth_slice_is_whole_and_the_others_are_empty(mask, every):
    for seed in range(8):
        partial = slices(mask, rng(seed), every=every)
        labelled = np.flatnonzero((partial != IGNORE).any(axis=(0, 1)))
        assert np.array_equal(labelled, np.arange(labelled[0], mask.shape[-1], every))
        assert labelled[0] < every
        assert np.array_equal(partial[..., labelled], mask[..., labelled])


def test_a_2d_mask_is_one_slice_and_stays_whole(mask):
    assert np.array_equal(slices(mask[..., 3], rng()), mask[..., 3])


def test_options_without_meaning_are_refused_by_name(mask):
    for function, option in ((slices, {"every": 0}), (points, {"count": 0}), (points, {"radius": -1})):
        with pytest.raises(MixsegError, match=next(iter(option))):
            function(mask, rng(), **option)
    with pytest.raises(MixsegError, match="margin is -1"):
        boxes(mask, rng(), margin=-1)
