"""The method of a config: fresh, or trained by a run; and what it answers for one scan."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric

from mixseg.checkpoint import load_weights
from mixseg.config import Config
from mixseg.data.batches import Scan
from mixseg.engine import evaluating
from mixseg.folder import RunFolder
from mixseg.inference import probabilities
from mixseg.methods import Method, MethodOptions, make_method
from mixseg.networks import Network, make_network

NETWORK_KEYS = ("width", "depth", "dims", "norm", "geometry", "dropout", "init")
"""Keys of a config that a network is built with."""


def build(config: Config, *, channels: int, classes: int) -> Method:
    """The freshly initialised method of ``config``; the seed alone decides its weights."""
    shape = {key: getattr(config, key) for key in NETWORK_KEYS}

    def network(branches: int) -> Network:
        return make_network(config.network, in_channels=channels, classes=classes, branches=branches, **shape)

    options = MethodOptions(**{key.name: getattr(config, key.name) for key in fields(MethodOptions)})
    torch.manual_seed(config.seed)
    return make_method(config.method, network, config.weights, options)


def load(run: RunFolder, *, channels: int, classes: int, checkpoint: str = "last") -> Method:
    """The trained method of a run, in evaluation mode on the CPU."""
    method = build(run.config, channels=channels, classes=classes)
    load_weights(method, run.path / f"{checkpoint}.pt")
    return method.eval()


def predict_labels(
    method: Method, scan: Scan, config: Config, fabric: Fabric
) -> dict[str, np.ndarray[Any, np.dtype[np.uint8]]]:
    """The label map of each output for one scan on the training grid."""
    found = predict_probabilities(method, scan, config, fabric)
    return {name: probs.argmax(dim=0).to(torch.uint8).cpu().numpy() for name, probs in found.items()}


def predict_probabilities(method: Method, scan: Scan, config: Config, fabric: Fabric) -> dict[str, torch.Tensor]:
    """The class probabilities ``(classes, *grid)`` of each output for one scan on the training grid."""
    patch = config.patch if config.dims == 3 else None
    with evaluating(method, fabric):
        return probabilities(method, scan, intensity=config.intensity, patch=patch)
