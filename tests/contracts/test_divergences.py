"""What every divergence promises, whatever its name."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mixseg.methods.losses import DIVERGENCES, divergence, smooth

NAMES = [*DIVERGENCES, "alpha-0.5", "alpha-1", "alpha-20"]
every_divergence = pytest.mark.parametrize("name", NAMES)


def random_probs(shape, seed, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype).softmax(1)


def plain(name, s, t):
    """One voxel, as the formulas are written in the paper."""
    if name == "kl":
        return sum(b * math.log(b / a) for a, b in zip(s, t, strict=True))
    if name == "reverse-kl":
        return sum(a * math.log(a / b) for a, b in zip(s, t, strict=True))
    if name == "bhattacharyya":
        return -math.log(sum(math.sqrt(a * b) for a, b in zip(s, t, strict=True)))
    alpha = float(name.removeprefix("alpha-"))
    if alpha == 1:
        return plain("kl", s, t)
    return (1 - sum(b**alpha * a ** (1 - alpha) for a, b in zip(s, t, strict=True))) / (1 - alpha)


@every_divergence
@pytest.mark.parametrize("shape", [(2, 2, 3, 3), (1, 4, 2, 3, 2)])
def test_it_equals_a_plain_double_loop_with_a_value_per_voxel(name, shape):
    student, teacher = random_probs(shape, 0), random_probs(shape, 1)
    values = divergence(name)(student, teacher)
    assert values.shape == (shape[0], *shape[2:])
    rows = [probs.movedim(1, -1).reshape(-1, shape[1]).tolist() for probs in (student, teacher)]
    for value, s, t in zip(values.flatten().tolist(), *rows, strict=True):
        assert value == pytest.approx(plain(name, s, t), rel=1e-7, abs=1e-10)


@every_divergence
@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.lists(st.tuples(st.floats(-8, 8), st.floats(-8, 8)), min_size=2, max_size=5))
def test_it_is_never_negative_and_zero_on_equal_inputs(name, logits):
    student, teacher = torch.tensor(logits, dtype=torch.float64).T.reshape(2, 1, -1, 1, 1).softmax(2)
    assert float(divergence(name)(student, teacher)) >= -1e-10
    assert float(divergence(name)(student, student)) == pytest.approx(0, abs=1e-12)


@every_divergence
def test_it_grows_with_the_distance(name):
    teacher = torch.tensor([0.8, 0.2]).reshape(1, 2, 1, 1)
    students = [torch.tensor([p, 1 - p]).reshape(1, 2, 1, 1) for p in (0.7, 0.5, 0.3, 0.1)]
    values = [float(divergence(name)(student, teacher)) for student in students]
    assert values == sorted(values)
    assert values[0] > 0


@every_divergence
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("same", [True, False])
def test_values_and_gradients_are_finite_on_one_hot_inputs(name, dtype, same):
    teacher = torch.eye(3, dtype=dtype).reshape(3, 3, 1, 1).requires_grad_()
    student = torch.eye(3, dtype=dtype).roll(0 if same else 1, 0).reshape(3, 3, 1, 1).requires_grad_()
    value = divergence(name)(student, teacher)
    value.sum().backward()
    assert value.isfinite().all()
    assert student.grad.isfinite().all()
    assert teacher.grad.isfinite().all()
    assert (value == 0).all() if same else (value > 1).all()


@every_divergence
def test_gradients_of_both_arguments_agree_with_finite_differences(name):
    logits = [torch.randn(1, 3, 2, 2, dtype=torch.float64, requires_grad=True) for _ in range(2)]

    def through_softmax(student, teacher):
        return divergence(name)(smooth(student.softmax(1)), smooth(teacher.softmax(1)))

    assert torch.autograd.gradcheck(through_softmax, logits)


@every_divergence
def test_a_step_against_the_gradient_brings_the_student_to_the_teacher(name):
    logits = torch.tensor([1.0, -1.0]).reshape(1, 2, 1, 1).requires_grad_()
    teacher = torch.tensor([0.2, 0.8]).reshape(1, 2, 1, 1)
    divergence(name)(smooth(logits.softmax(1)), smooth(teacher)).sum().backward()
    assert logits.grad[0, 0] > 0 > logits.grad[0, 1]


@every_divergence
def test_a_detached_teacher_gets_no_gradient_and_the_student_still_does(name):
    student = random_probs((1, 2, 2, 2), 0).requires_grad_()
    teacher = random_probs((1, 2, 2, 2), 1).requires_grad_()
    divergence(name)(student, teacher.detach()).sum().backward()
    assert teacher.grad is None
    assert (student.grad != 0).any()


@every_divergence
def test_half_precision_is_computed_in_float32_under_autocast(name):
    student, teacher = (smooth(random_probs((1, 2, 3, 3), seed)).to(torch.bfloat16) for seed in (0, 1))
    with torch.autocast("cpu", torch.bfloat16):
        value = divergence(name)(student, teacher)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, divergence(name)(student.float(), teacher.float()))


@every_divergence
def test_a_batch_gives_what_its_rows_give_one_by_one(name):
    student, teacher = random_probs((3, 2, 2, 2), 0), random_probs((3, 2, 2, 2), 1)
    one_by_one = [divergence(name)(student[row : row + 1], teacher[row : row + 1]) for row in range(3)]
    torch.testing.assert_close(divergence(name)(student, teacher), torch.cat(one_by_one))
