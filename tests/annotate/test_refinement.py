"""Label maps that keep what was drawn: closed forms, properties, and a second way to measure distances."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import dijkstra

from mixseg.annotate import refinement
from mixseg.annotate.constraints import Drawn
from mixseg.annotate.refinement import CORRECTED, DRAWN, PROPOSED, REFINED, complete, spread
from mixseg.annotate.trust import agreement, soft_dice, worst
from mixseg.core.types import IGNORE

MM = (1.0, 1.0, 1.0)


def undrawn(shape):
    return np.full(shape, IGNORE, np.uint8)


def random_case(seed, shape=(8, 7, 5), classes=3):
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(classes), shape).astype(np.float32)
    labels = np.where(rng.random(shape) < 0.1, rng.integers(0, classes, shape), IGNORE).astype(np.uint8)
    return np.moveaxis(probs, -1, 0), rng.integers(0, 256, (1, *shape)).astype(np.uint8), labels


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 2.0, 30.0]), st.sampled_from([(), (1,), (1, 2)]))
def test_what_was_drawn_stays_and_all_else_says_where_it_comes_from(seed, reach, single):
    probs, image, labels = random_case(seed)
    found = complete(probs, image, Drawn(labels), spacing=(1.0, 2.0, 5.0), single=single, reach=reach)
    known = labels != IGNORE
    assert np.array_equal(found.labels[known], labels[known])
    assert (found.provenance[known] == DRAWN).all()
    assert (found.confidence[known] == 1).all()
    own = probs.argmax(axis=0)
    assert np.array_equal(found.provenance[~known] == PROPOSED, (found.labels == own)[~known])
    assert found.labels.max() < 3
    if not reach and not single:
        assert np.array_equal(found.labels[~known], own[~known]), "pasted in"


@given(st.integers(0, 2**32 - 1))
def test_a_finished_structure_is_where_it_was_drawn_and_nowhere_else(seed):
    probs, image, _ = random_case(seed)
    mask = np.random.default_rng(seed).random(image.shape[1:]) < 0.3
    labels = np.where(mask, 2, IGNORE).astype(np.uint8)
    found = complete(probs, image, Drawn(labels, finished=(2,)), spacing=MM, single=(2,), reach=5.0)
    assert np.array_equal(found.labels == 2, mask)
    rest = probs[:2].argmax(axis=0)
    assert np.mean(found.labels[~mask] == rest[~mask]) > 0.5


@given(st.integers(0, 2**32 - 1))
def test_spreading_keeps_probabilities(seed):
    probs, image, labels = random_case(seed)
    found = spread(probs, image, Drawn(labels), spacing=MM, reach=4.0)
    assert found.dtype == np.float32
    assert np.allclose(found.sum(axis=0), 1, atol=1e-5)
    assert (found >= 0).all()
    assert np.array_equal(spread(probs, image, Drawn(undrawn(image.shape[1:])), spacing=MM), probs)


def two_halves():
    """A grey half and a white one, of which the network knows nothing, and a stroke of class 1 in the grey one."""
    image = np.full((1, 30, 12, 3), 50, np.uint8)
    image[:, 15:] = 200
    probs = np.empty((2, 30, 12, 3), np.float32)
    probs[0], probs[1] = 0.51, 0.49
    labels = undrawn((30, 12, 3))
    labels[6, 6, 1] = 1
    return probs, image, labels


def test_a_stroke_speaks_for_what_looks_alike_and_not_across_a_border():
    probs, image, labels = two_halves()
    found = complete(probs, image, Drawn(labels), spacing=MM, reach=12.0)
    assert (found.labels[3:10, 4:9, 1] == 1).all()
    assert (found.labels[16:] == 0).all()
    assert found.provenance[8, 6, 1] == REFINED
    assert found.provenance[20, 6, 1] == PROPOSED


def test_a_stroke_reaches_so_many_millimetres_in_any_grid():
    probs, image, labels = two_halves()
    for spacing in ((1.0, 1.0, 1.0), (1.0, 1.0, 3.9), (1.0, 1.0, 4.1)):
        found = spread(probs, image, Drawn(labels), spacing=spacing, reach=4.0)
        assert (found[1] != probs[1])[6, 6, 0] == (spacing[2] < 4)
        assert (found[1] != probs[1])[6, 9, 1], "3 mm away"
        assert not (found[1] != probs[1])[6, 11, 1], "5 mm away"


def test_a_sure_network_is_left_alone():
    probs, image, labels = two_halves()
    probs[0], probs[1] = 0.999, 0.001
    probs[:, :, :2] = 0.5  # somewhere it is not
    found = complete(probs, image, Drawn(labels), spacing=MM, reach=4.0)
    assert (found.labels == 1).sum() == 1


def test_distances_along_the_image_are_those_of_dijkstra():
    """The least sum over the steps of a path, each as long as it is in mm times the mean cost of its two ends."""
    _, image, labels = random_case(3, shape=(5, 4, 3))
    spacing, reach = (1.0, 1.5, 3.0), 1e6
    seen = []

    ours = refinement._distances(image, labels, spacing, reach)
    grey = refinement.ndimage.gaussian_filter(image.astype(np.float32), (0, 0.5, 0.5, 0.5))
    slope = refinement.ndimage.gaussian_gradient_magnitude(grey[0] / grey[0].std(), 1)
    cost = 1 + refinement.BORDER * slope
    number = np.arange(cost.size).reshape(cost.shape)
    for at in np.ndindex(cost.shape):
        for step in itertools.product((-1, 0, 1), repeat=3):
            to = tuple(np.add(at, step))
            if any(step) and all(0 <= place < side for place, side in zip(to, cost.shape, strict=True)):
                length = np.linalg.norm(np.multiply(step, spacing))
                seen.append((number[at], number[to], length * (cost[at] + cost[to]) / 2))
    rows, columns, lengths = zip(*seen, strict=True)
    graph = coo_matrix((lengths, (rows, columns)), shape=(cost.size, cost.size)).tocsr()
    assert set(ours) == set(np.unique(labels[labels != IGNORE]))
    for index, far in ours.items():
        theirs = dijkstra(graph, indices=number[labels == index], min_only=True).reshape(cost.shape)
        assert np.allclose(far, theirs, rtol=1e-4)


def test_of_a_structure_in_one_piece_the_components_with_strokes_stay():
    probs = np.zeros((2, 12, 4, 4), np.float32)
    probs[0] = 1
    for part in (slice(0, 4), slice(6, 8), slice(10, 11)):
        probs[:, part] = np.array([0, 1])[:, None, None, None]
    labels = undrawn((12, 4, 4))
    labels[10, 0, 0] = 1
    found = complete(probs, np.zeros((1, 12, 4, 4), np.uint8), Drawn(labels), spacing=MM, single=(1,), reach=0)
    assert found.labels[:, 2, 2].tolist() == [1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 0]


def test_corrections_win_over_strokes_and_are_told_apart():
    probs, image, labels = two_halves()
    changed = np.zeros(labels.shape, bool)
    changed[6, 6, 1] = changed[0, 0, 0] = True
    proposal = np.zeros(labels.shape, np.uint8)
    proposal[0, 0, 0] = 1
    found = complete(probs, image, Drawn(labels).with_corrections(proposal, changed), spacing=MM, reach=0)
    assert (found.labels[6, 6, 1], found.labels[0, 0, 0]) == (0, 1)
    assert (found.provenance == CORRECTED).sum() == 2


def test_soft_dice_is_dice_where_the_network_is_sure_and_the_formula_elsewhere():
    labels = np.array([[[0, 1, 1, 2]]], np.uint8)
    sure = np.moveaxis(np.eye(3, dtype=np.float32)[labels], -1, 0)
    assert soft_dice(sure, labels) == [1, 1]
    half = 0.5 * sure + 0.5 / 3
    # Class 1: twice (1/2 + 1/6) in its two voxels, 1/6 in each of the others; 2 * (4/3) / (5/3 + 2)
    assert soft_dice(half, labels) == pytest.approx([8 / 3 / (5 / 3 + 2), 4 / 3 / (7 / 6 + 1)])
    nothing = soft_dice(np.stack([np.ones((1, 1, 4)), np.zeros((1, 1, 4))]).astype(np.float32), 0 * labels)
    assert np.isnan(nothing).all()


def test_agreement_is_the_overlap_of_two_label_maps():
    one, other = np.array([[[0, 1, 1, 2]]]), np.array([[[0, 0, 1, 1]]])
    assert agreement(one, other, 4)[:2] == [0.5, 0.0]
    assert np.isnan(agreement(one, other, 4)[2])
    assert worst([0.9, float("nan")]) == 0
    assert worst([0.9, 0.7]) == 0.7
