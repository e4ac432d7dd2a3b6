"""The optimiser of a run, and its learning rate over time."""

from __future__ import annotations

import math

import torch
from torch import nn

from mixseg.runs.config import Config


def make_optimizer(method: nn.Module, config: Config) -> torch.optim.Optimizer:
    """The config's optimiser over everything that learns."""
    parameters = [parameter for parameter in method.parameters() if parameter.requires_grad]
    of = config.training
    if of.optimizer == "sgd":
        return torch.optim.SGD(parameters, of.lr, momentum=0.9, weight_decay=of.weight_decay, fused=True)
    kind = torch.optim.AdamW if of.optimizer == "adamw" else torch.optim.Adam
    return kind(parameters, of.lr, (0.9, config.ablation.beta2), weight_decay=of.weight_decay, fused=True)


def lr_factor(schedule: str, progress: float) -> float:
    """What the learning rate is multiplied by at ``progress``."""
    if schedule == "drops":
        return 1.0 if progress < 5 / 12 else 0.1 if progress < 10 / 12 else 0.01
    if schedule == "poly":
        return float((1 - progress) ** 0.9)
    if schedule == "cosine":
        return (1 + math.cos(math.pi * progress)) / 2
    return 1.0
