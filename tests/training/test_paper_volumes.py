"""The paper's protocol in 3D, which is that of UA-MT: settings, patches, learning rates, and the scans at hand."""

import json

import numpy as np
import pytest
import torch

from mixseg.cli import main
from mixseg.data.augment import AUGMENTATIONS
from mixseg.data.batches import Feed
from mixseg.data.scan import Scan
from mixseg.runs.build import build
from mixseg.runs.config import make_config
from mixseg.training.step import lr_factor, make_optimizer

PAPER = {"preset": "paper", "dims": 3}


def test_the_settings_are_those_of_the_protocol():
    config = make_config(**PAPER)
    assert (config.network.name, config.data.intensity, config.data.patch, config.training.steps) == (
        "vnet",
        "zscore",
        (112, 112, 80),
        6000,
    )
    assert (config.training.optimizer, config.training.lr, config.training.weight_decay, config.training.schedule) == (
        "sgd",
        1e-2,
        1e-4,
        "drops",
    )
    assert (config.training.augment, config.data.partial) == ("paper-3d", "erosion-10x10")
    assert (config.inference.window, config.inference.stride) == ("uniform", (18, 18, 4))
    sizes = {
        name: make_config(method=name, **PAPER).training.batch for name in ("kl-ent", "lower-bound", "upper-bound")
    }
    assert [(batch.full, batch.partial) for batch in sizes.values()] == [(4, 8), (4, 0), (12, 0)]


def test_the_rate_falls_to_a_tenth_at_step_2500_and_at_5000():
    config = make_config(**PAPER)
    rates = {
        step: config.training.lr * lr_factor(config.training.schedule, step / config.training.steps)
        for step in (0, 2499, 2500, 4999, 5000)
    }
    assert rates == pytest.approx({0: 1e-2, 2499: 1e-2, 2500: 1e-3, 4999: 1e-3, 5000: 1e-4})
    (group,) = make_optimizer(build(config, channels=1, classes=2), config).param_groups
    assert (group["lr"], group["momentum"], group["weight_decay"]) == (1e-2, 0.9, 1e-4)


def test_the_network_has_the_parameters_of_the_protocols_v_net():
    counts = {
        method: sum(p.numel() for p in build(make_config(method=method, **PAPER), channels=1, classes=2).parameters())
        for method in ("lower-bound", "kl-ent")
    }
    assert counts == {"lower-bound": 9_448_866, "kl-ent": 11_258_308}


def test_patches_are_z_scored_crops_turned_and_flipped_in_plane():
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (1, 20, 20, 14), np.uint8)
    full = (np.arange(20 * 20 * 14).reshape(20, 20, 14) % 5).astype(np.uint8)
    scan = Scan("a", image, full, mean=(float(image.mean()),), std=(float(image.std()),))
    config = make_config(**PAPER, patch=[12, 12, 10])
    feed = Feed(
        {"full": [scan]},
        {"full": 8},
        grid=config.data.grid,
        seed=0,
        intensity=config.data.intensity,
        augmentation=AUGMENTATIONS[config.training.augment],
        device=torch.device("cpu"),
    )
    scored = (image[0] - image.mean()) / image.std()
    changes = set()
    for step in range(12):
        part = feed(step).full
        for row, labels, (_, corner) in zip(part.image, part.full, feed.streams["full"].corners(step), strict=True):
            box = tuple(slice(c, c + n) for c, n in zip(corner, config.data.patch, strict=True))
            # Up to three quarter turns of the first two axes, then a flip along one of them.
            found = [
                (turns, axis)
                for turns in range(4)
                for axis in (0, 1)
                if np.allclose(np.flip(np.rot90(scored[box], turns), axis), row[0], atol=1e-4)
            ]
            assert found
            turns, axis = found[0]
            assert np.array_equal(np.flip(np.rot90(full[box], turns), axis), labels), "labels follow their image"
            changes.add(found[0])
    # A flip of one axis is that of the other after a half turn: eight pairs are four different pictures.
    assert len(changes) == 4


@pytest.mark.real
def test_the_real_atria_are_too_few_for_set_10_which_is_said_before_they_are_prepared(real_data, tmp_path, capsys):
    words = ["train", str(real_data / "la"), "--out", str(tmp_path / "run"), "--preset", "paper", "--set", "dims=3"]
    words += ["--set", "set=10", "--set", f"split={json.dumps(str(real_data / 'splits.json'))}"]
    assert main(words) == 4
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said == (
        "not enough scans: Set-10 takes 10 fully and 50 partially labelled patients, 60 in all, and the split has 30 "
        "train patients."
    )
    assert not (tmp_path / ".prepared").exists()
