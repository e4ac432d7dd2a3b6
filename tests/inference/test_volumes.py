"""Sliding windows in slabs: for a network that sees one voxel at a time as if there were none, and as MONAI has it."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from made_runs import scan
from mixseg.data.intensity import normalise
from mixseg.data.padding import widen_image
from mixseg.data.scan import Scan
from mixseg.inference.predictor import maps, probabilities, slabs
from mixseg.inference.sliding_window import WINDOWS_AT_ONCE, Forward, Grey, Windows, predict_slabs
from pointwise import Neighbours, Pointwise

PLAIN = (torch.zeros(1), torch.ones(1))  # z-scores with these are the grey values themselves


def grey(size, seed=0):
    """A volume of random grey values."""
    return torch.randint(0, 256, (1, *size), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)


def by_slabs(method, image, windows, **more):
    """The probabilities of the whole volume, put together from slabs."""
    whole, seen = {}, torch.zeros(image.shape[1:])
    for place, found in predict_slabs(Forward(method, "unit"), Grey(image, *PLAIN), windows, **more):
        seen[place] += 1
        for name, probs in found.items():
            whole.setdefault(name, torch.full((len(probs), *image.shape[1:]), torch.nan))[:, *place] = probs
    assert (seen == 1).all(), "every voxel comes once"
    return whole


def at_once(method, image, windows):
    """The same with sums over the whole volume: what slabs must not differ from."""
    wide = widen_image(image, windows.patch).float() / 255
    size, weight = wide.shape[1:], windows.weight(torch.zeros(()))
    total, sums = torch.zeros(size), {}
    for i in windows.starts(size)[0]:
        for j in windows.starts(size)[1]:
            for k in windows.starts(size)[2]:
                box = tuple(slice(c, c + p) for c, p in zip((i, j, k), windows.patch, strict=True))
                total[box] += weight
                for name, probs in method.predict(wide[:, *box][None]).items():
                    sums.setdefault(name, torch.zeros(3, *size))[:, *box] += probs[0] * weight
    crop = [(max(0, p - n) // 2, n) for n, p in zip(image.shape[1:], windows.patch, strict=True)]
    inner = tuple(slice(start, start + n) for start, n in crop)
    return {name: (each / total)[:, *inner] for name, each in sums.items()}


small = st.tuples(*[st.integers(3, 11)] * 3)
covers = st.builds(
    Windows,
    patch=st.tuples(*[st.integers(2, 8)] * 3),
    stride=st.one_of(st.none(), st.tuples(*[st.integers(1, 10)] * 3)),
    weights=st.sampled_from(["gaussian", "uniform"]),
)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(size=small, windows=covers)
def test_windows_of_any_stride_and_weight_give_the_whole_volume(size, windows):
    method, image = Pointwise(), grey(size)
    found = by_slabs(method, image, windows)
    assert all(shape[2:] == windows.patch for shape in method.shapes), "a network only ever sees patches"
    assert all(shape[0] <= WINDOWS_AT_ONCE for shape in method.shapes)
    for name, probs in method.predict(image[None] / 255).items():
        torch.testing.assert_close(found[name], probs[0], rtol=1e-4, atol=1e-6)


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(size=small, windows=covers)
def test_slabs_answer_as_sums_over_the_whole_volume_do(size, windows):
    method, image = Neighbours(), grey(size)
    found, expected = by_slabs(method, image, windows), at_once(method, image, windows)
    for name, probs in expected.items():
        torch.testing.assert_close(found[name], probs, rtol=1e-4, atol=1e-5)


SHAPES = [(20, 20, 20), (5, 7, 6), (6, 30, 9), (33, 17, 5), (40, 8, 8), (9, 9, 41)]


@pytest.mark.parametrize("size", SHAPES, ids=str)
@pytest.mark.parametrize("weights", ["gaussian", "uniform"])
def test_label_maps_by_slabs_are_those_of_the_whole_volume(size, weights):
    method, image, windows = Neighbours(), grey(size), Windows((8, 8, 8), (4, 3, 5), weights)
    labels = maps(slabs(Forward(method, "unit"), Scan("a", image.numpy()), windows), size).labels
    for name, probs in at_once(method, image, windows).items():
        first, second = probs.topk(2, dim=0).values
        clear = first - second > 1e-5  # where two classes are equal but for rounding, either will do
        assert clear.float().mean() > 0.99
        assert torch.equal(torch.from_numpy(labels[name])[clear], probs.argmax(dim=0)[clear].byte())


@pytest.mark.parametrize("size", [(24, 24, 24), (32, 16, 24), (16, 40, 16), (16, 16, 16)], ids=str)
@pytest.mark.parametrize(("weights", "mode"), [("uniform", "constant"), ("gaussian", "gaussian")])
def test_a_volume_is_answered_as_by_monai(size, weights, mode):
    # Sizes at which both put their windows at the same places: MONAI moves the last one back, as we do.
    from monai.inferers.utils import sliding_window_inference

    method, image = Neighbours(), grey(size)
    expected = sliding_window_inference(
        image[None] / 255, 16, sw_batch_size=3, predictor=method.predict, overlap=0.5, mode=mode, sigma_scale=0.125
    )
    found = by_slabs(method, image, Windows((16, 16, 16), weights=weights))
    for name, probs in expected.items():
        torch.testing.assert_close(found[name], probs[0], rtol=1e-4, atol=1e-5)


class Resources(Pointwise):
    """The first class is more probable the nearer a voxel lies to the window's start: windows then disagree."""

    def predict(self, image, outputs=()):
        ramp = torch.linspace(1, 0, image.shape[2]).reshape(1, 1, -1, 1, 1).expand(len(image), 1, *image.shape[2:])
        return {"bottom": torch.cat([ramp, 1 - ramp], dim=1)}


