"""Scribbles look like strokes: thin, connected, one in each piece, as long as asked."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import ndimage

from mixseg.core.errors import MixsegError
from mixseg.core.types import IGNORE
from mixseg.datasets.partial_labels.scribbles import scribbles

EIGHT = np.ones((3, 3))


def heart():
    """A ring (2) round a disc (3), a bar (1) beside them."""
    i, j = np.mgrid[:80, :90]
    radius = np.hypot(i - 40, j - 50)
    return np.select([radius < 12, radius < 18, (np.abs(i - 40) < 14) & (np.abs(j - 22) < 5)], [3, 2, 1], 0).astype(
        np.uint8
    )


def rng(seed=0):
    return np.random.default_rng(seed)


@given(mask=hnp.arrays(np.uint8, st.tuples(st.integers(1, 14), st.integers(1, 14)), elements=st.integers(0, 3)))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_every_connected_piece_gets_one_connected_stroke(mask):
    strokes = scribbles(mask, rng(), background=False)
    assert not (strokes == 0).any()
    for label in (1, 2, 3):
        pieces, count = ndimage.label(mask == label, EIGHT)
        for piece in range(1, count + 1):
            assert ndimage.label((strokes == label) & (pieces == piece), EIGHT)[1] == 1


def test_a_bar_is_scribbled_along_its_middle_line():
    strokes = scribbles(heart(), rng(), shortest=1.0)
    i, j = np.nonzero(strokes == 1)
    assert np.ptp(i) > 14
    assert np.all(np.abs(j - 22) <= 5)
    assert np.all(np.abs(j[np.abs(i - 40) < 7] - 22) <= 1)


def test_a_ring_is_scribbled_half_way_between_its_borders():
    i, j = np.nonzero(scribbles(heart(), rng(), shortest=1.0) == 2)
    radius = np.hypot(i - 40, j - 50)
    assert np.all(np.abs(radius - 15) <= 1.5)
    assert i.size > 60


def test_a_disc_is_scribbled_in_a_loop_since_its_skeleton_is_a_dot():
    i, j = np.nonzero(scribbles(heart(), rng(), shortest=1.0) == 3)
    assert i.size > 20
    assert np.all(np.hypot(i - 40, j - 50) < 10)


def test_the_background_is_scribbled_round_the_foreground():
    mask = heart()
    strokes = scribbles(mask, rng(), shortest=1.0)
    distance = ndimage.distance_transform_edt(mask == 0)[strokes == 0]
    assert np.ptp(distance) < 1
    assert distance.min() >= 1


def test_without_background_only_the_foreground_is_scribbled():
    assert set(np.unique(scribbles(heart(), rng(), background=False))) == {1, 2, 3, IGNORE}


def test_a_slice_without_foreground_still_gets_a_background_stroke():
    assert (scribbles(np.zeros((20, 30), np.uint8), rng()) == 0).any()


def test_border_strokes_run_two_voxels_from_the_border_on_both_sides():
    mask = heart()
    strokes = scribbles(mask, rng(), border=True, shortest=1.0)
    for label in (1, 2, 3):
        depth = ndimage.distance_transform_cdt(mask == label, metric="chessboard")
        assert set(depth[strokes == label]) == {2}
    outside = ndimage.distance_transform_edt(mask == 0)[strokes == 0]
    assert np.all((outside >= 2) & (outside < 3))


@pytest.mark.parametrize("shortest", [0.2, 0.5, 1.0])
def test_a_stroke_follows_at_least_the_asked_share_of_its_line(shortest):
    whole = np.count_nonzero(scribbles(heart(), rng(), shortest=1.0) == 2)
    lengths = [np.count_nonzero(scribbles(heart(), rng(seed), shortest=shortest) == 2) for seed in range(20)]
    assert min(lengths) >= round(shortest * whole) - 1
    assert max(lengths) <= whole
    assert (len(set(lengths)) > 5) == (shortest < 1)


def test_a_wider_pen_paints_more_and_never_over_the_border():
    thin, wide = scribbles(heart(), rng()), scribbles(heart(), rng(), width=3)
    assert np.all((thin == IGNORE) | (wide == thin))
    assert np.count_nonzero(wide != IGNORE) > 2 * np.count_nonzero(thin != IGNORE)
    assert np.all((wide == IGNORE) | (wide == heart()))


def test_a_pen_without_width_is_refused():
    with pytest.raises(MixsegError, match="width is 0"):
        scribbles(heart(), rng(), width=0)
