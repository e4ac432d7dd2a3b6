"""Biases that a normalisation takes out again: kept, since the paper counts them, but left out by a training on a GPU.

Whatever such a bias is, the output is the same and its gradient is 0 but for rounding. To add it and to sum up its
gradient takes passes over whole maps all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import torch
from torch import Tensor, nn

from mixseg.networks.instance_norm import InstanceNorm
from mixseg.networks.layers import Conv2d, Conv3d

TAKE_OUT = (nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm, InstanceNorm)


def drop_idle_biases(module: nn.Module) -> None:
    """Compute ``module`` without the biases that do nothing; what it answers stays the same."""
    for layer, bias, _ in _idle(module):
        bias.requires_grad_(False)
        layer.idle = True
    fold_idle_biases(module)
    # Weights of a run that was begun without a GPU hold some.
    module.register_load_state_dict_post_hook(_fold_loaded)  # type: ignore[no-untyped-call]


@torch.no_grad()
def fold_idle_biases(module: nn.Module) -> None:
    """Make the biases that are left out 0, and the running means of their normalisations that much lower."""
    for layer, bias, normalisation in _idle(module):
        if not layer.idle:
            continue
        mean = getattr(normalisation, "running_mean", None)
        if mean is not None:
            mean.sub_(bias)
        bias.zero_()


def _fold_loaded(module: nn.Module, _: object) -> None:
    fold_idle_biases(module)


def _idle(module: nn.Module) -> Iterator[tuple[Conv2d | Conv3d, Tensor, nn.Module]]:
    """Convolutions that may leave out their bias, each with it and the normalisation that takes it out again."""
    for block in (part for part in module.modules() if isinstance(part, nn.Sequential)):
        for layer, following in pairwise(block):
            if isinstance(layer, Conv2d | Conv3d) and isinstance(following, TAKE_OUT) and layer.bias is not None:
                yield layer, layer.bias, following
