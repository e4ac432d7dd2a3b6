"""Batch normalisations folded into convolutions: the same answers, and everything as it was afterwards."""

import pytest
import torch
import torch.nn.functional as F

from mixseg.networks import folding, make_network
from mixseg.networks.folding import fold, folded
from mixseg.networks.layers import Conv2d, widened
from mixseg.networks.redundant_biases import drop_idle_biases


@pytest.fixture
def one_kernel(monkeypatch):
    """In the place of cuDNN's kernel, what it computes; how often it was asked."""
    calls = []

    def plain(feature, weight, bias, stride, padding, dilation, groups):
        calls.append(weight.shape)
        return F.relu(F.conv2d(feature, weight, bias, stride, padding, dilation, groups))

    monkeypatch.setattr(torch, "cudnn_convolution_relu", plain)
    return calls


def trained(channels=1, *, norm="batch", **settings):
    """A network in evaluation mode with statistics, scales, shifts and biases of its own."""
    torch.manual_seed(0)
    settings = {"name": "unet", "width": 4, "depth": 2, "branches": 2} | settings
    network = make_network(in_channels=channels, norm=norm, **settings).double()
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


@pytest.mark.parametrize("settings", [{"geometry": "authors"}, {"name": "vnet", "dims": 2}, {"width": 3}])
@torch.no_grad()
def test_whatever_the_borders_strides_and_widths(one_kernel, settings):
    network = trained(**settings)
    image = torch.rand(1, 1, 44, 44, dtype=torch.float64)
    expected = network(image)
    with folded(network, torch.float64):
        found = network(image)
    assert one_kernel
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


@torch.no_grad()
def test_what_does_not_answer_is_not_folded(one_kernel, monkeypatch):
    made = []
    monkeypatch.setattr(folding, "fold", lambda *layers: made.append(layers) or fold(*layers))
    network = trained()
    with folded(network, torch.float64):
        network.decode(network.encode(torch.rand(1, 1, 16, 16, dtype=torch.float64)), branch=1)
    assert len(made) == len(one_kernel) == 2 * 5  # three levels of the encoder, two of one decoder


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


def test_a_channel_of_zeros_changes_nothing():
    image, weight = (torch.rand(5, 1, side, side, dtype=torch.float64) for side in (6, 3))
    assert widened(image).shape == (5, 8, 6, 6)
    torch.testing.assert_close(F.conv2d(widened(image), widened(weight)), F.conv2d(image, weight))


@pytest.mark.gpu
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


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: one channel is widened there alone")
def test_an_image_of_one_channel_learns_the_same_on_a_gpu():
    layer = Conv2d(1, 16, 3, padding=1).cuda().double()
    image = torch.rand(2, 1, 12, 12, device="cuda", dtype=torch.float64)
    found = layer(image)
    expected = F.conv2d(image, layer.weight, layer.bias, padding=1)
    torch.testing.assert_close(found, expected)
    ours, theirs = (torch.autograd.grad((each**2).sum(), layer.weight)[0] for each in (found, expected))
    torch.testing.assert_close(ours, theirs)
