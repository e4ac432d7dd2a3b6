"""Shannon entropy and min-entropy against closed forms and plain loops."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mixseg.methods.losses import cross_entropy, entropy, min_entropy

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
def test_extreme_logits_keep_value_and_gradient_finite(loss):
    logits = voxel([1e4, -1e4, 0.0], torch.float32).requires_grad_()
    value = loss(logits)
    value.sum().backward()
    assert value.item() == 0
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("loss", [entropy, min_entropy])
def test_half_precision_logits_are_computed_in_float32(loss):
    half = random_logits().to(torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        value = loss(half)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, loss(half.float()))


@pytest.mark.parametrize("loss", [entropy, min_entropy])
def test_gradients_agree_with_finite_differences(loss):
    assert torch.autograd.gradcheck(loss, random_logits().requires_grad_())
