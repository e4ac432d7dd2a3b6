"""Cross-entropy, Dice, entropies and means against closed forms and plain loops."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mixseg.core.types import IGNORE
from mixseg.methods.losses import (
    cross_entropy,
    dice_sums,
    entropy,
    labelled_mean,
    masked_sum_and_count,
    min_entropy,
    soft_dice,
)

ROOM = {2: (3, 5), 3: (2, 3, 4)}


def example(dims, classes=3, unlabeled=0.4, dtype=torch.float64, seed=0):
    """Logits, and a label map in which some voxels are IGNORE."""
    random = torch.Generator().manual_seed(seed)
    logits = torch.randn(2, classes, *ROOM[dims], generator=random, dtype=dtype)
    label = torch.randint(classes, (2, *ROOM[dims]), generator=random, dtype=torch.uint8)
    label[torch.rand(label.shape, generator=random) < unlabeled] = IGNORE
    return logits, label


def loop_over_voxels(logits, label, value):
    """``value(logits of the voxel, its label)`` of every labelled voxel, 0 elsewhere."""
    expected = np.zeros(label.shape)
    for where in np.ndindex(*label.shape):
        if label[where] != IGNORE:
            row, *place = where
            expected[where] = value(logits[(row, slice(None), *place)].tolist(), int(label[where]))
    return torch.from_numpy(expected)


def softmax(logits):
    powers = [math.exp(logit) for logit in logits]
    return [power / sum(powers) for power in powers]


@pytest.mark.parametrize("dims", [2, 3])
def test_cross_entropy_equals_a_plain_loop(dims):
    logits, label = example(dims)
    expected = loop_over_voxels(logits, label, lambda z, y: -math.log(softmax(z)[y]))
    torch.testing.assert_close(cross_entropy(logits, label), expected)


def test_cross_entropy_of_equal_logits_is_the_logarithm_of_the_number_of_classes():
    for classes in (2, 5):
        value = cross_entropy(torch.zeros(1, classes, 2, 2), torch.zeros(1, 2, 2, dtype=torch.uint8))
        torch.testing.assert_close(value, torch.full((1, 2, 2), math.log(classes)))


def test_cross_entropy_falls_when_the_labelled_class_becomes_likelier():
    label = torch.ones(1, 1, 1, dtype=torch.uint8)
    unsure, sure = (torch.tensor([0.0, logit]).reshape(1, 2, 1, 1) for logit in (0.0, 3.0))
    assert cross_entropy(sure, label) < cross_entropy(unsure, label)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.int16])
def test_every_integer_type_of_label_gives_the_same(dtype):
    logits, label = example(2)
    assert torch.equal(cross_entropy(logits, label.to(dtype)), cross_entropy(logits, label))


def test_unlabelled_voxels_have_no_value_and_no_gradient():
    logits, label = example(2)
    logits.requires_grad_()
    value = cross_entropy(logits, label)
    value.sum().backward()
    unlabeled = label == IGNORE
    assert unlabeled.any()
    assert (value[unlabeled] == 0).all()
    assert (logits.grad.movedim(1, -1)[unlabeled] == 0).all()
    assert (logits.grad.movedim(1, -1)[~unlabeled] != 0).all()


def test_what_stands_at_unlabelled_voxels_does_not_matter():
    logits, label = example(2)
    other = torch.where((label == IGNORE).unsqueeze(1), 7 * torch.randn_like(logits), logits)
    for loss in (lambda z: cross_entropy(z, label), lambda z: soft_dice(z.softmax(1), label)):
        torch.testing.assert_close(loss(other), loss(logits))


def test_foreground_only_labels_push_every_labelled_voxel_towards_the_foreground():
    logits, label = example(2, classes=2)
    label[label == 0] = IGNORE
    logits.requires_grad_()
    cross_entropy(logits, label).sum().backward()
    labelled = label == 1
    assert (logits.grad[:, 1][labelled] < 0).all()
    assert (logits.grad[:, 0][labelled] > 0).all()


def test_an_empty_partial_map_gives_zero_loss_and_zero_gradient():
    logits, label = example(2, unlabeled=1.1)
    logits.requires_grad_()
    loss = labelled_mean(cross_entropy(logits, label), label != IGNORE)
    loss.backward()
    assert loss == 0
    assert (logits.grad == 0).all()


@pytest.mark.parametrize("size", [1e4, 1e30])
def test_extreme_logits_keep_value_and_gradient_finite(size):
    logits = torch.tensor([size, -size]).reshape(1, 2, 1, 1).requires_grad_()
    value = cross_entropy(logits, torch.ones(1, 1, 1, dtype=torch.uint8))
    value.sum().backward()
    assert value.isfinite().all()
    assert logits.grad.isfinite().all()


def test_half_precision_logits_are_computed_in_float32():
    logits, label = example(2, dtype=torch.float32)
    half = logits.to(torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        value, dice = cross_entropy(half, label), soft_dice(half.softmax(1), label)
    assert value.dtype == dice.dtype == torch.float32
    torch.testing.assert_close(value, cross_entropy(half.float(), label))


@pytest.mark.parametrize("dims", [2, 3])
def test_soft_dice_equals_a_plain_loop(dims):
    logits, label = example(dims)
    probs = logits.softmax(1)
    for chosen in range(3):
        overlap = squares = voxels = 0.0
        for where in np.ndindex(*label.shape):
            if label[where] == IGNORE:
                continue
            prob = float(probs[(where[0], chosen, *where[1:])])
            overlap += prob * bool(label[where] == chosen)
            squares += prob**2
            voxels += bool(label[where] == chosen)
        expected = 1 - (2 * overlap + 1e-5) / (squares + voxels + 1e-5)
        assert float(soft_dice(probs, label)[chosen]) == pytest.approx(expected, abs=1e-12)


def test_soft_dice_is_zero_for_a_perfect_one_and_one_for_a_disjoint_prediction():
    label = torch.tensor([[[0, 1], [IGNORE, 1]]], dtype=torch.uint8)
    truth = torch.tensor([[[[1.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]]])
    torch.testing.assert_close(soft_dice(truth, label), torch.zeros(2))
    torch.testing.assert_close(soft_dice(truth.flip(1), label), torch.ones(2), atol=1e-4, rtol=0)


def test_soft_dice_of_half_probabilities_has_its_closed_form():
    label = torch.tensor([[[0, 1, 1, 1]]], dtype=torch.uint8)
    value = soft_dice(torch.full((1, 2, 1, 4), 0.5), label, smoothing=0.0)
    torch.testing.assert_close(value, torch.tensor([1 - 1 / 2, 1 - 3 / 4]))


def test_soft_dice_of_a_class_that_is_neither_there_nor_predicted_is_zero():
    probs = torch.tensor([1.0, 0.0]).reshape(1, 2, 1, 1).expand(1, 2, 2, 2)
    assert soft_dice(probs, torch.zeros(1, 2, 2, dtype=torch.uint8))[1] == 0


def test_dice_sums_of_two_processes_add_up_to_those_of_the_batch():
    logits, label = example(2)
    probs = logits.softmax(1)
    halves = [dice_sums(probs[row : row + 1], label[row : row + 1]) for row in range(2)]
    for whole, first, second in zip(dice_sums(probs, label), *halves, strict=True):
        torch.testing.assert_close(first + second, whole)


def test_gradients_agree_with_finite_differences():
    logits, label = example(2)
    logits.requires_grad_()
    assert torch.autograd.gradcheck(lambda z: cross_entropy(z, label), logits)
    assert torch.autograd.gradcheck(lambda z: soft_dice(z.softmax(1), label), logits)


VALUES = torch.tensor([[1.0, 2.0, 4.0], [8.0, 16.0, 32.0]], dtype=torch.float64)
MASK = torch.tensor([[True, False, True], [False, True, False]])


def test_the_mean_counts_only_the_voxels_of_the_mask():
    assert labelled_mean(VALUES, MASK) == (1 + 4 + 16) / 3


def test_an_empty_mask_gives_zero_with_zero_gradients():
    values = VALUES.clone().requires_grad_()
    mean = labelled_mean(values, torch.zeros_like(MASK))
    mean.backward()
    assert mean == 0
    assert (values.grad == 0).all()


def test_a_batch_without_rows_gives_zero():
    assert labelled_mean(torch.zeros(0, 4, 4), torch.zeros(0, 4, 4, dtype=torch.bool)) == 0


def test_a_value_that_is_not_finite_does_no_harm_outside_the_mask():
    values = torch.where(MASK, VALUES, torch.tensor(torch.nan, dtype=torch.float64)).requires_grad_()
    mean = labelled_mean(values, MASK)
    mean.backward()
    assert mean == 7
    assert torch.equal(values.grad, MASK.double() / 3)


def test_half_precision_values_are_summed_in_float32():
    values = torch.full((1, 4096), 0.1, dtype=torch.bfloat16)
    total, count = masked_sum_and_count(values, torch.ones_like(values, dtype=torch.bool))
    assert total.dtype == count.dtype == torch.float32
    assert float(total) == pytest.approx(4096 * float(values[0, 0]), rel=1e-5)


@settings(deadline=None, derandomize=True, max_examples=50)
@given(st.lists(st.booleans(), min_size=6, max_size=6))
def test_processes_that_average_their_gradients_get_the_mean_over_the_voxels_of_all(chosen):
    mask = torch.tensor(chosen).reshape(2, 3)
    count = torch.stack([masked_sum_and_count(VALUES[rank], mask[rank])[1] for rank in range(2)]).mean()
    ranks = [labelled_mean(VALUES[rank], mask[rank], count=count) for rank in range(2)]
    torch.testing.assert_close(torch.stack(ranks).mean(), labelled_mean(VALUES, mask))


LOGITS = st.lists(st.floats(-50, 50), min_size=2, max_size=6)


def voxel(logits, dtype=torch.float64):
    return torch.tensor(logits, dtype=dtype).reshape(1, -1, 1, 1)


def random_logits(shape=(2, 3, 2, 2), seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("loss", [entropy, min_entropy])
@pytest.mark.parametrize("classes", [2, 4])
def test_a_uniform_prediction_has_the_logarithm_of_the_number_of_classes(loss, classes):
    torch.testing.assert_close(loss(torch.zeros(1, classes, 2, 2)), torch.full((1, 2, 2), math.log(classes)))


def test_the_paper_s_unit_check_of_two_classes_is_0_6931_per_voxel():
    assert float(entropy(torch.zeros(1, 2, 1, 1))) == pytest.approx(0.6931, abs=5e-5)


@pytest.mark.parametrize("shape", [(2, 3, 2, 2), (1, 4, 2, 2, 2)])
def test_both_equal_a_plain_loop(shape):
    logits = random_logits(shape)
    shannon, least = entropy(logits), min_entropy(logits)
    probs = logits.softmax(1).movedim(1, -1)
    for row, expected_shannon, expected_least in zip(
        probs.reshape(-1, shape[1]).tolist(), shannon.flatten().tolist(), least.flatten().tolist(), strict=True
    ):
        assert -sum(p * math.log(p) for p in row) == pytest.approx(expected_shannon)
        assert -math.log(max(row)) == pytest.approx(expected_least)


@settings(deadline=None, derandomize=True)
@given(LOGITS)
def test_min_entropy_is_a_lower_bound_of_the_entropy_and_both_lie_in_range(logits):
    shannon, least = float(entropy(voxel(logits))), float(min_entropy(voxel(logits)))
    assert -1e-12 <= least <= shannon + 1e-12
    assert shannon <= math.log(len(logits)) + 1e-12


@settings(deadline=None, derandomize=True)
@given(LOGITS, st.floats(-100, 100))
def test_adding_a_constant_to_all_logits_changes_nothing(logits, constant):
    moved = [logit + constant for logit in logits]
    torch.testing.assert_close(entropy(voxel(moved)), entropy(voxel(logits)), atol=1e-9, rtol=1e-6)


def test_min_entropy_is_the_cross_entropy_against_its_own_pseudo_labels():
    logits = random_logits()
    torch.testing.assert_close(min_entropy(logits), cross_entropy(logits, logits.argmax(1)))


def test_a_step_against_the_gradient_makes_a_prediction_surer():
    for loss in (entropy, min_entropy):
        logits = voxel([0.3, 0.0]).requires_grad_()
        loss(logits).sum().backward()
        assert logits.grad[0, 0] < 0 < logits.grad[0, 1]


def test_entropy_pushes_undecided_voxels_less_than_min_entropy_does():
    gradients = []
    for loss in (entropy, min_entropy):
        logits = voxel([0.01, 0.0]).requires_grad_()
        loss(logits).sum().backward()
        gradients.append(float(logits.grad.abs().max()))
    assert gradients[0] < 0.01 < 0.4 < gradients[1]


@pytest.mark.parametrize("loss", [entropy, min_entropy])
def test_extreme_logits_keep_value_and_gradient_finite_of_entropies(loss):
    logits = voxel([1e4, -1e4, 0.0], torch.float32).requires_grad_()
    value = loss(logits)
    value.sum().backward()
    assert value.item() == 0
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("loss", [entropy, min_entropy])
def test_half_precision_logits_are_computed_in_float32_of_entropies(loss):
    half = random_logits().to(torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        value = loss(half)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, loss(half.float()))


@pytest.mark.parametrize("loss", [entropy, min_entropy])
def test_gradients_agree_with_finite_differences_of_entropies(loss):
    assert torch.autograd.gradcheck(loss, random_logits().requires_grad_())
