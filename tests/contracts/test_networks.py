"""What every network promises, whatever its name, dimension, normalisation and geometry."""

import copy
from typing import get_args

import pytest
import torch

from mixseg.core.errors import MixsegError
from mixseg.networks import NETWORKS, make_network
from mixseg.networks.base import Norm

SHAPES = [(name, dims) for name in NETWORKS for dims in (2, 3)]
every_network = pytest.mark.parametrize(("name", "dims"), SHAPES)


def small(name, dims, **options):
    torch.manual_seed(0)
    return make_network(name, **{"dims": dims, "width": 4, "depth": 2, "branches": 2, **options})


def images(dims, rows=2, channels=1, side=8):
    random = torch.Generator().manual_seed(1)
    return torch.randn(rows, channels, *[side] * dims, generator=random)


def parameter_count(name, **options):
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in make_network(name, **options).parameters())


def gradient_of(module):
    return sum(float(p.grad.abs().sum()) for p in module.parameters() if p.grad is not None)


@every_network
def test_every_branch_gives_logits_of_the_image_s_size(name, dims):
    network = small(name, dims, in_channels=3, classes=5, branches=3)
    logits = network(images(dims, channels=3))
    assert [tuple(branch.shape) for branch in logits] == [(2, 5, *[8] * dims)] * 3
    assert network.branches == 3


@every_network
def test_sides_may_differ_as_long_as_each_divides(name, dims):
    image = torch.randn(2, 1, *(8, 16, 12)[:dims])
    assert small(name, dims)(image)[1].shape[2:] == image.shape[2:]


@every_network
@pytest.mark.parametrize("norm", get_args(Norm))
def test_every_normalisation_trains(name, dims, norm):
    network = small(name, dims, norm=norm)
    sum(logits.square().mean() for logits in network(images(dims))).backward()
    for parameter in network.parameters():
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()


@every_network
@pytest.mark.parametrize("branch", [0, 1])
def test_a_loss_on_one_branch_never_reaches_the_other_decoder(name, dims, branch):
    network = small(name, dims)
    network(images(dims))[branch].square().sum().backward()
    assert gradient_of(network.decoders[1 - branch]) == 0
    assert gradient_of(network.decoders[branch]) > 0
    assert gradient_of(network.encoder.up) > 0
    assert gradient_of(network.encoder.blocks[0]) > 0


@every_network
def test_decoders_share_no_storage_and_begin_differently(name, dims):
    network = small(name, dims)
    first, second = (list(decoder.parameters()) for decoder in network.decoders)
    buffers = [list(decoder.buffers()) for decoder in network.decoders]
    places = [tensor.untyped_storage().data_ptr() for tensor in [*first, *second, *buffers[0], *buffers[1]]]
    assert len(set(places)) == len(places)
    kernels = [(a, b) for a, b in zip(first, second, strict=True) if a.ndim > 1]
    assert kernels
    assert all(not torch.equal(a, b) for a, b in kernels)


@every_network
def test_a_branch_runs_on_the_rows_it_is_needed_for(name, dims):
    network = small(name, dims).eval()
    image = images(dims, rows=3)
    features = network.encode(image)
    some = network.decode([feature[:2] for feature in features], branch=1)
    torch.testing.assert_close(some, network(image)[1][:2])


@every_network
def test_the_bottleneck_and_the_finest_decoder_maps_are_reachable(name, dims):
    network = small(name, dims)
    features = network.encode(images(dims))
    bottleneck = features[-2]
    logits, maps = network.decode_features(features, 0)
    widths = network.spec.channels
    assert bottleneck.shape[1:] == (widths[-1], *[2] * dims)
    assert maps[-1].shape[1:] == (widths[0], *[8] * dims)
    assert maps[-2].shape[1:] == (widths[1], *[4] * dims)
    assert logits.shape[1] == network.spec.classes


