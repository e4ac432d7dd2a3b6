"""The V-Net of the left-atrium experiments: its parameters and its shape."""

import pytest
import torch
from torch import nn

from mixseg.networks import make_network


def on_paper(**options):
    """A network without memory, for counting and for shapes."""
    with torch.device("meta"):
        return make_network("vnet", **options)


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize(("branches", "parameters"), [(1, 9_448_866), (2, 11_258_308)])
def test_it_has_the_known_number_of_parameters(branches, parameters):
    assert count(on_paper(branches=branches)) == parameters


def test_the_first_up_convolution_is_shared():
    network = on_paper(branches=2)
    assert count(network.encoder.up) == 262_528
    assert count(network.decoders[0]) + 262_528 == 2_071_970


def test_it_is_three_dimensional_unless_told_otherwise():
    assert on_paper().spec.dims == 3
    assert on_paper()(torch.empty(1, 1, 112, 112, 80, device="meta"))[0].shape == (1, 2, 112, 112, 80)


def test_the_levels_have_one_two_three_three_and_three_convolutions():
    network = on_paper()

    def convolutions(block):
        return sum(isinstance(layer, nn.Conv3d) for layer in block)

    encoder = [*network.encoder.blocks, network.encoder.bottleneck]
    assert [convolutions(block) for block in encoder] == [1, 2, 3, 3, 3]
    assert [convolutions(block) for block in network.decoders[0].blocks] == [3, 3, 2, 1]


def test_whole_channels_drop_out_after_the_bottleneck():
    torch.manual_seed(0)
    network = make_network("vnet", width=8, depth=1, norm="none")
    image = torch.rand(2, 1, 8, 8, 8)
    trained, evaluated = network.encode(image)[-2], network.eval().encode(image)[-2]
    alive = evaluated.flatten(2).amax(2) > 0
    dropped = trained.flatten(2).amax(2) == 0
    assert 0 < int((dropped & alive).sum()) < int(alive.sum())
    torch.testing.assert_close(trained[~dropped], 2 * evaluated[~dropped])


def test_channels_drop_out_before_the_head_and_not_in_the_decoder_s_maps():
    torch.manual_seed(0)
    network = make_network("vnet", width=8, depth=1, norm="none")
    features = network.encode(torch.rand(2, 1, 8, 8, 8))
    (first, maps), (second, same_maps) = (network.decode_features(features, 0) for _ in range(2))
    assert not torch.equal(first, second)
    assert torch.equal(maps[-1], same_maps[-1])


def test_dropout_stands_after_the_bottleneck_and_before_each_head():
    network = on_paper(branches=2, dropout=0.2)
    dropouts = {name: module.p for name, module in network.named_modules() if isinstance(module, nn.Dropout3d)}
    assert dropouts == {"encoder.dropout": 0.2, "decoders.0.dropout": 0.2, "decoders.1.dropout": 0.2}


def test_skips_are_added():
    network = make_network("vnet", width=2, depth=1, norm="none").eval()
    skip, bottleneck, raised = network.encode(torch.rand(1, 1, 4, 4, 4))
    swapped = network.decode([raised, bottleneck, skip], 0)
    torch.testing.assert_close(swapped, network.decode([skip, bottleneck, raised], 0))
