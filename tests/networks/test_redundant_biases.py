"""Biases that a normalisation takes out again: what is left without them, and that nothing is lost."""

import copy

import pytest
import torch

from mixseg.networks import make_network
from mixseg.networks.redundant_biases import _idle, drop_idle_biases, fold_idle_biases

NETWORKS = [("unet", 2), ("unet", 3), ("vnet", 3)]


def made(name, dims, norm):
    torch.manual_seed(0)
    network = make_network(name, dims=dims, width=4, depth=2, branches=2, norm=norm, dropout=0.0).double()
    for bias in (each.bias for each in network.modules() if getattr(each, "bias", None) is not None):
        torch.nn.init.normal_(bias, std=0.1)  # it is 0 at first
    return network


def trained_on(network, dims, *, seed=0):
    """Loss and gradients of a step, by the name of the parameter."""
    image = torch.rand(2, 1, *[16] * dims, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    network.zero_grad(set_to_none=True)
    loss = sum((logits.sigmoid() ** 3).sum() for logits in network(image))
    loss.backward()
    return loss.item(), {name: parameter.grad for name, parameter in network.named_parameters()}


@pytest.mark.parametrize("norm", ["batch", "instance"])
@pytest.mark.parametrize(("name", "dims"), NETWORKS)
def test_a_network_learns_the_same_without_them(name, dims, norm):
    whole = made(name, dims, norm)
    less = copy.deepcopy(whole)
    drop_idle_biases(less)
    idle = {f"{key}.bias" for key, layer in less.named_modules() if getattr(layer, "idle", False)}
    for seed in range(3):
        expected, theirs = trained_on(whole, dims, seed=seed)
        found, ours = trained_on(less, dims, seed=seed)
        assert found == pytest.approx(expected, rel=1e-10)
        scale = max(gradient.abs().max() for gradient in theirs.values())
        for key, gradient in ours.items():
            assert (gradient is None) == (key in idle)
            if key in idle:
                assert theirs[key].abs().max() < 1e-11 * scale
            else:
                torch.testing.assert_close(gradient, theirs[key], rtol=1e-7, atol=float(1e-11 * scale))
    image = torch.rand(2, 1, *[16] * dims, dtype=torch.float64)
    for one, other in zip(whole.eval()(image), less.eval()(image), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)
    assert whole.state_dict().keys() == less.state_dict().keys()


@pytest.mark.parametrize(("name", "dims"), NETWORKS)
def test_every_convolution_before_a_batch_normalisation_is_found(name, dims):
    network = made(name, dims, "batch")
    layers = [layer for layer in network.modules() if isinstance(layer, torch.nn.Conv2d | torch.nn.Conv3d)]
    heads = [decoder.head for decoder in network.decoders]
    assert {id(layer) for layer, _, _ in _idle(network)} == {id(layer) for layer in layers if layer not in heads}


@pytest.mark.parametrize(("name", "dims"), NETWORKS)
def test_weights_from_elsewhere_are_folded_without_a_change_of_answer(name, dims):
    whole = made(name, dims, "batch")
    trained_on(whole, dims)  # so that the running means are of something
    image = torch.rand(2, 1, *[16] * dims, dtype=torch.float64)
    assert any(layer.bias.abs().max() > 0 for layer, _, _ in _idle(whole))
    less = made(name, dims, "batch")
    drop_idle_biases(less)
    less.load_state_dict(whole.state_dict())
    assert all(layer.bias.abs().max() == 0 for layer, _, _ in _idle(less))
    for one, other in zip(whole.eval()(image), less.eval()(image), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


def test_biases_that_are_computed_with_are_left_alone():
    network = made("unet", 2, "batch")
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    fold_idle_biases(network)
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())


@pytest.mark.parametrize("norm", ["group", "none"])
def test_a_bias_that_stays_is_not_idle(norm):
    assert not list(_idle(make_network("unet", width=16, depth=2, norm=norm)))
