"""The search ahead of a backward pass meets the convolutions of the method, all of them, and touches nothing else."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from discs import batch, tiny_method, total
from mixseg.methods import METHODS
from mixseg.networks import layers as convolutions
from mixseg.training.kernel_search import convolutions_of, search_backward, search_beside

CPU = {"device": torch.device("cpu"), "dtype": torch.float32, "layout": torch.channels_last}


class Gradients(TorchDispatchMode):
    """Notes the shapes of every gradient of a convolution that is computed inside."""

    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.convolution_backward.default:
            gradient, image, weight, _, stride, *_ = args
            self.seen.add((*(tuple(each.shape) for each in (gradient, image, weight)), tuple(stride)))
        return func(*args, **(kwargs or {}))


def shapes(seen):
    return {part.image.shape for part in seen.parts}


@pytest.mark.parametrize("name", sorted(set(METHODS) - {"glmi"}))  # which joins images to other batches
def test_it_computes_the_gradients_that_a_step_computes(name, monkeypatch):
    monkeypatch.setattr(convolutions, "ALIGNED", 1)  # a CPU has no use for channels of zeros, which a GPU is given
    method, seen = tiny_method(name), batch(2, 3, 0)
    with Gradients() as step:
        total(method(seen, 0.5)).backward()
    with Gradients() as ahead:
        search_backward(convolutions_of(method, shapes(seen)), **CPU)
    assert step.seen <= ahead.seen


def test_a_single_channel_is_searched_for_as_a_gpu_computes_it():
    found = convolutions_of(tiny_method("kl-ent"), {torch.Size((2, 1, 32, 32))})
    assert found[0].image == (2, convolutions.ALIGNED, 32, 32)
    assert len(found) == len(set(found))


def test_it_leaves_weights_gradients_and_random_numbers_alone():
    method = tiny_method("kl-ent")
    before = {name: tensor.clone() for name, tensor in method.state_dict().items()}
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    search_beside(method, {torch.Size((2, 1, 32, 32))}, **CPU).join()
    assert torch.equal(torch.rand(3), expected)
    assert method.training
    assert all(parameter.grad is None for parameter in method.parameters())
    assert all(torch.equal(tensor, before[name]) for name, tensor in method.state_dict().items())


def test_what_cannot_be_computed_is_left_to_the_step(monkeypatch):
    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr("mixseg.training.kernel_search.search_backward", full)
    search_beside(tiny_method("kl-ent"), {torch.Size((2, 1, 32, 32))}, **CPU).join()
