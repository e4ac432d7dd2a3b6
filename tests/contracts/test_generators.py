"""What every generator of partial labels promises, whichever it is."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mixseg.core.errors import MixsegError
from mixseg.core.types import IGNORE
from mixseg.datasets.partial_labels import GENERATORS

SHAPES = st.one_of(
    st.tuples(st.integers(1, 16), st.integers(1, 16)),
    st.tuples(st.integers(1, 12), st.integers(1, 12), st.integers(1, 4)),
)
# Single voxels up to solid blocks: each voxel takes the label of the coarse cell it lies in.
CELLS = st.sampled_from([1, 2, 5])
properties = settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@st.composite
def masks(draw):
    shape, cell = draw(SHAPES), draw(CELLS)
    coarse = [-(-length // cell) for length in shape]
    labels = draw(hnp.arrays(np.uint8, tuple(coarse), elements=st.sampled_from([0, 1, 2, 7, IGNORE])))
    for axis in range(len(shape)):
        labels = labels.repeat(cell, axis=axis)
    return labels[tuple(slice(length) for length in shape)].copy()


@pytest.fixture(params=GENERATORS, ids=str)
def generator(request):
    return GENERATORS[request.param]


def rng():
    return np.random.default_rng(7)


@given(mask=masks())
@properties
def test_a_generator_never_contradicts_the_mask(generator, mask):
    before = mask.copy()
    partial = generator(mask, rng())
    assert partial.shape == mask.shape
    assert partial.dtype == np.uint8
    assert np.all((partial == IGNORE) | (partial == mask))
    assert np.array_equal(mask, before), "the mask itself was changed"
    assert not np.shares_memory(partial, mask)


@given(mask=masks())
@properties
def test_the_same_random_numbers_give_the_same_labels(generator, mask):
    assert np.array_equal(generator(mask, rng()), generator(mask, rng()))


@given(mask=masks(), axis=st.integers(-3, 2))
@properties
def test_slices_may_lie_along_any_axis(generator, mask, axis):
    if mask.ndim == 2:
        return
    turned = generator(np.moveaxis(mask, -1, axis), rng(), axis=axis)
    assert np.array_equal(np.moveaxis(turned, axis, -1), generator(mask, rng()))


def test_an_empty_class_stays_empty_and_an_unlabelled_scan_stays_unlabelled(generator):
    background = np.zeros((12, 12, 3), dtype=np.uint8)
    assert set(np.unique(generator(background, rng()))) <= {0, IGNORE}
    unlabeled = np.full((12, 12, 3), IGNORE, dtype=np.uint8)
    assert np.all(generator(unlabeled, rng()) == IGNORE)


def test_something_is_labelled_but_not_everything(generator):
    mask = np.zeros((40, 40, 6), dtype=np.uint8)
    mask[5:30, 5:20], mask[10:25, 22:35] = 1, 2
    labelled = (generator(mask, rng()) != IGNORE).mean()
    assert 0 < labelled < 1


def test_a_mask_that_is_no_label_map_is_refused_in_a_sentence(generator):
    with pytest.raises(MixsegError, match="uint8 class indices"):
        generator(np.zeros((4, 4), dtype=np.float32), rng())
    with pytest.raises(MixsegError, match="2D or 3D"):
        generator(np.zeros(4, dtype=np.uint8), rng())


@pytest.mark.parametrize("name", GENERATORS)
def test_a_row_is_described_in_one_clause(name):
    about = GENERATORS[name].about
    assert name == name.lower()
    assert about
    assert not about.endswith(".")
    assert "\n" not in about
