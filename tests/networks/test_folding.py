"""Batch normalisations folded into convolutions: the same answers, and everything as it was afterwards."""

import pytest
import torch
import torch.nn.functional as F

from mixseg.networks import make_network
from mixseg.networks.convolutions import Conv2d, widened
from mixseg.networks.folding import folded
from mixseg.networks.idle_biases import drop_idle_biases


@pytest.fixture
def one_kernel(monkeypatch):
    """In the place of cuDNN's kernel, what it computes; how often it was asked."""
    calls = []

    def plain(feature, weight, bias, stride, padding, dilation, groups):
        calls.append(weight.shape)
        return F.relu(F.conv2d(feature, weight, bias, stride, padding, dilation, groups))

    monkeypatch.setattr(torch, "cudnn_convolution_relu", plain)
    return calls


def trained(channels=1, *, norm="batch"):
    """A network in evaluation mode with statistics, scales, shifts and biases of its own."""
    torch.manual_seed(0)
    network = make_network("unet", in_channels=channels, width=4, depth=2, branches=2, norm=norm).double()
    for tensor in [*network.parameters(), *network.buffers()]:
        if tensor.is_floating_point() and tensor.ndim == 1:
            tensor.data.uniform_(0.2, 1.5)
    return network.eval()


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("idle", [False, True])
@torch.no_grad()
def test_a_folded_network_answers_the_same(one_kernel, channels, idle):
    network = trained(channels)
    image = torch.rand(2, channels, 16, 16, dtype=torch.float64)
    expected = network(image)
    if idle:  # biases that are left out on a GPU, and folded into the running means
        drop_idle_biases(network)
    with folded(network, torch.float64):
        found = network(image)
    convolutions = [layer for layer in network.modules() if isinstance(layer, Conv2d)]
    assert len(one_kernel) == len(convolutions) - len(network.decoders)  # all but the heads
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


@torch.no_grad()
def test_a_card_without_that_kernel_answers_the_same():
    network = trained()
    image = torch.rand(2, 1, 16, 16, dtype=torch.float64)
    expected = network(image)
    with folded(network, torch.float64):  # on a CPU torch has no such kernel
        found = network(image)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


@torch.no_grad()
def test_it_ends_even_if_something_fails_and_weights_keep_their_names(one_kernel):
    network = trained()
    image = torch.rand(2, 1, 16, 16, dtype=torch.float64)
    before, names = network(image), list(network.state_dict())
    folding = folded(network, torch.float64)
    folding.__enter__()
    with folded(network, torch.float64):  # once is enough
        network(image)
    asked = len(one_kernel)
    assert asked
    network(image)
    assert len(one_kernel) == 2 * asked, "the inner one has not ended the outer one"
    assert list(network.state_dict()) == names
    assert not folding.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
    assert all(torch.equal(one, other) for one, other in zip(network(image), before, strict=True))
    assert len(one_kernel) == 2 * asked


@torch.no_grad()
def test_a_normalisation_that_depends_on_the_image_stays(one_kernel):
    network = trained(norm="instance")
    image = torch.rand(2, 1, 16, 16, dtype=torch.float64)
    expected = network(image)
    with folded(network, torch.float64):
        assert all(torch.equal(one, other) for one, other in zip(network(image), expected, strict=True))
    assert not one_kernel


@pytest.mark.parametrize("dims", [2, 3])
def test_a_channel_of_zeros_changes_nothing(dims):
    convolve = {2: F.conv2d, 3: F.conv3d}[dims]
    image, weight = (torch.rand(5, 1, *[side] * dims, dtype=torch.float64) for side in (6, 3))
    assert widened(image).shape == (5, 8, *[6] * dims)
    torch.testing.assert_close(convolve(widened(image), widened(weight)), convolve(image, weight))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: the kernel is cuDNN's")
@torch.no_grad()
def test_cudnn_computes_what_the_layers_compute():
    network = trained().float().cuda().to(memory_format=torch.channels_last)
    image = torch.rand(3, 1, 32, 32, device="cuda")
    expected = network(image)
    with torch.autocast("cuda", torch.bfloat16), folded(network, torch.bfloat16):
        found = network(image)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.float(), other, rtol=0.05, atol=float(0.02 * other.abs().max()))