@every_network
def test_deep_heads_read_the_coarser_maps_and_leave_the_rest_as_it_is(name, dims):
    plain, network = (small(name, dims, deep=deep).eval() for deep in (0, 1))
    extra = {key for key in network.state_dict() if "deep_heads" in key}
    assert set(plain.state_dict()) == set(network.state_dict()) - extra
    assert len(extra) == 2 * network.branches
    network.load_state_dict(plain.state_dict(), strict=False)
    features, branch = network.encode(images(dims)), network.branches - 1
    answer, coarser = network.decode_deep(features, branch)
    assert torch.equal(answer, plain(images(dims))[branch])
    maps = network.decode_features(features, branch)[1]
    assert torch.equal(coarser, network.decoders[branch].deep_heads[0](maps[-2]))
    assert coarser.shape[2:] == tuple(side // 2 for side in answer.shape[2:])


@every_network
def test_without_batch_statistics_a_row_does_not_depend_on_the_others(name, dims):
    for norm in ("instance", "group", "none"):
        network = small(name, dims, norm=norm, dropout=0.0)
        image = images(dims, rows=3)
        torch.testing.assert_close(network(image)[0][:1], network(image[:1])[0], atol=1e-4, rtol=1e-4)


@every_network
def test_dropout_makes_training_random_and_evaluation_not(name, dims):
    network, image = small(name, dims, norm="group"), images(dims)
    assert not torch.equal(network(image)[0], network(image)[0])
    network.eval()
    assert torch.equal(network(image)[0], network(image)[0])


@every_network
def test_the_state_survives_a_round_trip(name, dims, tmp_path):
    network, image = small(name, dims), images(dims)
    network(image)  # so that the running statistics are not the initial ones
    torch.save(network.state_dict(), tmp_path / "network.pt")
    other = small(name, dims)
    torch.nn.init.normal_(next(other.parameters()))  # its own weights are lost
    other.load_state_dict(torch.load(tmp_path / "network.pt", weights_only=True))
    for ours, theirs in zip(network.eval()(image), other.eval()(image), strict=True):
        assert torch.equal(ours, theirs)


@every_network
def test_a_copy_is_a_network_of_its_own(name, dims):
    network, image = small(name, dims).eval(), images(dims)
    teacher = copy.deepcopy(network)
    before = teacher(image)[0]
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1)
    assert torch.equal(teacher(image)[0], before)


@every_network
def test_the_seed_decides_the_first_weights(name, dims):
    first, again = small(name, dims).state_dict(), small(name, dims).state_dict()
    assert all(torch.equal(first[key], again[key]) for key in first)


@every_network
def test_bf16_autocast_and_channels_last_give_nearly_the_same(name, dims):
    network, image = small(name, dims).eval(), images(dims)
    expected = network(image)[1]
    layout = torch.channels_last if dims == 2 else torch.channels_last_3d
    network = network.to(memory_format=layout)
    torch.testing.assert_close(network(image.to(memory_format=layout))[1], expected, atol=1e-4, rtol=1e-4)
    with torch.autocast("cpu", torch.bfloat16):
        half = network(image)[1]
    assert (half.float() - expected).abs().max() < 0.1 * expected.abs().max()


@every_network
def test_the_graph_has_no_breaks_for_the_compiler(name, dims):
    network, image = small(name, dims), images(dims)
    torch.compile(network, backend="eager", fullgraph=True)(image)


@every_network
def test_each_branch_adds_exactly_one_decoder(name, dims):
    one, two, three = (parameter_count(name, dims=dims, branches=branches) for branches in (1, 2, 3))
    with torch.device("meta"):
        decoder = make_network(name, dims=dims).decoders[0]
    assert two - one == three - two == sum(parameter.numel() for parameter in decoder.parameters())


@every_network
def test_a_size_that_does_not_divide_is_answered_with_the_one_to_pad_to(name, dims):
    with pytest.raises(MixsegError, match=r"multiple of 4: pad \(9, 8.*to \(12, 8"):
        small(name, dims)(torch.zeros(1, 1, *(9, 8, 8)[:dims]))


@every_network
def test_a_wrong_number_of_channels_or_axes_is_answered_with_the_right_shape(name, dims):
    network = small(name, dims)
    for shape in ((1, 2, *[8] * dims), (1, 1, *[8] * (dims + 1))):
        with pytest.raises(MixsegError, match=r"takes images of shape \(B, 1, H, W"):
            network(torch.zeros(shape))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"name": "u-net"}, "did you mean 'unet'"),
        ({"name": "transformer"}, "choose one of unet, vnet"),
        ({"norm": "Batch"}, "Unknown norm 'Batch': did you mean 'batch'"),
        ({"geometry": "author"}, "did you mean 'authors'"),
        ({"classes": 1}, "classes of at least 2, not 1"),
        ({"branches": 0}, "branches of at least 1"),
        ({"depth": 0}, "depth of at least 1"),
        ({"dims": 4}, "2 or 3 dims, not 4"),
        ({"dropout": 1.0}, "dropout lies in"),
        ({"deep": 4}, "depth 4 takes a deep of 0 to 3, not 4"),
        ({"deep": 1, "geometry": "authors"}, 'geometry="padded" alone'),
        ({"name": "vnet", "geometry": "authors"}, "V-Net has one geometry"),
    ],
)
def test_an_option_that_cannot_be_is_an_error_that_teaches(options, sentence):
    with pytest.raises(MixsegError, match=sentence):
        make_network(**{"name": "unet", **options})
