"""Cross-entropy and Dice against closed forms and plain loops."""

import math

import numpy as np
import pytest
import torch

from mixseg.core.types import IGNORE
from mixseg.methods.losses import cross_entropy, dice_sums, labelled_mean, soft_dice

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
