"""UA-MT against its formulas: schedules, noise, the threshold and the masked consistency."""

import math

import numpy as np
import pytest
import torch

from discs import batch, tiny_method, total
from mixseg.methods.ua_mt import noise_like, threshold


def plain_softmax(logits):
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def test_the_threshold_rises_from_three_quarters_of_the_highest_entropy_to_all_of_it():
    assert threshold(0.0, classes=2) == pytest.approx(0.5210, abs=1e-4)
    assert threshold(0.5, classes=2) == pytest.approx((0.75 + 0.25 * math.exp(-1.25)) * math.log(2))
    assert threshold(1.0, classes=2) == pytest.approx(0.6931, abs=1e-4)
    assert threshold(1.0, classes=5) == pytest.approx(math.log(5))


def test_the_consistency_grows_over_a_fifth_of_training():
    method = tiny_method("ua-mt")
    weights = {progress: method(batch(), progress)["consistency"].weight for progress in (0.0, 0.1, 0.2, 1.0)}
    assert weights[0.0] == pytest.approx(0.1 * 0.00674, rel=1e-3)
    assert weights[0.1] == pytest.approx(0.1 * math.exp(-1.25))
    assert weights[0.2] == weights[1.0] == 0.1


def test_the_supervised_terms_are_half_of_cross_entropy_and_half_of_foreground_dice():
    method = tiny_method("ua-mt").eval()
    seen = batch(2, 0)
    probs = plain_softmax(method.student(seen.full.image)[0].detach().numpy().astype(np.float64))
    truth = seen.full.full.numpy() == 1
    cross_entropy = -np.log(np.where(truth, probs[:, 1], probs[:, 0])).mean()
    foreground = probs[:, 1]
    dice = 1 - (2 * foreground[truth].sum() + 1e-5) / ((foreground**2).sum() + truth.sum() + 1e-5)
    assert total(method(seen, 0.5)).item() == pytest.approx((cross_entropy + dice) / 2, rel=1e-5)
    alone = tiny_method("ua-mt", weights={"full": 1.0, "dice": 0.0}).eval()
    assert total(alone(seen, 0.5)).item() == pytest.approx(cross_entropy, rel=1e-5)


def test_the_noise_has_a_tenth_of_the_deviation_of_each_image_and_channel_and_is_clipped_at_a_fifth():
    torch.manual_seed(0)
    spreads = torch.tensor([[1.0, 20.0], [0.05, 0.0]])
    image = torch.randn(2, 2, 128, 128)
    image = (image - image.mean(dim=(2, 3), keepdim=True)) / image.std(dim=(2, 3), correction=0, keepdim=True)
    image = 7 + image * spreads[:, :, None, None]
    noise = noise_like(image)
    # The deviation of a Gaussian clipped at two of its deviations is 0.9594 of it.
    torch.testing.assert_close(noise.std(dim=(2, 3)), 0.09594 * spreads, rtol=0.02, atol=1e-6)
    torch.testing.assert_close(noise.abs().amax(dim=(2, 3)), 0.2 * spreads, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("progress", [0.0, 1.0])
def test_the_consistency_is_the_squared_difference_where_the_teacher_is_sure(progress):
    # Without dropout and batch statistics, and on images without contrast (hence without noise), all passes are equal.
    method = tiny_method("ua-mt", dropout=0.0, norm="none")
    with torch.no_grad():
        for parameter in [*method.teacher.parameters(), *method.student.parameters()]:
            parameter.add_(0.3 * torch.randn_like(parameter))
    seen = batch(0, 1, 1)
    flat = [some._replace(image=torch.full_like(some.image, 1.0)) for some in seen]
    terms = method(seen._make(flat), progress)
    student, teacher = (
        plain_softmax(net(torch.ones(2, 1, 32, 32))[0].detach().numpy().astype(np.float64))
        for net in (method.student, method.teacher.network)
    )
    sure = -(teacher * np.log(teacher + 1e-6)).sum(axis=1) < threshold(progress, classes=2)
    assert sure.any()
    assert progress == 1 or not sure.all()
    expected = ((student - teacher) ** 2).sum(axis=1)[sure].sum() / (2 * sure.sum())
    assert terms["consistency"].value.item() == pytest.approx(expected, rel=1e-4)


def test_the_consistency_is_zero_where_the_teacher_is_sure_of_nothing():
    method = tiny_method("ua-mt")
    for parameter in method.teacher.parameters():
        parameter.zero_()
    value = method(batch(), 0.0)["consistency"].value
    value.backward()
    assert value.item() == 0
    assert all(p.grad is None or not p.grad.any() for p in method.student.parameters())


def test_the_consistency_moves_the_student_alone():
    method = tiny_method("ua-mt")
    method(batch(0, 2), 0.5)["consistency"].value.backward()
    assert any(parameter.grad.any() for parameter in method.student.parameters())
    assert all(parameter.grad is None for parameter in method.teacher.parameters())


def test_a_consistency_of_weight_zero_costs_no_pass():
    method = tiny_method("ua-mt", weights={"consistency": 0.0})
    method.teacher.forward = None
    assert set(method(batch(), 0.5)) == {"full", "dice"}


def test_the_decay_rises_to_its_limit():
    method = tiny_method("ua-mt")
    seen = []
    method.teacher.follow = lambda student, decay: seen.append((student, decay))
    for step in (0, 1, 9, 99, 10_000):
        method.after_step(step, 0.5)
    assert [decay for _, decay in seen] == pytest.approx([0, 0.5, 0.9, 0.99, 0.99])
    assert all(student is method.student for student, _ in seen)


def test_the_answer_is_the_students():
    method = tiny_method("ua-mt").eval()
    image = batch().full.image
    torch.testing.assert_close(method.predict(image)["student"], method.student(image)[0].softmax(dim=1))
