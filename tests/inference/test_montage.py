"""Slices side by side: which, where, and that every tile is the slice that it says."""

import numpy as np
import pytest

from mixseg.core.types import IGNORE
from mixseg.inference.report_slices import COLUMNS, TILE_SIDE, TILES, lay_out


def ball(shape, centre, radius):
    grid = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"))
    return (((grid - np.reshape(centre, (3, 1, 1, 1))) ** 2).sum(axis=0) <= radius**2).astype(np.uint8)


def tiles(montage, picture):
    """The tiles of a picture, row by row."""
    height, width = montage.tile
    for number in range(len(montage.indices)):
        down, across = divmod(number, montage.columns)
        yield picture[down * height : (down + 1) * height, across * width : (across + 1) * width]


def test_tiles_are_slices_spread_over_all_that_anyone_marked():
    shape = (40, 36, 60)
    grey = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    truth, answer = ball(shape, (20, 18, 20), 8), ball(shape, (20, 18, 30), 8)
    found = lay_out(grey, truth, answer, (1.0, 2.0, 5.0))
    assert (len(found.indices), found.columns) == (TILES, COLUMNS)
    assert (found.indices[0], found.indices[-1]) == (12, 38), "from the first slice of the one to the last of the other"
    assert found.pixel == (1.0, 2.0)
    steps = np.diff(found.indices)
    assert steps.max() - steps.min() <= 1
    for volume, picture in ((grey, found.image), (truth, found.truth), (answer, found.answer)):
        for index, tile in zip(found.indices, tiles(found, picture), strict=True):
            # 17 voxels of the ball and 2 on either side, the first axis to the right.
            assert np.array_equal(tile, volume[10:31, 8:29, index].T)


def test_what_is_thinner_than_the_tiles_is_shown_slice_by_slice():
    shape = (20, 20, 12)
    truth = np.zeros(shape, np.uint8)
    truth[8:12, 8:12, 4:7] = 1
    found = lay_out(truth, truth, truth, (1.0, 1.0, 1.0))
    assert found.indices == (4, 5, 6)
    assert found.columns == 3


@pytest.mark.parametrize("empty", [0, IGNORE])
def test_where_nothing_is_marked_the_whole_volume_is_shown(empty):
    truth = np.full((8, 6, 30), empty, np.uint8)
    found = lay_out(truth, truth, np.zeros_like(truth), (1.0, 1.0, 1.0))
    assert found.tile == (6, 8)
    assert (found.indices[0], found.indices[-1]) == (0, 29)


def test_large_tiles_are_thinned_out():
    truth = np.ones((300, 200, 3), np.uint8)
    assert max(lay_out(truth, truth, truth, (1.0, 1.0, 1.0)).tile) <= TILE_SIDE + 4
