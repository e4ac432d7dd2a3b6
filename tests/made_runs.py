"""Scans of bright discs and configs of networks that learn them in seconds: what the tests of training run on.

The subprocesses of the tests import this file too.
"""

import json

import numpy as np
import torch

from mixseg.core.types import IGNORE
from mixseg.data.scan import Scan
from mixseg.data.supervision import Data
from mixseg.runs.config import make_config
from mixseg.runs.log import read_log

CLASSES = ("background", "disc")


def scan(name, *, kind="full", slices=4, side=16, seed=0, dims=2, sparse=False):
    """A scan with one disc a slice (a ball, in 3D); its partial labels are a core and a rim, or a lone voxel."""
    rng = np.random.default_rng([seed, len(name), *name.encode()])
    shape = (side,) * dims
    grid = np.stack(np.meshgrid(*[np.arange(n) for n in shape], indexing="ij"))
    count = slices if dims == 2 else 1
    centre = side * rng.uniform(0.35, 0.65, (count, dims, *[1] * dims))
    distance = np.sqrt(((grid - centre) ** 2).sum(axis=1)) / side
    mask = (distance < 0.25).astype(np.uint8)
    image = np.clip(60 + 120 * mask + rng.normal(0, 25, mask.shape), 0, 255).astype(np.uint8)
    core = np.where(distance < 0.12, mask, IGNORE).astype(np.uint8)
    core[..., 0] = 0  # some background too
    if sparse:
        core[:, 1:] = IGNORE
        core[..., 1:] = IGNORE
    if dims == 2:
        image = image[:, None]
    else:
        mask, core = mask[0], core[0]
    return Scan(
        name,
        image,
        full=mask if kind == "full" else None,
        partial=None if kind == "unlabeled" else core,
        mean=(float(image.mean()),),
        std=(float(image.std()),),
    )


def data(*, full=2, partial=3, unlabeled=0, val=2, dims=2, uneven=False, **size):
    """A tiny dataset with so many scans of each kind; ``uneven`` leaves every other partial label almost empty."""
    return Data(
        classes=CLASSES,
        train={
            kind: [
                scan(f"{kind}{i}", kind=kind, dims=dims, sparse=uneven and kind == "partial" and i % 2 == 0, **size)
                for i in range(count)
            ]
            for kind, count in (("full", full), ("partial", partial), ("unlabeled", unlabeled))
        },
        val=[scan(f"val{i}", dims=dims, **size) for i in range(val)],
        open_test=lambda: [scan("test0", dims=dims, **size)],
        hash="made",
        protocol={"full": [f"full{i}" for i in range(full)]},
    )


def config(**changes):
    """A run of a few steps on a U-Net of width 4 and depth 2."""
    small = {
        "preset": "quick",
        "schedule": "constant",
        "steps": 20,
        "size": [16, 16],
        "width": 4,
        "depth": 2,
        "lr": 1e-2,
        "precision": "fp32",
        "batch": {"full": 2, "partial": 2},
        "validate_every": 5,
    }
    if changes.get("dims") == 3:
        small |= {"network": "unet", "patch": [8, 8, 8]}
    return make_config(**{**small, **changes})


def checkpoint(path):
    """What a checkpoint holds."""
    return torch.load(path, weights_only=True)


def log_of(folder):
    """The log, nan as text so that entries can be compared."""
    return [json.dumps(entry, sort_keys=True) for entry in read_log(folder / "log.jsonl")]


def differences(one, other, where=""):
    """The places at which two nested contents are not bit-equal."""
    if isinstance(one, torch.Tensor):
        return [] if torch.equal(one, other) else [where]
    if isinstance(one, dict):
        if one.keys() != other.keys():
            return [f"{where}: keys"]
        return [found for key in one for found in differences(one[key], other[key], f"{where}/{key}")]
    if isinstance(one, list | tuple):
        if len(one) != len(other):
            return [f"{where}: length"]
        return [
            found
            for i, (a, b) in enumerate(zip(one, other, strict=True))
            for found in differences(a, b, f"{where}/{i}")
        ]
    return [] if one == other else [where]
