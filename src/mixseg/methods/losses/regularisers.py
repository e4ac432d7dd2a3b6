"""Losses without labels: how undecided a prediction is."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from mixseg.methods.losses.precision import at_least_float32


def entropy(logits: Tensor) -> Tensor:
    """Shannon entropy ``-sum_c p_c log p_c`` per voxel ``(B, *S)``, from 0 (certain) to ``log C`` (uniform).

    Equation 4 of the paper. Its gradient is small for undecided voxels, which other terms may then still turn.

    Args:
        logits: ``(B, C, *S)``.
    """
    log_probs = F.log_softmax(at_least_float32(logits), dim=1)
    return -(log_probs.exp() * log_probs).sum(dim=1)


def min_entropy(logits: Tensor) -> Tensor:
    """Min-entropy ``-log max_c p_c`` per voxel ``(B, *S)``: a lower bound of the Shannon entropy.

    It is the cross-entropy against the prediction's own pseudo-labels (the paper's link between entropy and
    pseudo-mask supervision), and it pushes undecided voxels hardest.

    Args:
        logits: ``(B, C, *S)``.
    """
    return -F.log_softmax(at_least_float32(logits), dim=1).amax(dim=1)
