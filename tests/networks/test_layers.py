"""Biases that a normalisation takes out again: which they are, and that nothing is lost without their gradients."""

import pytest
import torch

from mixseg.networks import make_network
from mixseg.networks.layers import idle_biases


def gradients(network, dims):
    torch.manual_seed(0)
    image = torch.rand(2, 1, *[16] * dims, dtype=torch.float64)
    for parameter in network.parameters():
        parameter.grad = None
    sum((logits.sigmoid() ** 3).sum() for logits in network(image)).backward()
    return {name: parameter.grad for name, parameter in network.named_parameters()}


@pytest.mark.parametrize("norm", ["batch", "instance"])
@pytest.mark.parametrize(("name", "dims"), [("unet", 2), ("unet", 3), ("vnet", 3)])
def test_idle_biases_have_no_gradient_but_rounding_and_the_others_have_one(name, dims, norm):
    network = make_network(name, dims=dims, width=4, depth=2, branches=2, norm=norm, dropout=0.0).double()
    idle = {id(bias) for bias in idle_biases(network)}
    found = gradients(network, dims)
    biases = {key: value for key, value in network.named_parameters() if id(value) in idle}
    assert biases
    assert all(key.endswith("bias") for key in biases)
    scale = max(float(gradient.abs().max()) for gradient in found.values())
    for key, gradient in found.items():
        if key in biases:
            assert float(gradient.abs().max()) < 1e-12 * scale
        else:
            assert float(gradient.abs().max()) > 1e-9 * scale
    for bias in biases.values():
        bias.requires_grad_(False)
    for key, gradient in gradients(network, dims).items():
        assert (gradient is None) == (key in biases)
        if gradient is not None:
            torch.testing.assert_close(gradient, found[key], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("norm", ["group", "none"])
def test_a_bias_that_stays_is_not_idle(norm):
    network = make_network("unet", width=16, depth=2, norm=norm)
    assert not list(idle_biases(network))
