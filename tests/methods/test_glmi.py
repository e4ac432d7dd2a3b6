"""GLMI against its formulas: mutual information, displacements, flips, and what the gradients reach."""

import math

import numpy as np
import pytest
import torch

from discs import batch, part, tiny_method
from mixseg.core.errors import MixsegError
from mixseg.methods import MethodOptions
from mixseg.methods.glmi import (
    CLUSTERS,
    GLMI,
    ClusterHeads,
    displaced_joint,
    flip,
    global_information,
    local_information,
    mutual_information,
)
from mixseg.networks import make_network


def assignments(*shape, seed=0, dtype=torch.float64):
    rng = torch.Generator().manual_seed(seed)
    return (3 * torch.randn(*shape, generator=rng, dtype=dtype)).softmax(dim=2)


def plain_joint(first, second, pad):
    """P[k, l, u] = sum of first[k, v + u] second[l, v] by loops over displacements and voxels."""
    rows, clusters, *size = first.shape
    joint = np.zeros((clusters, clusters, *[2 * pad + 1] * len(size)))
    for shift in np.ndindex(*joint.shape[2:]):
        for voxel in np.ndindex(*size):
            there = tuple(v + u - pad for v, u in zip(voxel, shift, strict=True))
            if all(0 <= t < side for t, side in zip(there, size, strict=True)):
                for row in range(rows):
                    joint[(..., *shift)] += np.outer(
                        first[(row, slice(None), *there)], second[(row, slice(None), *voxel)]
                    )
    return joint


def plain_information(joint):
    joint = joint / joint.sum()
    joint = (joint + joint.T) / 2
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    return sum(
        joint[at] * math.log(joint[at] / (rows[at[0]] * columns[at[1]]))
        for at in np.ndindex(*joint.shape)
        if joint[at] > 1e-12
    )


def test_equal_assignments_spread_over_all_clusters_share_log_k():
    one_hot = torch.eye(CLUSTERS).unsqueeze(1).repeat(2, 3, 1)
    torch.testing.assert_close(-global_information(one_hot, one_hot), torch.full((3,), -2.9957), rtol=0, atol=1e-4)


def test_constant_assignments_share_nothing():
    constant = torch.rand(1, 2, CLUSTERS).softmax(dim=2)
    torch.testing.assert_close(global_information(constant, constant), torch.zeros(2), rtol=0, atol=1e-6)
    heads = constant[..., None, None].double().expand(3, -1, -1, 8, 8)
    assert local_information(torch.full_like(heads, 1 / CLUSTERS), heads * 0 + 1 / CLUSTERS, pad=1).abs().max() < 1e-9


def test_information_is_that_of_a_plain_double_sum_and_symmetric():
    joint = torch.rand(4, 5, 5, dtype=torch.float64)
    found = mutual_information(joint)
    for value, one in zip(found, joint.numpy(), strict=True):
        assert value.item() == pytest.approx(plain_information(one), rel=1e-9)
    torch.testing.assert_close(mutual_information(7 * joint.mT), found)


@pytest.mark.parametrize(("shape", "pad"), [((2, 3, 5, 4), 1), ((1, 2, 7, 6), 3), ((2, 3, 4, 3, 3), 1)])
def test_the_joints_of_all_displacements_are_those_of_a_plain_loop(shape, pad):
    first, second = (torch.rand(shape, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))
    expected = plain_joint(first.numpy(), second.numpy(), pad)
    np.testing.assert_allclose(displaced_joint(first, second, pad=pad), expected, rtol=1e-5)


