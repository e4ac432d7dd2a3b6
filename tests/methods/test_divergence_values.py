"""What each divergence is: its numbers, its direction, its names."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mixseg.core.errors import MixsegError
from mixseg.methods.losses import DIVERGENCES, divergence, smooth
from mixseg.methods.losses.divergences import alpha_divergence, bhattacharyya, kl, reverse_kl

SHARE = st.floats(0.01, 0.99)


def voxel(*probs, dtype=torch.float64):
    return torch.tensor(probs, dtype=dtype).reshape(1, -1, 1, 1)


def pair(probability):
    return voxel(probability, 1 - probability)


@pytest.mark.parametrize(("temperature", "high", "value"), [(1, 0.7311, 0.4621), (2, 0.6225, 0.1225)])
def test_softmax_over_softmax_of_opposite_branches_has_the_known_values(temperature, high, value):
    top, bottom = smooth(voxel(1.0, 0.0), temperature), smooth(voxel(0.0, 1.0), temperature)
    assert top.flatten().tolist() == pytest.approx([high, 1 - high], abs=5e-5)
    assert float(kl(bottom, top)) == pytest.approx(value, abs=5e-5)


def test_smoothing_is_a_softmax_of_the_probabilities_themselves():
    probs = torch.rand(2, 3, 2, 2, dtype=torch.float64).softmax(1)
    torch.testing.assert_close(smooth(probs, 0.5), (2 * probs).exp() / (2 * probs).exp().sum(1, keepdim=True))


def test_kl_goes_from_the_teacher_to_the_student():
    student, teacher = voxel(0.5, 0.5), voxel(0.9, 0.1)
    assert float(kl(student, teacher)) == pytest.approx(0.9 * math.log(1.8) + 0.1 * math.log(0.2))
    assert float(reverse_kl(student, teacher)) == pytest.approx(-0.5 * math.log(1.8) - 0.5 * math.log(0.2))


def test_kl_agrees_with_torch():
    student, teacher = torch.randn(2, 2, 4, 3, 3, dtype=torch.float64).softmax(2)
    expected = torch.nn.functional.kl_div(student.log(), teacher, reduction="none").sum(1)
    torch.testing.assert_close(kl(student, teacher), expected)


def test_close_branches_pay_a_scaled_squared_error():
    gap = 1e-4
    for probability in (0.1, 0.5, 0.8):
        smoothed = float(smooth(pair(probability))[0, 1])
        value = float(kl(smooth(pair(probability + gap)), smooth(pair(probability))))
        assert value / gap**2 == pytest.approx(2 * smoothed * (1 - smoothed), rel=1e-3)


@given(SHARE, SHARE)
@settings(deadline=None, derandomize=True)
def test_alpha_2_is_chi_squared_and_alpha_half_is_squared_hellinger(student, teacher):
    s, t = pair(student), pair(teacher)
    chi_squared = float(((t - s) ** 2 / s).sum())
    assert float(alpha_divergence(s, t, alpha=2)) == pytest.approx(chi_squared, abs=1e-10)
    squared_hellinger = float(((t.sqrt() - s.sqrt()) ** 2).sum())
    assert float(alpha_divergence(s, t, alpha=0.5)) == pytest.approx(squared_hellinger, abs=1e-10)


@given(SHARE, SHARE)
@settings(deadline=None, derandomize=True)
def test_the_limit_of_alpha_at_1_is_kl_from_the_teacher_to_the_student(student, teacher):
    s, t = pair(student), pair(teacher)
    expected = float(kl(s, t))
    for alpha in (1 - 1e-6, 1, 1 + 1e-6):
        assert float(alpha_divergence(s, t, alpha=alpha)) == pytest.approx(expected, rel=1e-4, abs=1e-9)


@given(SHARE, SHARE, st.floats(0.1, 0.9))
@settings(deadline=None, derandomize=True)
def test_swapping_the_arguments_mirrors_alpha_at_one_half(student, teacher, alpha):
    s, t = pair(student), pair(teacher)
    forward, backward = alpha_divergence(s, t, alpha=alpha), alpha_divergence(t, s, alpha=1 - alpha)
    assert float((1 - alpha) * forward) == pytest.approx(float(alpha * backward), abs=1e-10)


@given(SHARE, SHARE)
@settings(deadline=None, derandomize=True)
def test_bhattacharyya_is_symmetric_and_a_function_of_hellinger(student, teacher):
    s, t = pair(student), pair(teacher)
    torch.testing.assert_close(bhattacharyya(s, t), bhattacharyya(t, s))
    squared_hellinger = float(alpha_divergence(s, t, alpha=0.5))
    assert float(bhattacharyya(s, t)) == pytest.approx(-math.log(1 - squared_hellinger / 2), abs=1e-10)


def test_the_floor_changes_nothing_above_the_rounding_error():
    rare = 1e-6
    student, teacher = voxel(1 - rare, rare, dtype=torch.float32), voxel(0.5, 0.5, dtype=torch.float32)
    assert float(kl(student, teacher)) == pytest.approx(math.log(0.5) - 0.5 * math.log(rare * (1 - rare)), rel=1e-6)


def test_any_alpha_has_a_name():
    student, teacher = voxel(0.3, 0.7), voxel(0.6, 0.4)
    for name, alpha in {"alpha-1": 1.0, "alpha-1.5": 1.5, "alpha-.5": 0.5, "alpha-2.0": 2.0}.items():
        expected = alpha_divergence(student, teacher, alpha=alpha)
        assert torch.equal(divergence(name)(student, teacher), expected)


@pytest.mark.parametrize(("alpha", "value"), [(2, 1.0862), (3, 2.2191), (5, 9.7298)])
def test_the_paper_s_alphas_are_what_their_names_say(alpha, value):
    top, bottom = voxel(0.7310585786300049, 0.2689414213699951), voxel(0.2689414213699951, 0.7310585786300049)
    direct = (1 - float((top**alpha * bottom ** (1 - alpha)).sum())) / (1 - alpha)
    assert float(DIVERGENCES[f"alpha-{alpha}"](bottom, top)) == pytest.approx(direct)
    assert direct == pytest.approx(value, abs=5e-5)


@pytest.mark.parametrize(
    ("wrong", "remedy"),
    [("KL", "kl"), ("reverse_kl", "reverse-kl"), ("bhattacharya", "bhattacharyya"), ("alpha2", "alpha-2")],
)
def test_a_misspelt_name_is_answered_with_the_right_one(wrong, remedy):
    with pytest.raises(MixsegError, match=f"{wrong}.*did you mean '{remedy}'"):
        divergence(wrong)


@pytest.mark.parametrize("wrong", ["wasserstein", "alpha-0", "alpha--2", "alpha-x", ""])
def test_an_unknown_name_or_an_alpha_of_no_use_is_an_error_that_says_what_will_do(wrong):
    with pytest.raises(MixsegError, match="alpha-X with X above 0"):
        divergence(wrong)
