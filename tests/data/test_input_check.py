"""Which images are unlike those of a training: closed forms, and what must and must not be remarked."""

import numpy as np
import pytest

from made_runs import scan
from mixseg.data.arrays import make_scan
from mixseg.data.input_check import MOST, measure, ranges, remarks
from mixseg.data.prepare.grid import scan_on_grid
from mixseg.data.prepare.options import PrepareOptions
from mixseg.data.scan import Scan


def of_grey(image):
    """A scan on the training grid, as a store would give it."""
    return Scan("a", image, mean=(float(image.mean()),), std=(float(image.std()),))


def on_grid(voxels, spacing, dims=3):
    """An array as a prediction brings it to a grid of its own size."""
    native = make_scan("x", voxels, spacing=spacing)
    options = PrepareOptions(dims=dims, size=None, partial="none")
    return scan_on_grid(native, options)


def test_a_checkerboard_is_as_rough_as_can_be_and_a_ramp_hardly():
    i, j = np.indices((6, 8))
    board = np.broadcast_to((i + j) % 2 * 200, (3, 1, 6, 8)).astype(np.uint8)
    assert measure(of_grey(board)) == {"grey": 100.0, "contrast": 100.0, "roughness": 2.0}
    ramp = np.broadcast_to(j * 10, (3, 1, 6, 8)).astype(np.uint8)
    assert measure(of_grey(ramp))["roughness"] == pytest.approx((10 + 0) / 2 / ramp.std(), abs=1e-4)


def test_independent_noise_has_the_roughness_of_its_distribution():
    noise = np.random.default_rng(0).integers(0, 256, (1, 40, 64, 64)).astype(np.uint8)
    # The mean distance of two uniform draws is a third of the range, the standard deviation 1 / sqrt(12) of it.
    assert measure(of_grey(noise))["roughness"] == pytest.approx(np.sqrt(12) / 3, rel=0.01)


def test_ranges_are_those_of_the_scans_and_of_many_some_are_measured():
    scans = [scan(f"s{number}", seed=number) for number in range(MOST + 5)]
    every = [measure(each) for each in scans[:3]]
    assert ranges(scans[:3]) == {
        name: [min(each[name] for each in every), max(each[name] for each in every)] for name in every[0]
    }
    of_some = ranges(scans)
    assert all(low < high for low, high in of_some.values())
    assert ranges([]) == {}


def smooth(seed, shape=(40, 36, 20)):
    """Something that looks like anatomy: broad waves on air."""
    rng = np.random.default_rng(seed)
    grid = np.stack(np.meshgrid(*[np.linspace(0, 6, n) for n in shape], indexing="ij"))
    waves = np.sin(grid + rng.uniform(0, 1, (3, 1, 1, 1))).sum(axis=0)
    return (100 * np.maximum(waves, 0) + rng.normal(0, 3, shape)).astype(np.float32)


def test_others_of_the_kind_pass_and_noise_coarse_and_small_ones_are_remarked():
    known = ranges([on_grid(smooth(seed), (1.0, 1.1, 2.0)) for seed in range(4)])
    for seed in range(4, 8):
        assert remarks(on_grid(smooth(seed), (1.1, 1.2, 2.4)), known) == []
    noise = np.random.default_rng(9).normal(0, 300, (40, 36, 20)).astype(np.float32)
    wrong = {
        "differ": on_grid(noise, (1.0, 1.1, 2.0)),
        "voxel side": on_grid(smooth(4), (10.0, 11.0, 20.0)),
        "longest side": on_grid(smooth(4, (12, 12, 8)), (1.0, 1.1, 2.0)),
    }
    for word, one in wrong.items():
        (said,) = remarks(one, known)
        assert word in said
        assert said.startswith("x ")


def test_runs_that_hold_no_ranges_and_sizes_that_are_not_known_say_nothing():
    one = on_grid(smooth(0), (10.0, 10.0, 10.0))
    assert remarks(one, {}) == []
    unknown = on_grid(smooth(0), None)
    assert not {name for name in measure(unknown) if "spacing" in name}
    assert remarks(unknown, ranges([one])) == []