@pytest.mark.parametrize("shape", [(2, 3, 4, 3), (1, 2, 3, 3, 2)])
def test_the_gradients_of_the_joints_are_right(shape):
    first, second = (torch.rand(shape, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(lambda a, b: displaced_joint(a, b, pad=1), (first, second))


@pytest.mark.parametrize("shape", [(2, 2, 4, 6, 5), (1, 2, 3, 4, 3, 4)])
def test_local_information_is_the_mean_over_displacements_of_each_head(shape):
    first, second = assignments(*shape, seed=0), assignments(*shape, seed=1)
    found = local_information(first, second, pad=1)
    for head, value in enumerate(found):
        joint = plain_joint(first[:, head].numpy(), second[:, head].numpy(), pad=1)
        joint = (joint - joint.min() + 1e-16).reshape(*joint.shape[:2], -1)
        expected = np.mean([plain_information(joint[..., shift]) for shift in range(joint.shape[2])])
        assert value.item() == pytest.approx(expected, rel=1e-6)


def test_local_information_is_high_for_equal_smooth_assignments_and_low_for_unrelated_ones():
    blocks = torch.arange(4).reshape(2, 2).repeat_interleave(8, 0).repeat_interleave(8, 1)
    smooth = torch.nn.functional.one_hot(blocks, 4).movedim(-1, 0)[None, None].float()
    unrelated = assignments(1, 1, 4, 16, 16, dtype=torch.float32)
    assert local_information(smooth, smooth, pad=1) > 0.7 * math.log(4)
    assert local_information(smooth, unrelated, pad=1) < 0.1 * math.log(4)


@pytest.mark.parametrize("dims", [2, 3])
def test_flips_are_those_of_each_image_and_undo_themselves(dims):
    images = part(4, dims).image
    flips = torch.tensor([[True, False, True, False], [True, True, False, False]])
    flipped = flip(images, flips)
    for image, before, first, second in zip(flipped, images, *flips.tolist(), strict=True):
        expected = before.numpy()
        expected = np.flip(expected, 1) if first else expected
        expected = np.flip(expected, 2) if second else expected
        np.testing.assert_array_equal(image, expected)
    torch.testing.assert_close(flip(flipped, flips), images)


def test_heads_are_linear_and_independent_of_each_other():
    heads = ClusterHeads(3)
    features = torch.randn(2, 3, 4, 5)
    found = heads(features)
    assert found.shape == (2, 5, 20, 4, 5)
    weight, bias = heads.linear.weight[20:40], heads.linear.bias[20:40]
    expected = (torch.einsum("kc,bchw->bkhw", weight, features) + bias[:, None, None]).softmax(dim=1)
    torch.testing.assert_close(found[:, 1], expected)
    torch.testing.assert_close(heads(features[:, :, 0, 0])[0], found[0, :, :, 0, 0])


def plain_method(**network):
    """Without dropout and batch statistics: the same rows give the same answers."""
    return tiny_method("glmi", norm="none", dropout=0.0, **network)


def test_the_consistency_is_the_squared_difference_of_both_views_in_one_frame():
    method, seen = plain_method(), batch(0, 2, 2)
    images = torch.cat([seen.partial.image, seen.unlabeled.image])
    torch.manual_seed(5)
    value = method(seen, 0.0)["consistency"].value
    torch.manual_seed(5)
    flips = torch.rand(2, 4) < 0.8
    plain, flipped = (method.network(view)[0].softmax(dim=1) for view in (images, flip(images, flips)))
    torch.testing.assert_close(value, (flipped - flip(plain, flips)).square().mean())


def test_the_consistency_teaches_the_flipped_view_alone():
    method, seen = plain_method(), batch(0, 2)
    kept = []
    decode = method.network.decode_features

    def keeping(features, branch):
        logits, maps = decode(features, branch)
        logits.retain_grad()
        kept.append(logits)
        return logits, maps

    method.network.decode_features = keeping
    method(seen, 0.0)["consistency"].value.backward()
    assert not kept[0].grad[:2].any()
    assert kept[0].grad[2:].any()


def test_the_local_term_is_the_mean_over_both_maps_in_one_frame():
    method, seen = plain_method(), batch(0, 3)
    with torch.no_grad():
        for heads in method.heads.values():
            heads.linear.weight.mul_(300)  # sharp enough for the frame to matter
    torch.manual_seed(5)
    value = method(seen, 0.0)["local"].value
    torch.manual_seed(5)
    flips = torch.rand(2, 3) < 0.8
    images = seen.partial.image
    _, maps = method.network.decode_features(method.network.encode(torch.cat([images, flip(images, flips)])), 0)

    def loss(flips):
        losses = []
        for name, features, pad in (("coarse", maps[-2], 1), ("fine", maps[-1], 3)):
            plain, flipped = features.chunk(2)
            heads = method.heads[name]
            losses.append(-local_information(heads(flip(plain, flips)), heads(flipped), pad=pad).mean())
        return sum(losses) / 2

    torch.testing.assert_close(value, loss(flips))
    assert abs(value - loss(torch.zeros_like(flips))) > 0.01


def test_the_local_term_is_computed_in_float32_under_autocast():
    method = plain_method()
    features, flips = torch.randn(4, 4, 32, 32), torch.zeros(2, 2, dtype=torch.bool)
    expected = method._local("fine", features, flips)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(method._local("fine", features, flips), expected, rtol=0, atol=0)


@pytest.mark.parametrize("off", ["global", "local", "consistency"])
def test_a_weight_of_zero_switches_a_term_off(off):
    terms = tiny_method("glmi", weights={off: 0.0})(batch(), 0.0)
    assert set(terms) == {"full", "global", "local", "consistency"} - {off}


def test_the_weights_are_the_papers_and_constant():
    for progress in (0.0, 0.5):
        terms = tiny_method("glmi")(batch(), progress)
        found = {name: term.weight for name, term in terms.items()}
        assert found == {"full": 1.0, "global": 1.0, "local": 0.1, "consistency": 10.0}


def test_the_heads_play_no_part_in_predictions():
    method = tiny_method("glmi").eval()
    image = part(2, 2).image
    expected = method.predict(image)
    for parameter in method.heads.parameters():
        parameter.data.fill_(math.nan)
    torch.testing.assert_close(method.predict(image), expected, rtol=0, atol=0)


def test_the_network_has_as_many_parameters_as_in_the_paper():
    with torch.device("meta"):
        method = GLMI(lambda branches: make_network("unet", branches=branches), {}, MethodOptions())
    assert sum(parameter.numel() for parameter in method.network.parameters()) == 31_042_434
    assert [heads.linear.in_features for heads in method.heads.values()] == [1024, 128, 64]


def test_a_network_without_a_map_at_half_resolution_is_refused():
    with pytest.raises(MixsegError, match="depth 2"):
        tiny_method("glmi", depth=1)
