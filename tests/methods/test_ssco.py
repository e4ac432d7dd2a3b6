"""SSCO against its formulas: schedules, self-paced weights, the Jensen-Shannon term, turned images."""

import math

import numpy as np
import pytest
import torch

from discs import batch, part, tiny_method
from mixseg.core.types import Batch, Part
from mixseg.methods import MethodOptions
from mixseg.methods.losses import entropy
from mixseg.methods.ssco import SSCO, decay, disagreement, gamma, paces, turn
from mixseg.networks import make_network


def two_class(*foreground):
    """Probabilities (K, 1, 2, 1, 1) of one voxel from each student's foreground."""
    one = torch.tensor(foreground, dtype=torch.float64)
    return torch.stack([1 - one, one], dim=1).reshape(-1, 1, 2, 1, 1)


@pytest.mark.parametrize(
    ("progress", "value"), [(0, 0.20), (0.1, 0.35), (0.2, 1.05), (0.3, 3.1), (0.4, 6.3), (0.5, 8), (1, 8)]
)
def test_gamma_grows_as_published(progress, value):
    assert gamma(progress) == pytest.approx(value, rel=0.02)


@pytest.mark.parametrize(
    ("progress", "value"), [(0, 0), (0.005, 0), (0.01, 0.5), (0.09, 0.9), (0.29, 29 / 30), (0.99, 0.99)]
)
def test_a_teacher_keeps_more_of_itself_with_each_hundredth_of_training(progress, value):
    assert decay(progress) == pytest.approx(value)


def test_the_weights_begin_at_a_twentieth_and_end_growing_at_half_of_training():
    method, seen = tiny_method("ssco"), batch()
    weights = {
        progress: {name: term.weight for name, term in method(seen, progress).items()}
        for progress in (0, 0.05, 0.275, 0.5, 1)
    }
    assert weights[0] == {"full": 1.0, "consistency": 0.0, "self-paced": 0.0}
    assert weights[0.05] == pytest.approx(
        {"full": 1, "consistency": 4 * math.exp(-5), "self-paced": 0.5 * math.exp(-5)}
    )
    assert weights[0.275]["consistency"] == pytest.approx(4 * math.exp(-1.25))
    assert weights[0.5] == weights[1] == {"full": 1.0, "consistency": 4.0, "self-paced": 0.5}


@pytest.mark.parametrize(
    ("foreground", "at", "expected"),
    [
        # Agreed on foreground, each pays for what it lacks: 1 + log(p) / gamma.
        ((0.9, 0.95), 2.0, (1 + math.log(0.9) / 2, 1 + math.log(0.95) / 2)),
        # Agreed on background, likewise.
        ((0.1, 0.05), 2.0, (1 + math.log(0.9) / 2, 1 + math.log(0.95) / 2)),
        # 1 - 0.4308 / 0.2 is negative: the second student is left out for now, and comes back with a larger gamma.
        ((0.999, 0.65), 0.2, (1 + math.log(0.999) / 0.2, 1e-5)),
        ((0.97, 0.75), 0.2, (1 + math.log(0.97) / 0.2, 1e-5)),
        ((0.999, 0.65), 8.0, (1 + math.log(0.999) / 8, 1 + math.log(0.65) / 8)),
        # No class is above 0.8 in the mean: nothing to be far from, and all count.
        ((0.99, 0.01), 0.2, (1 - 1e-3 / 0.2, 1 - 1e-3 / 0.2)),
        ((0.8, 0.8), 0.2, (1 - 1e-3 / 0.2, 1 - 1e-3 / 0.2)),
        # A divergence of exactly 0 counts as 1e-3.
        ((1.0, 1.0), 0.5, (1 - 1e-3 / 0.5, 1 - 1e-3 / 0.5)),
    ],
)
def test_self_paced_weights_are_those_computed_by_hand(foreground, at, expected):
    found = paces(two_class(*foreground), gamma=at).flatten().tolist()
    assert found == pytest.approx(expected, rel=1e-9)


def test_equal_students_disagree_by_alpha_times_their_entropy():
    logits = torch.randn(1, 2, 3, 4, 4, dtype=torch.float64).repeat(3, 1, 1, 1, 1)
    found = disagreement(logits, torch.ones(3, 2, 4, 4, dtype=torch.float64), alpha=0.25)
    torch.testing.assert_close(found, 0.25 * entropy(logits[0]).mean())


def test_the_disagreement_is_that_of_a_plain_loop_over_voxels():
    rng = np.random.default_rng(0)
    logits, pace = rng.normal(size=(3, 2, 2, 3, 3)), rng.uniform(0.1, 1, size=(3, 2, 3, 3))
    values = []
    for row, i, j in np.ndindex(2, 3, 3):
        probs = [np.exp(one[row, :, i, j]) / np.exp(one[row, :, i, j]).sum() for one in logits]
        w = pace[:, row, i, j]
        mixture = sum(share * p for share, p in zip(w / w.sum(), probs, strict=True))
        each = [-(p * np.log(p)).sum() for p in probs]
        values.append(-(mixture * np.log(mixture)).sum() - (1 - 0.1) * (w * each).sum() / 3)
    found = disagreement(torch.from_numpy(logits), torch.from_numpy(pace), alpha=0.1)
    assert found.item() == pytest.approx(np.mean(values), rel=1e-12)


