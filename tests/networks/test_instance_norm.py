"""All ways of normalising an image by itself give what torch's own layer gives."""

import pytest
import torch
from torch import nn

from mixseg.networks.instance_norm import InstanceNorm, leanly_normalised, normalised


@pytest.mark.parametrize(("dims", "theirs"), [(2, nn.InstanceNorm2d), (3, nn.InstanceNorm3d)])
def test_arithmetic_written_out_gradient_layer_and_torch_agree_in_value_and_gradients(dims, theirs):
    torch.manual_seed(0)
    size = [6, 10, 7][:dims]
    layer = theirs(5, affine=True).double()
    nn.init.normal_(layer.weight), nn.init.normal_(layer.bias)
    ours = InstanceNorm(5).double()
    ours.load_state_dict(layer.state_dict())
    found = []
    ways = (
        layer,
        ours,
        lambda x: normalised(x, ours.weight, ours.bias),
        lambda x: leanly_normalised(x, ours.weight, ours.bias),
    )
    for compute in ways:
        torch.manual_seed(1)
        image = (3 + 2 * torch.randn(2, 5, *size, dtype=torch.float64)).requires_grad_()
        value = compute(image)
        learnt = layer if compute is layer else ours
        back = torch.autograd.grad(value.pow(3).sum(), (image, learnt.weight, learnt.bias))
        found.append((value.detach(), *back))
    for others in found[1:]:
        torch.testing.assert_close(others, found[0])


def test_the_written_out_gradient_keeps_the_map_and_two_numbers_per_channel():
    kept = []
    image = torch.randn(2, 4, 16, 16).bfloat16().requires_grad_()
    weight, bias = (nn.Parameter(torch.rand(4)) for _ in range(2))
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        value = leanly_normalised(image, weight, bias)
    assert sum(each.nbytes for each in kept if each is not weight) <= image.nbytes + 2 * 2 * 4 * 4 + weight.nbytes
    assert value.dtype == image.dtype
    value.float().sum().backward()
    assert image.grad.dtype == torch.bfloat16


def test_half_precision_is_normalised_in_single_precision():
    torch.manual_seed(0)
    image = 300 + torch.randn(1, 2, 64, 64)
    one, zero = torch.ones(2), torch.zeros(2)
    expected = normalised(image.bfloat16().float(), one, zero)
    for found in (normalised(image.bfloat16(), one, zero), leanly_normalised(image.bfloat16(), one, zero)):
        assert found.dtype == torch.bfloat16
        torch.testing.assert_close(found.float(), expected, rtol=1e-2, atol=1e-2)


def test_a_single_voxel_becomes_its_shift():
    layer = InstanceNorm(3).double()
    with torch.no_grad():
        layer.bias.copy_(torch.tensor([1.0, -2.0, 3.0]))
    found = layer(torch.rand(2, 3, 1, 1, dtype=torch.float64))
    torch.testing.assert_close(found, layer.bias.view(1, 3, 1, 1).expand(2, 3, 1, 1))
