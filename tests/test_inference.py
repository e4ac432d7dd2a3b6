"""Sliding windows and chunks of slices: for a network that sees one voxel at a time, as if there were none."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from made_runs import scan
from mixseg import inference
from mixseg.data.batches import normalise
from mixseg.inference import predict_slices, predict_volume, probabilities
from mixseg.methods import Method


class Pointwise(Method):
    """Probabilities of three classes from each voxel's own value, and how the windows looked."""

    outputs = ("bottom", "top")

    def __init__(self):
        super().__init__()
        self.slope = torch.nn.Parameter(torch.tensor([0.0, 1.0, -2.0]), requires_grad=False)
        self.shapes = []

    def forward(self, batch, progress):
        raise NotImplementedError

    def predict(self, image):
        self.shapes.append(tuple(image.shape))
        slope = self.slope.reshape(1, 3, *[1] * (image.ndim - 2))
        return {"bottom": (slope * image).softmax(dim=1), "top": (-slope * image).softmax(dim=1)}


def whole(method, volume):
    return {name: probs[0] for name, probs in method.predict(volume[None]).items()}


small = st.tuples(*[st.integers(3, 11)] * 3)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(
    size=small,
    patch=st.tuples(*[st.integers(2, 8)] * 3),
    stride=st.one_of(st.none(), st.tuples(*[st.integers(1, 10)] * 3)),
    gaussian=st.booleans(),
)
def test_windows_of_any_stride_and_weight_give_the_whole_volume(size, patch, stride, gaussian):
    method = Pointwise()
    volume = torch.randn(1, *size, generator=torch.Generator().manual_seed(0))
    found = predict_volume(method, volume, patch=patch, stride=stride, gaussian=gaussian)
    assert all(shape[2:] == patch for shape in method.shapes), "a network only ever sees patches"
    assert all(shape[0] <= inference.WINDOWS_AT_ONCE for shape in method.shapes)
    for name, probs in whole(Pointwise(), volume).items():
        torch.testing.assert_close(found[name], probs, rtol=1e-4, atol=1e-6)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(size=st.integers(1, 60), patch=st.integers(1, 60), stride=st.integers(1, 80))
def test_windows_cover_every_voxel_and_stay_inside(size, patch, stride):
    size = max(size, patch)
    starts = inference._starts(size, patch, stride)
    covered = set(itertools.chain(*(range(start, start + patch) for start in starts)))
    assert covered == set(range(size))
    assert len(set(starts)) == len(starts)


def test_the_papers_stride_is_that_of_its_sliding_window():
    assert inference._starts(112, 112, 18) == [0]
    assert inference._starts(150, 112, 18) == [0, 18, 36, 38]
    assert inference._starts(88, 80, 4) == [0, 4, 8]


class Place(Pointwise):
    """The first class is more probable the nearer a voxel lies to the window's start: windows then disagree."""

    def predict(self, image):
        ramp = torch.linspace(1, 0, image.shape[2]).reshape(1, 1, -1, 1, 1).expand(len(image), 1, *image.shape[2:])
        return {"bottom": torch.cat([ramp, 1 - ramp], dim=1)}


def test_overlapping_windows_are_averaged_by_their_weight():
    # Two windows of 4 at 0 and 2 of a volume of 6: voxels 2 and 3 are seen by both.
    ramp = torch.linspace(1, 0, 4)
    volume = torch.zeros(1, 6, 1, 1)
    uniform = predict_volume(Place(), volume, patch=(4, 1, 1), stride=(2, 1, 1), gaussian=False)["bottom"][0, :, 0, 0]
    first, second = torch.cat([ramp, torch.zeros(2)]), torch.cat([torch.zeros(2), ramp])
    torch.testing.assert_close(uniform, (first + second) / torch.tensor([1.0, 1, 2, 2, 1, 1]))
    bell = inference._bell((4, 1, 1), torch.device("cpu"))[:, 0, 0]
    found = predict_volume(Place(), volume, patch=(4, 1, 1), stride=(2, 1, 1), gaussian=True)["bottom"][0, :, 0, 0]
    expected = (ramp[2] * bell[2] + ramp[0] * bell[0]) / (bell[2] + bell[0])
    assert found[2].item() == pytest.approx(expected.item(), rel=1e-5)


def test_the_bell_is_highest_in_the_middle_even_and_never_lost():
    bell = inference._bell((9, 8, 33), torch.device("cpu"))
    assert bell.shape == (9, 8, 33)
    assert bell[4, 3, 16] == bell.max()
    for axis in range(3):
        torch.testing.assert_close(bell, bell.flip(axis))
    assert bell.min() >= 1e-3
    assert bell[4, 3, 16] > 0.5


def test_a_volume_smaller_than_a_patch_is_seen_once_padded_by_its_edge():
    seen = []

    class Looks(Pointwise):
        def predict(self, image):
            seen.append(image)
            return super().predict(image)

    volume = torch.arange(6.0).reshape(1, 2, 3, 1)
    found = predict_volume(Looks(), volume, patch=(4, 3, 2))["bottom"]
    assert found.shape == (3, 2, 3, 1)
    (window,) = seen
    assert window.shape == (1, 1, 4, 3, 2)
    assert window[0, 0, :, :, 0].tolist() == [[0, 1, 2], [0, 1, 2], [3, 4, 5], [3, 4, 5]]


@pytest.mark.parametrize("count", [1, 31, 32, 33, 65])
@pytest.mark.parametrize("intensity", ["unit", "zscore"])
def test_slices_in_chunks_are_those_at_once(count, intensity):
    method = Pointwise()
    image = torch.randint(0, 256, (count, 2, 4, 4), dtype=torch.uint8)[:, :1]
    mean, std = torch.rand(count, 1) * 100, torch.rand(count, 1) * 20 + 1
    chunks = list(predict_slices(method, image, mean, std, intensity=intensity))
    assert all(len(found["bottom"]) <= inference.SLICES_AT_ONCE for _, found in chunks)
    at_once = method.predict(normalise(image, mean, std, intensity))
    for name, probs in at_once.items():
        torch.testing.assert_close(torch.cat([found[name] for _, found in chunks]), probs)
    for some, found in chunks:
        torch.testing.assert_close(found["bottom"], at_once["bottom"][some])


@pytest.mark.parametrize("intensity", ["unit", "zscore"])
def test_a_scan_of_slices_and_a_volume_are_fed_as_in_training(intensity):
    flat, deep = scan("flat", slices=40), scan("deep", dims=3, side=9)
    method = Pointwise()
    for one, patch in ((flat, None), (deep, (4, 4, 4))):
        found = probabilities(method, one, intensity=intensity, patch=patch)
        rows = torch.from_numpy(one.image if patch is None else one.image[None])
        statistics = (torch.tensor([value]).expand(len(rows), -1) for value in (one.mean, one.std))
        expected = method.predict(normalise(rows, *statistics, intensity))["bottom"]
        expected = expected.movedim(1, 0) if patch is None else expected[0]
        assert found["bottom"].shape == (3, *one.full.shape)
        torch.testing.assert_close(found["bottom"], expected, rtol=1e-4, atol=1e-5)


def test_a_network_in_double_precision_is_fed_doubles():
    method = Pointwise().double()
    found = probabilities(method, scan("flat"), intensity="unit")
    assert found["bottom"].dtype == torch.float64
    assert torch.isfinite(probabilities(method, scan("deep", dims=3), intensity="unit", patch=(8, 8, 8))["top"]).all()
