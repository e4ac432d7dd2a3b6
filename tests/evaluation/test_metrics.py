"""Metrics against a second implementation of plain loops, closed forms and properties."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from mixseg.core.types import IGNORE
from mixseg.evaluation import metrics
from mixseg.evaluation.lesions import lesions
from mixseg.evaluation.metrics import assd, case_metrics, confusion, diagonal, dice, hd95, surface, surface_distances

few = settings(max_examples=60, deadline=None, derandomize=True)
SPACING = (1.3, 0.7, 5.0)


def loop_surface(mask):
    """Surface voxels: some face neighbour is background or lies outside the image."""
    voxels = {tuple(map(int, voxel)) for voxel in np.argwhere(mask)}
    axes = [axis for axis, length in enumerate(mask.shape) if length > 1]

    def neighbours(voxel):
        for axis, step in itertools.product(axes, (-1, 1)):
            yield (*voxel[:axis], voxel[axis] + step, *voxel[axis + 1 :])

    return [voxel for voxel in voxels if any(neighbour not in voxels for neighbour in neighbours(voxel))]


def loop_directed(start, goal, spacing):
    scaled = [[tuple(i * s for i, s in zip(voxel, spacing, strict=True)) for voxel in side] for side in (start, goal)]
    return [min(math.dist(a, b) for b in scaled[1]) for a in scaled[0]]


def loop_metrics(prediction, truth, spacing):
    """DSC, HD95 and ASSD of two masks that are not empty, in quadratic time."""
    a, b = loop_surface(prediction), loop_surface(truth)
    there, back = loop_directed(a, b, spacing), loop_directed(b, a, spacing)
    pool = sorted(there + back)
    position = 0.95 * (len(pool) - 1)
    low = math.floor(position)
    high = min(low + 1, len(pool) - 1)
    percentile = pool[low] + (position - low) * (pool[high] - pool[low])
    shared = sum(1 for voxel in np.ndindex(prediction.shape) if prediction[voxel] and truth[voxel])
    score = 2 * shared / (int(prediction.sum()) + int(truth.sum()))
    return score, percentile, (sum(there) / len(there) + sum(back) / len(back)) / 2


@st.composite
def masks(draw, shape=(8, 8, 8)):
    """Two masks, scattered voxels or a box with holes; each has at least one voxel."""
    pair = []
    for _ in range(2):
        noise = draw(arrays.arrays(bool, shape, elements=st.booleans()))
        corners = [sorted(draw(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)))) for n in shape]
        box = np.zeros(shape, bool)
        box[tuple(slice(low, high + 1) for low, high in corners)] = True
        keep = draw(st.sampled_from(("box", "holes", "noise")))
        mask = {"box": box, "holes": box & noise, "noise": noise}[keep]
        mask[tuple(low for low, _ in corners)] = True
        pair.append(mask)
    return tuple(pair)


@few
@given(masks())
def test_agrees_with_plain_loops_in_voxels_and_in_mm(pair):
    for spacing in ((1.0, 1.0, 1.0), SPACING):
        expected = loop_metrics(*pair, spacing)
        assert (dice(*pair), hd95(*pair, spacing), assd(*pair, spacing)) == pytest.approx(expected, rel=1e-12)


@few
@given(masks(shape=(9, 7)))
def test_agrees_with_plain_loops_in_two_dimensions(pair):
    expected = loop_metrics(*pair, SPACING[:2])
    assert (dice(*pair), hd95(*pair, SPACING[:2]), assd(*pair, SPACING[:2])) == pytest.approx(expected, rel=1e-12)


@few
@given(masks(shape=(9, 7)))
def test_a_volume_of_one_slice_is_an_image(pair):
    volumes = [mask[:, :, None] for mask in pair]
    assert hd95(*volumes, SPACING) == hd95(*pair, SPACING[:2])
    assert assd(*volumes, SPACING) == assd(*pair, SPACING[:2])
    assert diagonal((9, 7, 1), SPACING) == diagonal((9, 7), SPACING[:2])


@few
@given(masks(), st.sampled_from(((0.0, 10**9), (0.0, 0), (2.0, 10**9), (2.0, 0), (100.0, 0))))
def test_every_search_finds_the_same_distances(pair, setting):
    """NEAR and FAR_COST move points between the k-d tree and the distance transform: only the time may change."""
    expected = surface_distances(*pair, (None, SPACING))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics, "NEAR", setting[0])
        patch.setattr(metrics, "FAR_COST", setting[1])
        found = surface_distances(*pair, (None, SPACING))
    np.testing.assert_array_equal(np.concatenate(found[0]), np.concatenate(expected[0]))
    np.testing.assert_allclose(np.concatenate(found[1]), np.concatenate(expected[1]), rtol=1e-14)


@few
@given(masks())
def test_is_symmetric(pair):
    assert dice(*pair) == dice(*reversed(pair))
    assert hd95(*pair, SPACING) == pytest.approx(hd95(*reversed(pair), SPACING), rel=1e-14)
    assert assd(*pair, SPACING) == pytest.approx(assd(*reversed(pair), SPACING), rel=1e-14)


@few
@given(masks(), st.sets(st.integers(0, 2), min_size=1))
def test_does_not_change_when_both_are_flipped(pair, axes):
    flipped = [np.flip(mask, tuple(axes)) for mask in pair]
    assert dice(*flipped) == dice(*pair)
    assert hd95(*flipped, SPACING) == pytest.approx(hd95(*pair, SPACING), rel=1e-14)
    assert assd(*flipped, SPACING) == pytest.approx(assd(*pair, SPACING), rel=1e-14)


@few
@given(masks(), st.floats(0.1, 10))
def test_distances_scale_with_the_spacing(pair, factor):
    scaled = tuple(factor * step for step in SPACING)
    assert hd95(*pair, scaled) == pytest.approx(factor * hd95(*pair, SPACING), rel=1e-12)
    assert assd(*pair, scaled) == pytest.approx(factor * assd(*pair, SPACING), rel=1e-12)


@few
@given(masks())
def test_a_mask_is_at_distance_zero_from_itself(pair):
    assert (dice(pair[0], pair[0]), hd95(pair[0], pair[0]), assd(pair[0], pair[0])) == (1, 0, 0)


@few
@given(masks())
def test_background_drawn_around_both_changes_nothing(pair):
    """What lies beyond the image counts as background already."""
    padded = [np.pad(mask, 2) for mask in pair]
    assert hd95(*padded, SPACING) == hd95(*pair, SPACING)
    assert assd(*padded, SPACING) == assd(*pair, SPACING)


def test_a_mask_that_fills_the_image_has_its_rim_as_surface():
    full = np.ones((5, 6, 7), bool)
    assert surface(full).sum() == 5 * 6 * 7 - 3 * 4 * 5


def test_a_cube_has_the_surface_of_a_cube():
    mask = np.zeros((9, 9, 9), bool)
    mask[2:7, 2:7, 2:7] = True
    assert surface(mask).sum() == 5**3 - 3**3


def test_two_single_voxels_are_their_distance_apart():
    a, b = np.zeros((2, 12, 12, 12), bool)
    a[1, 2, 3], b[4, 6, 3] = True, True
    assert hd95(a, b) == assd(a, b) == 5
    assert hd95(a, b, (2, 0.5, 1)) == assd(a, b, (2, 0.5, 1)) == math.hypot(6, 2)


@pytest.mark.parametrize("shift", [1, 2, 3])
def test_planes_one_voxel_thick_are_their_shift_apart(shift):
    a, b = np.zeros((2, 10, 8, 8), bool)
    a[2], b[2 + shift] = True, True
    assert hd95(a, b, (3, 1, 1)) == assd(a, b, (3, 1, 1)) == 3 * shift


def test_shifted_cubes_have_the_closed_form():
    """Cubes of side n shifted by one along one axis: the leading face and the trailing core move by one.

    The face in front (n * n voxels) is one step outside, the inner part of the face behind ((n - 2)^2 voxels) one
    step inside the other cube's surface; all other surface voxels lie on it.
    """
    n = 6
    a, b = np.zeros((2, 12, 12, 12), bool)
    a[2 : 2 + n, 2 : 2 + n, 2 : 2 + n] = True
    b[3 : 3 + n, 2 : 2 + n, 2 : 2 + n] = True
    mean = (n * n + (n - 2) ** 2) / (n**3 - (n - 2) ** 3)
    assert assd(a, b) == pytest.approx(mean)
    assert hd95(a, b) == 1
    assert dice(a, b) == pytest.approx((n - 1) / n)


def test_hd95_pools_both_directions_before_the_percentile():
    """One outlier among 21 distances is the 100th percentile of its direction but not the 95th of the pool."""
    truth = np.zeros((40, 3), bool)
    truth[0:10, 1] = True
    prediction = truth.copy()
    prediction[30, 1] = True
    pool = [0.0] * 20 + [21.0]
    assert hd95(prediction, truth) == np.percentile(pool, 95) == 0
    assert hd95(prediction, truth) != max(np.percentile([0.0] * 10 + [21.0], 95), 0)


def test_assd_is_the_mean_of_the_two_means_and_not_of_the_pool():
    truth = np.zeros((40, 3), bool)
    truth[0:10, 1] = True
    prediction = truth.copy()
    prediction[30, 1] = True
    assert assd(prediction, truth) == pytest.approx((21 / 11 + 0) / 2)


def test_one_empty_mask_scores_zero_and_costs_the_diagonal():
    empty = np.zeros((3, 4, 12), bool)
    mask = empty.copy()
    mask[1, 1, 1] = True
    for pair in ((empty, mask), (mask, empty)):
        assert dice(*pair) == 0
        assert hd95(*pair) == assd(*pair) == 13
        assert hd95(*pair, (2, 2, 2)) == assd(*pair, (2, 2, 2)) == 26


def test_two_empty_masks_are_undefined():
    empty = np.zeros((3, 4, 5), bool)
    assert all(math.isnan(metric(empty, empty)) for metric in (dice, hd95, assd))


@pytest.mark.parametrize("ones", [(1, 1), (2, 1), (255, 1), (1.0, 0.5), (True, 7)])
def test_whatever_is_not_zero_is_inside_a_mask(ones):
    cube = np.zeros((6, 6, 6), bool)
    cube[1:4, 1:4, 1:4] = True
    pair = cube, np.roll(cube, 1, axis=0)
    stored = [mask * np.array(one) for mask, one in zip(pair, ones, strict=True)]
    assert confusion(*stored) == confusion(*pair)
    assert dice(*stored) == dice(*pair) == pytest.approx(2 / 3)
    assert (hd95(*stored), assd(*stored)) == (hd95(*pair), assd(*pair))


@pytest.mark.parametrize("metric", [dice, hd95, assd])
def test_masks_of_different_shapes_are_not_compared(metric):
    with pytest.raises(ValueError, match=r"shape \(4, 4, 4\), the truth \(1, 4, 4\)"):
        metric(np.ones((4, 4, 4), bool), np.ones((1, 4, 4), bool))


def test_counts_add_up():
    rng = np.random.default_rng(0)
    prediction, truth = rng.random((2, 6, 6, 6)) < 0.3
    counts = confusion(prediction, truth)
    assert sum(counts) == 216
    assert (counts.tp + counts.fp, counts.tp + counts.fn) == (prediction.sum(), truth.sum())


def test_case_metrics_scores_each_class_but_the_background():
    rng = np.random.default_rng(0)
    prediction, truth = rng.integers(0, 3, (2, 6, 6, 6)).astype(np.uint8)
    rows = case_metrics(prediction, truth, classes=("background", "ventricle", "muscle"), spacing_mm=SPACING)
    assert [row.name for row in rows] == ["ventricle", "muscle"]
    for index, row in enumerate(rows, start=1):
        pair = prediction == index, truth == index
        assert row.scores.dsc == dice(*pair)
        assert (row.scores.hd95_vox, row.scores.assd_vox) == (hd95(*pair), assd(*pair))
        assert (row.scores.hd95_mm, row.scores.assd_mm) == (hd95(*pair, SPACING), assd(*pair, SPACING))


def test_millimetres_need_a_known_spacing():
    ones = np.ones((4, 4), np.uint8)
    (row,) = case_metrics(ones, ones, classes=("background", "foreground"))
    assert row.scores.hd95_vox == row.scores.assd_vox == 0
    assert math.isnan(row.scores.hd95_mm)
    assert math.isnan(row.scores.assd_mm)


def test_unlabelled_voxels_count_on_neither_side():
    truth = np.zeros((6, 6), np.uint8)
    truth[1:3, 1:3] = 1
    prediction = truth.copy()
    truth[4:] = IGNORE
    prediction[4:] = 1
    (row,) = case_metrics(prediction, truth, classes=("background", "foreground"))
    assert (row.scores.dsc, row.scores.hd95_vox) == (1, 0)
    assert row.counts == (4, 0, 0, 20)


def test_different_shapes_are_refused():
    with pytest.raises(ValueError, match="shape"):
        hd95(np.ones((3, 3), bool), np.ones((3, 4), bool))
    with pytest.raises(ValueError, match="shape"):
        case_metrics(np.ones((3, 3), int), np.ones((1, 3), int), classes=("background", "foreground"))


@pytest.mark.parametrize("spacing", [(1.0, 1.0), (1.0, 1.0, 0.0), (1.0, 1.0, math.nan)])
def test_a_spacing_that_does_not_fit_is_refused(spacing):
    ones = np.ones((3, 3, 3), bool)
    with pytest.raises(ValueError, match="spacing"):
        hd95(ones, ones, spacing)


def loop_components(mask):
    """Components by flooding from voxel to voxel, corners included."""
    left = {tuple(map(int, voxel)) for voxel in np.argwhere(mask)}
    found = []
    while left:
        flood = [left.pop()]
        for voxel in flood:
            for step in itertools.product((-1, 0, 1), repeat=mask.ndim):
                neighbour = tuple(i + s for i, s in zip(voxel, step, strict=True))
                if neighbour in left:
                    left.remove(neighbour)
                    flood.append(neighbour)
        found.append(set(flood))
    return found


@few
@given(masks(shape=(6, 6, 5)), st.sampled_from([0.7, 1.3, 2.0, 5.0]))
def test_the_surface_dice_is_that_of_all_pairs_of_voxels(pair, tolerance):
    a, b = (loop_surface(mask) for mask in pair)
    near = [d <= tolerance * (1 + 1e-9) for d in loop_directed(a, b, SPACING) + loop_directed(b, a, SPACING)]
    found = metrics.surface_dice(*pair, SPACING, tolerance=tolerance)
    assert found == pytest.approx(sum(near) / len(near))
    assert metrics.surface_dice(*pair[::-1], SPACING, tolerance=tolerance) == pytest.approx(found)


@few
@given(masks(shape=(5, 5, 4)))
def test_lesions_are_those_that_flooding_finds(pair):
    prediction, truth = pair
    here, there = loop_components(prediction), loop_components(truth)
    found = lesions(prediction, truth)
    hits = sum(any(a & b for b in here) for a in there)
    right = sum(any(a & b for b in there) for a in here)
    assert found == (len(there), len(there) - hits, len(here), len(here) - right)
    both = hits / len(there) + right / len(here)
    assert found.f1 == pytest.approx(2 * hits / len(there) * right / len(here) / both if both else 0.0)


def test_a_border_that_is_off_by_the_tolerance_is_right_and_by_more_is_wrong():
    truth = np.zeros((20, 20), bool)
    truth[5:15, 5:15] = True
    moved = np.roll(truth, 2, axis=1)
    assert metrics.surface_dice(moved, truth, (0.1, 0.1), tolerance=0.2) == 1
    # Of 36 surface voxels of each, the 8 inner ones of the side that moved out are 2 steps away, and the corners.
    assert metrics.surface_dice(moved, truth, (0.1, 0.1), tolerance=0.1) < 1
    assert metrics.surface_dice(truth, truth, (0.1, 0.1), tolerance=0.001) == 1


def test_lesions_that_touch_in_a_corner_are_one_and_a_voxel_is_enough_to_find_one():
    truth = np.zeros((8, 8), np.uint8)
    truth[0, 0] = truth[1, 1] = truth[5:8, 5:8] = 1
    prediction = np.zeros_like(truth)
    prediction[7, 7] = prediction[0, 7] = 1
    (row,) = case_metrics(prediction, truth, classes=("background", "lesion"))
    found = row.scores
    assert (found.lesions, found.lesions_missed, found.lesions_false) == (2, 1, 1)
    assert found.lesion_f1 == pytest.approx(0.5)


def test_volumes_are_voxels_times_their_size_and_the_error_has_a_sign():
    truth = np.zeros((10, 10, 4), np.uint8)
    truth[:5], prediction = 1, np.zeros_like(truth)
    prediction[:2] = 1
    (row,) = case_metrics(prediction, truth, classes=("background", "LV"), spacing_mm=(1.5, 2.0, 8.0))
    ml = abs(np.linalg.det(np.diag([1.5, 2.0, 8.0]))) / 1000
    assert (row.scores.reference_ml, row.scores.volume_ml) == pytest.approx((200 * ml, 80 * ml))
    assert row.scores.volume_error_ml == pytest.approx(-120 * ml)
    assert row.scores.tolerance_mm == 2.0


@pytest.mark.parametrize(("predicted", "true", "expected"), [(1, 0, 0.0), (0, 1, 0.0), (0, 0, math.nan)])
def test_empty_masks_have_no_surface_dice_and_no_lesions(predicted, true, expected):
    masks_ = [np.full((4, 4, 4), value, np.uint8) for value in (predicted, true)]
    (row,) = case_metrics(*masks_, classes=("background", "LV"), spacing_mm=(1, 1, 1))
    assert [row.scores.nsd, row.scores.lesion_f1] == pytest.approx([expected] * 2, nan_ok=True)


def test_without_a_voxel_size_there_is_neither_a_tolerance_nor_a_volume():
    mask = np.ones((4, 4, 4), np.uint8)
    (row,) = case_metrics(mask, mask, classes=("background", "LV"))
    assert all(math.isnan(value) for value in (row.scores.nsd, row.scores.tolerance_mm, row.scores.volume_ml))
    assert row.scores.lesion_f1 == 1