def test_the_disagreement_has_finite_gradients_at_certain_students():
    logits = torch.tensor([[200.0, -200.0], [-200.0, 200.0]]).reshape(2, 1, 2, 1, 1).requires_grad_()
    value = disagreement(logits, torch.ones(2, 1, 1, 1), alpha=0.0)
    value.backward()
    assert value.item() == pytest.approx(math.log(2))
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("dims", [2, 3])
def test_each_image_is_turned_by_its_own_quarters_and_back(dims):
    images = part(5, dims).image
    turns = torch.tensor([0, 1, 2, 3, 2])
    turned = turn(images, turns)
    for image, before, quarters in zip(turned, images, turns.tolist(), strict=True):
        np.testing.assert_array_equal(image, np.rot90(before.numpy(), quarters, axes=(1, 2)))
    assert turned.stride() == images.stride()  # what a compiled network is compiled for
    torch.testing.assert_close(turn(turned, -turns), images, rtol=0, atol=0)


@pytest.mark.parametrize("size", [(16, 24), (24, 16, 8)])
def test_images_of_unequal_sides_are_flipped_or_turned_by_half_and_back(size):
    images, turns = torch.randn(5, 2, *size), torch.tensor([0, 1, 2, 3, 1])
    turned = turn(images, turns)
    moved = [np.asarray, np.flipud, np.fliplr, lambda image: np.rot90(image, 2)]
    for image, before, way in zip(turned, images, turns.tolist(), strict=True):
        for channel, was in zip(image, before, strict=True):
            np.testing.assert_array_equal(channel, moved[way](was.numpy()))
    assert turned.stride() == images.stride()
    torch.testing.assert_close(turn(turned, -turns), images, rtol=0, atol=0)


@pytest.mark.parametrize("width", [32, 24])
def test_the_consistency_compares_each_student_with_its_own_teacher_in_one_frame(width):
    method = tiny_method("ssco", norm="none", dropout=0.0)
    seen = Batch(*(Part(*(tensor[..., :width] for tensor in of_kind)) for of_kind in batch(0, 2, 1)))
    with torch.no_grad():
        for parameter in method.students.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    images = torch.cat([seen.partial.image, seen.unlabeled.image])
    torch.manual_seed(1)
    terms = method(seen, 0.5)
    torch.manual_seed(1)
    turns = torch.randint(4, (3,))
    assert len(turns.unique()) > 1
    assert (turns % 2 == 1).any()
    apart, logits = [], []
    for student, teacher in zip(method.students, method.teachers, strict=True):
        logits.append(turn(student(turn(images, turns))[0], -turns))
        apart.append((logits[-1].softmax(dim=1) - teacher.network(images)[0].softmax(dim=1)).square().mean())
    torch.testing.assert_close(terms["consistency"].value, sum(apart) / 2)
    stacked = torch.stack(logits)
    expected = disagreement(stacked, paces(stacked.softmax(dim=2).detach(), gamma=8.0), alpha=1e-5 * math.exp(-0.2))
    torch.testing.assert_close(terms["self-paced"].value, expected)
    # Nor is there a gradient through the weights.
    learning = list(method.students.parameters())
    found = torch.autograd.grad(terms["self-paced"].value, learning)
    torch.testing.assert_close(found, torch.autograd.grad(expected, learning))


def test_the_supervised_term_is_the_mean_over_students():
    method, seen = tiny_method("ssco").eval(), batch(2, 0)
    label = seen.full.full.long()
    each = [torch.nn.functional.cross_entropy(student(seen.full.image)[0], label) for student in method.students]
    torch.testing.assert_close(method(seen, 0.5)["full"].value, sum(each) / 2)


def test_students_differ_from_the_start_and_any_number_of_them_trains():
    build = lambda branches: make_network("unet", width=4, depth=2, branches=branches)  # noqa: E731
    method = SSCO(build, {"full": 1.0, "self-paced": 0.5, "consistency": 4.0}, MethodOptions(), students=3)
    weights = [next(student.parameters()) for student in method.students]
    assert not any(torch.equal(weights[i], weights[j]) for i, j in ((0, 1), (0, 2), (1, 2)))
    assert all(term.value.isfinite() for term in method(batch(), 0.3).values())


def test_the_answer_is_the_mean_of_the_teachers():
    method = tiny_method("ssco").eval()
    image = part(2, 2).image
    expected = sum(teacher.network(image)[0].softmax(dim=1) for teacher in method.teachers) / 2
    torch.testing.assert_close(method.predict(image)["teachers"], expected)


def test_teachers_see_the_full_scans_where_there_are_no_others():
    method = tiny_method("ssco")
    before = [buffer.clone() for buffer in method.teachers.buffers()]
    method(batch(2, 0), 0.5)
    assert not any(torch.equal(old, new) for old, new in zip(before, method.teachers.buffers(), strict=True))


def test_teachers_see_scans_without_a_consistency_too():
    method = tiny_method("ssco", weights={"consistency": 0.0})
    before = [buffer.clone() for buffer in method.teachers.buffers()]
    method(batch(2, 0, 2), 0.5)
    assert not any(torch.equal(old, new) for old, new in zip(before, method.teachers.buffers(), strict=True))
