"""The method of a config: fresh, or trained by a run."""

from __future__ import annotations

from typing import NamedTuple

import torch

from mixseg.methods import Method, MethodOptions, make_method
from mixseg.networks import Network, make_network
from mixseg.runs.checkpoint import load_weights
from mixseg.runs.config import Config
from mixseg.runs.folder import RunFolder


class Trained(NamedTuple):
    """A method with the weights of a run's ``checkpoint``, "best" or "last", which was made at ``step``."""

    method: Method
    checkpoint: str
    step: int


def build(config: Config, *, channels: int, classes: int) -> Method:
    """The freshly initialised method of ``config``; the seed alone decides its weights."""
    chosen, ablation = config.network, config.ablation

    def network(branches: int) -> Network:
        return make_network(
            chosen.name,
            in_channels=channels,
            classes=classes,
            branches=branches,
            width=chosen.width,
            depth=chosen.depth,
            dims=config.data.dims,
            norm=chosen.norm,
            geometry=ablation.geometry,
            dropout=chosen.dropout,
            deep=ablation.deep,
        )

    torch.manual_seed(config.training.seed)
    return make_method(config.method.name, network, config.method.weights, MethodOptions(config.method, ablation))


def load(run: RunFolder, *, channels: int, classes: int, checkpoint: str | None = "last") -> Trained:
    """The method that a run trained, in evaluation mode on the CPU; None is the best checkpoint if there is one."""
    method = build(run.config, channels=channels, classes=classes)
    chosen = checkpoint or ("best" if (run.path / "best.pt").exists() else "last")
    step = load_weights(method, run.path / f"{chosen}.pt")
    return Trained(method.eval(), chosen, step)
