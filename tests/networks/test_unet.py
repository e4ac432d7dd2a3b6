"""The U-Net of the paper: its parameters, its geometry, its dropout, its first weights."""

import pytest
import torch
from torch import nn

from mixseg.core.errors import MixsegError
from mixseg.networks import make_network
from mixseg.networks.unet import _DenseGradient


def on_paper(**options):
    """A network without memory, for counting and for shapes."""
    with torch.device("meta"):
        return make_network("unet", **options)


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize("geometry", ["padded", "authors"])
@pytest.mark.parametrize(("branches", "parameters"), [(1, 31_042_434), (2, 41_137_220)])
def test_it_has_the_paper_s_number_of_parameters(branches, parameters, geometry):
    assert count(on_paper(branches=branches, geometry=geometry)) == parameters


def test_each_part_has_its_share_of_the_parameters():
    network = on_paper(branches=2)
    assert [count(block) for block in network.encoder.blocks] == [37_824, 221_952, 886_272, 3_542_016]
    assert count(network.encoder.bottleneck) == 14_161_920
    assert count(network.encoder.up) == 2_097_664
    assert [count(decoder) for decoder in network.decoders] == [10_094_786, 10_094_786]
    assert count(network.decoders[0].head) == 130


@pytest.mark.parametrize("norm", ["instance", "group"])
def test_another_normalisation_keeps_the_number_of_parameters(norm):
    assert count(on_paper(norm=norm)) == 31_042_434


def test_both_geometries_have_the_same_parameters_by_name_and_shape():
    padded, authors = (on_paper(branches=2, geometry=geometry).state_dict() for geometry in ("padded", "authors"))
    assert {key: value.shape for key, value in padded.items()} == {key: value.shape for key, value in authors.items()}


def test_skips_of_the_padded_geometry_are_taken_before_the_pooling():
    features = on_paper().encode(torch.empty(1, 1, 256, 256, device="meta"))
    shapes = [(feature.shape[1], feature.shape[2]) for feature in features]
    assert shapes == [(64, 256), (128, 128), (256, 64), (512, 32), (1024, 16), (512, 32)]


def test_the_authors_geometry_has_the_authors_sizes_and_stretches_its_logits():
    network = on_paper(geometry="authors")
    features = network.encode(torch.empty(1, 1, 256, 256, device="meta"))
    assert [skip.shape[-1] for skip in features[:4]] == [126, 61, 28, 12]
    assert features[-1].shape[-1] == 16  # the authors' "center" ends with the first up-convolution
    sizes = []  # the authors' decoder blocks end with their up-convolution, the last one with its second convolution
    decoder = network.decoders[0]
    for up in decoder.ups:
        up.register_forward_hook(lambda _, __, output: sizes.append(output.shape[-1]))
    decoder.head.register_forward_hook(lambda _, __, output: sizes.append(output.shape[-1]))
    logits = network.decode(features, 0)
    assert sizes == [24, 40, 72, 68, 68]
    assert logits.shape == (1, 2, 256, 256)


@pytest.mark.parametrize("side", [188, 190, 198])
def test_the_authors_geometry_takes_any_even_size_from_its_smallest_on(side):
    network = make_network("unet", width=2, geometry="authors").eval()
    assert network(torch.rand(1, 1, side, side + 2))[0].shape[2:] == (side, side + 2)


@pytest.mark.parametrize("side", [186, 189])
def test_the_authors_geometry_says_which_sizes_it_takes(side):
    with pytest.raises(MixsegError, match="even sides of 188 voxels or more"):
        on_paper(geometry="authors")(torch.empty(1, 1, side, side, device="meta"))


def test_the_authors_geometry_also_exists_in_3d():
    network = make_network("unet", dims=3, width=2, depth=1, geometry="authors").eval()
    assert network(torch.rand(1, 1, 20, 22, 24))[0].shape == (1, 2, 20, 22, 24)


def test_the_only_dropout_follows_the_second_relu_of_the_last_block_before_the_bottleneck():
    network = on_paper(dropout=0.3)
    dropouts = [name for name, module in network.named_modules() if isinstance(module, nn.Dropout)]
    assert dropouts == ["encoder.blocks.3.6"]
    kinds = [type(layer).__name__ for layer in network.encoder.blocks[3]]
    assert kinds == ["Conv2d", "BatchNorm2d", "ReLU"] * 2 + ["Dropout"]
    assert network.encoder.blocks[3][6].p == 0.3


def test_a_shift_of_the_image_shifts_the_padded_logits_away_from_the_border():
    torch.manual_seed(0)
    network = make_network("unet", width=4, depth=1).eval()
    image = torch.zeros(1, 1, 32, 32)
    image[..., 12:18, 10:20] = torch.rand(6, 10)
    moved = image.roll((4, 2), (2, 3))
    inner = slice(10, 22)
    expected = network(image)[0].roll((4, 2), (2, 3))[..., inner, inner]
    torch.testing.assert_close(network(moved)[0][..., inner, inner], expected)


def test_xavier_draws_the_authors_first_weights():
    torch.manual_seed(0)
    network = make_network("unet", width=32, depth=2)
    kernel = network.encoder.bottleneck[3].weight.detach()  # 128 -> 128 channels, 3 x 3
    assert float(kernel.std()) == pytest.approx((2 / (2 * 128 * 9)) ** 0.5, rel=0.02)
    scales = torch.cat([m.weight.detach() for m in network.modules() if isinstance(m, nn.BatchNorm2d)])
    assert float(scales.mean()) == pytest.approx(1, abs=0.005)
    assert float(scales.std()) == pytest.approx(0.02, rel=0.1)
    assert all((m.bias == 0).all() for m in network.modules() if getattr(m, "bias", None) is not None)


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("last", [True, False])
def test_a_dense_gradient_is_the_gradient_without_gaps(dims, last):
    layout = {2: torch.channels_last, 3: torch.channels_last_3d}[dims] if last else torch.contiguous_format
    feature, skip = (torch.rand(2, 3, *[4] * dims).to(memory_format=layout).requires_grad_() for _ in range(2))
    seen = []
    raised = feature * 2
    raised.register_hook(seen.append)
    joined = torch.cat([_DenseGradient.apply(raised), skip], dim=1)
    torch.testing.assert_close(joined, torch.cat([2 * feature, skip], dim=1))
    outer = torch.rand_like(joined)
    joined.backward(outer)
    torch.testing.assert_close(feature.grad, 2 * outer[:, :3])
    (gradient,) = seen
    assert gradient.is_contiguous(memory_format=layout)