def test_overlapping_windows_are_averaged_by_their_weight():
    # Two windows of 4 at 0 and 2 of a volume of 6: voxels 2 and 3 are seen by both.
    ramp, image = torch.linspace(1, 0, 4), grey((6, 1, 1))
    uniform = by_slabs(Resources(), image, Windows((4, 1, 1), (2, 1, 1), "uniform"))["bottom"][0, :, 0, 0]
    first, second = torch.cat([ramp, torch.zeros(2)]), torch.cat([torch.zeros(2), ramp])
    torch.testing.assert_close(uniform, (first + second) / torch.tensor([1.0, 1, 2, 2, 1, 1]))
    windows = Windows((4, 1, 1), (2, 1, 1))
    bell = windows.weight(ramp)[:, 0, 0]
    found = by_slabs(Resources(), image, windows)["bottom"][0, :, 0, 0]
    expected = (ramp[2] * bell[2] + ramp[0] * bell[0]) / (bell[2] + bell[0])
    assert found[2].item() == pytest.approx(expected.item(), rel=1e-5)


def test_a_volume_smaller_than_a_patch_is_seen_once_with_its_edge_repeated():
    seen = []

    class Looks(Pointwise):
        def predict(self, image, outputs=()):
            seen.append(image)
            return super().predict(image, outputs)

    image = torch.arange(6, dtype=torch.uint8).reshape(1, 2, 3, 1)
    found = by_slabs(Looks(), image, Windows((4, 3, 2)))["bottom"]
    assert found.shape == (3, 2, 3, 1)
    (window,) = seen
    assert window.shape == (1, 1, 4, 3, 2)
    assert (255 * window[0, 0, :, :, 0]).round().tolist() == [[0, 1, 2], [0, 1, 2], [3, 4, 5], [3, 4, 5]]


def test_sums_are_held_for_one_slab_and_the_wanted_outputs_alone():
    image, windows = grey((8, 8, 96)), Windows((8, 8, 8))
    places = set()
    for _, found in predict_slabs(Forward(Pointwise(), "unit", ["top"]), Grey(image, *PLAIN), windows):
        assert set(found) == {"top"}
        held = found["top"].untyped_storage()
        assert held.nbytes() == 4 * 3 * 8 * 8 * 8, "a float for each class and voxel of a slab"
        places.add(held.data_ptr())
    assert len(places) == 1, "of one and the same slab"


def test_how_far_it_is_is_told_window_by_window():
    told = []
    by_slabs(Pointwise(), grey((8, 8, 20)), Windows((8, 8, 8)), on_progress=lambda *far: told.append(far))
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.parametrize("intensity", ["unit", "zscore"])
@pytest.mark.parametrize("dims", [2, 3])
def test_a_scan_is_fed_as_in_training(intensity, dims):
    one = scan("flat", slices=40) if dims == 2 else scan("deep", dims=3, side=9)
    method, windows = Pointwise(), None if dims == 2 else Windows((4, 4, 4))
    rows = torch.from_numpy(one.image if dims == 2 else one.image[None])
    statistics = (torch.tensor([value]).expand(len(rows), -1) for value in (one.mean, one.std))
    expected = {name: probs.movedim(1, 0) if dims == 2 else probs[0] for name, probs in method.predict(
        normalise(rows, *statistics, intensity)).items()}  # fmt: skip
    found = probabilities(slabs(Forward(method, intensity), one, windows), one.full.shape)
    for name, probs in expected.items():
        torch.testing.assert_close(found[name], probs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dims", [2, 3])
def test_maps_are_those_of_the_probabilities(dims):
    one = scan("flat", slices=40) if dims == 2 else scan("deep", dims=3, side=9)
    method, windows = Pointwise(), None if dims == 2 else Windows((4, 4, 4))

    def found(*outputs):
        return slabs(Forward(method, "unit", outputs), one, windows)

    whole, kept = probabilities(found(), one.full.shape), maps(found(), one.full.shape, confidence=True)
    assert list(kept.labels) == ["bottom", "top"]
    for name, labels in kept.labels.items():
        assert torch.equal(torch.from_numpy(labels), whole[name].argmax(dim=0).byte())
    entropy = -(whole["bottom"] * whole["bottom"].log()).sum(dim=0) / torch.tensor(3.0).log()
    assert (torch.from_numpy(kept.entropy).float() - 255 * entropy).abs().max() <= 0.51
    assert (torch.from_numpy(kept.foreground).float() - 255 * (1 - whole["bottom"][0])).abs().max() <= 0.51
    assert list(maps(found("top"), one.full.shape).labels) == ["top"]
    assert maps(found(), one.full.shape).entropy is None


def test_a_network_in_double_precision_is_fed_doubles():
    method = Pointwise().double()
    for one, windows in ((scan("flat"), None), (scan("deep", dims=3), Windows((8, 8, 8)))):
        found = probabilities(slabs(Forward(method, "unit"), one, windows), one.full.shape)
        assert found["bottom"].dtype == torch.float64
        assert found["bottom"].isfinite().all()
