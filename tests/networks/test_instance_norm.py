"""Both ways of normalising an image by itself give what torch's own layer gives."""

import pytest
import torch
from torch import nn

from mixseg.networks.instance_norm import InstanceNorm, normalised


@pytest.mark.parametrize(("dims", "theirs"), [(2, nn.InstanceNorm2d), (3, nn.InstanceNorm3d)])
def test_arithmetic_layer_and_torch_agree_in_value_and_gradient(dims, theirs):
    torch.manual_seed(0)
    size = [6, 10, 7][:dims]
    layer = theirs(5, affine=True).double()
    nn.init.normal_(layer.weight), nn.init.normal_(layer.bias)
    ours = InstanceNorm(5).double()
    ours.load_state_dict(layer.state_dict())
    found = []
    for compute in (layer, ours, lambda x: normalised(x, ours.weight, ours.bias)):
        torch.manual_seed(1)
        image = (3 + 2 * torch.randn(2, 5, *size, dtype=torch.float64)).requires_grad_()
        value = compute(image)
        value.pow(3).sum().backward()
        found.append((value.detach(), image.grad))
    torch.testing.assert_close(found[1], found[0])
    torch.testing.assert_close(found[2], found[0])


def test_half_precision_is_normalised_in_single_precision():
    torch.manual_seed(0)
    image = 300 + torch.randn(1, 2, 64, 64)
    one, zero = torch.ones(2), torch.zeros(2)
    found = normalised(image.bfloat16(), one, zero)
    assert found.dtype == torch.bfloat16
    expected = normalised(image.bfloat16().float(), one, zero)
    torch.testing.assert_close(found.float(), expected, rtol=1e-2, atol=1e-2)
