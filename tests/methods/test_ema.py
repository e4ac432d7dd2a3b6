"""The moving-average teacher: what it averages, and what it leaves alone."""

import pytest
import torch
from torch import nn

from discs import batch, tiny_method, train
from mixseg.methods import MethodOptions
from mixseg.methods.ema import EMATeacher
from mixseg.methods.ssco import SSCO
from mixseg.methods.ua_mt import UAMT
from mixseg.networks import make_network


def pair():
    torch.manual_seed(0)
    student = make_network("unet", width=4, depth=2)
    return student, EMATeacher(student)


def moved(student):
    with torch.no_grad():
        for parameter in student.parameters():
            parameter.add_(torch.randn_like(parameter))


def test_it_starts_as_a_copy_that_shares_no_storage():
    student, teacher = pair()
    for own, other in zip(teacher.network.state_dict().values(), student.state_dict().values(), strict=True):
        assert torch.equal(own, other)
        assert own.untyped_storage().data_ptr() != other.untyped_storage().data_ptr()


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.99])
def test_it_follows_as_its_decay_says(decay):
    student, teacher = pair()
    before = [parameter.clone() for parameter in teacher.parameters()]
    moved(student)
    teacher.follow(student, decay)
    for own, old, new in zip(teacher.parameters(), before, student.parameters(), strict=True):
        torch.testing.assert_close(own, decay * old + (1 - decay) * new, rtol=1e-5, atol=1e-6)
        assert not own.requires_grad
        assert decay > 0 or torch.equal(own, new)


def test_its_buffers_are_its_own():
    student, teacher = pair()
    student(torch.randn(2, 1, 16, 16))
    before = [buffer.clone() for buffer in teacher.buffers()]
    teacher.follow(student, 0.5)
    assert all(torch.equal(own, old) for own, old in zip(teacher.buffers(), before, strict=True))
    teacher(torch.randn(2, 1, 16, 16))  # in training mode its passes fill them
    assert not any(torch.equal(own, old) for own, old in zip(teacher.buffers(), before, strict=True))


def test_training_and_evaluation_mode_reach_the_teacher():
    method = tiny_method("ua-mt")
    image = torch.randn(2, 1, 32, 32)
    assert not torch.equal(method.teacher(image), method.teacher(image))  # dropout
    method.eval()
    assert torch.equal(method.teacher(image), method.teacher(image))
    assert not method.teacher(image).requires_grad


@pytest.mark.parametrize("name", ["ua-mt", "ssco"])
def test_a_teacher_is_its_student_after_the_first_step_and_no_longer_after_the_second(name):
    method = tiny_method(name)
    students, teachers = ([method.student], [method.teacher]) if name == "ua-mt" else (method.students, method.teachers)

    def together():
        return [
            all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
            for one, other in zip(students, teachers, strict=True)
        ]

    train(method, batch(), steps=1, progress=0.0)
    assert all(together())
    moved(method)
    method.after_step(1, 0.01)
    assert not any(together())


@pytest.mark.parametrize(
    ("make", "count"),
    [(UAMT, 62_084_868), (lambda *args: SSCO(*args, students=4), 248_339_472), (SSCO, 124_169_736)],
    ids=["ua-mt", "ssco of 4", "ssco of 2"],
)
def test_the_parameters_stored_are_as_many_as_in_the_paper(make, count):
    with torch.device("meta"):
        method: nn.Module = make(lambda branches: make_network("unet", branches=branches), {}, MethodOptions())
    assert sum(parameter.numel() for parameter in method.parameters()) == count
