"""Both erosions against plain loops over voxels, on closed forms, and on the numbers measured on real scans."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import ndimage

from mixseg.core.types import IGNORE
from mixseg.datasets.partial_labels import GENERATORS

RNG = np.random.default_rng(0)
properties = settings(max_examples=50, deadline=None, derandomize=True)


def eroded_in_plain_loops(region, offsets_i, offsets_j):
    """A voxel stays if the region holds every voxel of the kernel laid on it; outside the array is not the region."""
    rows, columns = region.shape
    out = np.zeros_like(region)
    for i in range(rows):
        for j in range(columns):
            out[i, j] = all(
                0 <= i + di < rows and 0 <= j + dj < columns and region[i + di, j + dj]
                for di in offsets_i
                for dj in offsets_j
            )
    return out


def reading_c(region):
    """Kervadec's: 3x3, ten times, else nine times, and so on; the region itself if nothing survives."""
    for times in range(10, 0, -1):
        core = region
        for _ in range(times):
            core = eroded_in_plain_loops(core, range(-1, 2), range(-1, 2))
        if core.any():
            return core
    return region


def reading_b(region):
    """The paper's text: 10x10 again and again until the next would leave nothing; a smaller kernel if the first does.

    The origin of an even kernel alternates between its two middle voxels, so that the core stays in the middle.
    """
    for size in range(10, 0, -1):
        first = -(size // 2)
        core = eroded_in_plain_loops(region, range(first, first + size), range(first, first + size))
        if not core.any():
            continue
        while size > 1:
            first = -(size - 1) - first
            again = eroded_in_plain_loops(core, range(first, first + size), range(first, first + size))
            if not again.any():
                break
            core = again
        return core
    return region


READINGS = {"erosion-3x3": reading_c, "erosion-10x10": reading_b}

regions = st.one_of(
    hnp.arrays(bool, st.tuples(st.integers(1, 14), st.integers(1, 14))),
    # Solid shapes with a bite taken out: the ones that survive many erosions.
    st.builds(
        lambda rows, columns, bite: np.pad(np.ones((rows, columns), bool), 1) & ~_bite(rows + 2, columns + 2, bite),
        st.integers(1, 34),
        st.integers(1, 34),
        st.tuples(st.integers(0, 34), st.integers(0, 34)),
    ),
)


def _bite(rows, columns, at):
    out = np.zeros((rows, columns), bool)
    out[at[0] : at[0] + 2, at[1] : at[1] + 2] = True
    return out


@pytest.mark.parametrize("name", READINGS)
@given(region=regions)
@properties
def test_an_erosion_equals_its_plain_loop(name, region):
    partial = GENERATORS[name](region.astype(np.uint8), RNG)
    expected = READINGS[name](region) & region
    assert np.array_equal(partial == 1, expected)
    assert np.all(partial[~expected] == IGNORE)


@pytest.mark.parametrize("name", READINGS)
@given(region=regions)
@properties
def test_an_erosion_labels_every_region_that_is_not_empty_and_stays_inside(name, region):
    core = GENERATORS[name](region.astype(np.uint8), RNG) == 1
    assert core.any() == region.any()
    assert not (core & ~region).any()


@pytest.mark.parametrize(
    ("name", "side", "core"),
    [
        ("erosion-3x3", 41, 21),  # ten times: 20 voxels off
        ("erosion-3x3", 21, 1),
        ("erosion-3x3", 20, 2),  # the tenth would leave nothing, the ninth leaves 20 - 18
        ("erosion-3x3", 2, 2),  # none survives: the square itself
        ("erosion-10x10", 41, 5),  # 41 - 4 * 9
        ("erosion-10x10", 10, 1),
        ("erosion-10x10", 9, 1),  # by 9x9
        ("erosion-10x10", 1, 1),
    ],
)
def test_a_square_erodes_to_the_square_that_arithmetic_says_in_its_middle(name, side, core):
    mask = np.zeros((64, 60), dtype=np.uint8)
    mask[7 : 7 + side, 11 : 11 + side] = 4
    partial = GENERATORS[name](mask, RNG)
    rows, columns = np.nonzero(partial == 4)
    assert (np.ptp(rows) + 1, np.ptp(columns) + 1, rows.size) == (core, core, core * core)
    assert abs(rows.mean() - (7 + (side - 1) / 2)) <= 0.5
    assert abs(columns.mean() - (11 + (side - 1) / 2)) <= 0.5


@pytest.mark.parametrize("name", READINGS)
def test_outside_of_the_image_counts_as_background(name):
    corner = np.ones((30, 30), dtype=np.uint8)
    inside = np.pad(corner, 5)
    assert np.array_equal(GENERATORS[name](corner, RNG), GENERATORS[name](inside, RNG)[5:-5, 5:-5])


@pytest.mark.parametrize("name", READINGS)
def test_classes_are_eroded_each_by_itself(name):
    mask = np.zeros((40, 50, 2), dtype=np.uint8)
    mask[5:30, 5:25, 0], mask[5:30, 25:45, 0], mask[1:4, 1:4, 1] = 1, 2, 2
    partial = GENERATORS[name](mask, RNG)
    for label in (1, 2):
        alone = GENERATORS[name]((mask == label).astype(np.uint8), RNG)
        assert np.array_equal(partial == label, alone == 1)
    assert not (partial == 0).any()


@pytest.fixture(scope="module")
def left_ventricles(real_data):
    """The left ventricle of every ACDC scan, each slice on the 256x256 grid."""
    import nibabel

    volumes = []
    for path in sorted((real_data / "acdc").glob("*/*_gt.nii.gz")):
        mask = np.asarray(nibabel.load(path).dataobj) == 3
        zoom = (256 / mask.shape[0], 256 / mask.shape[1], 1)
        volumes.append(ndimage.zoom(mask.astype(np.uint8), zoom, order=0, grid_mode=True, mode="nearest"))
    return volumes


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "of_mask", "of_pixels"), [("erosion-3x3", 0.099, 0.0013), ("erosion-10x10", 0.067, 0.00089)]
)
def test_the_share_of_labelled_voxels_on_acdc_is_the_measured_one(left_ventricles, name, of_mask, of_pixels):
    assert len(left_ventricles) == 160
    labelled = sum(np.count_nonzero(GENERATORS[name](mask, RNG) == 1) for mask in left_ventricles)
    inside = sum(np.count_nonzero(mask) for mask in left_ventricles)
    pixels = sum(np.count_nonzero(mask.any(axis=(0, 1))) * 256 * 256 for mask in left_ventricles)
    assert labelled / inside == pytest.approx(of_mask, rel=0.05)
    assert labelled / pixels == pytest.approx(of_pixels, rel=0.05)
