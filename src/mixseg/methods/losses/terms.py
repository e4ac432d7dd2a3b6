"""What terms of a loss are made of: a value per voxel ``(B, *S)``, with or without labels, and means of them.

An unlabeled voxel is IGNORE, so full, partial and absent labels are one case.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from mixseg.core.types import IGNORE


def at_least_float32(values: Tensor) -> Tensor:
    """``values`` in float32 if they are in half precision, else as they are.

    Each loss begins with this cast. Its logarithms and exponentials then stay in float32 under autocast too, which
    lowers the precision of matrix products and convolutions only.
    """
    return values.to(torch.promote_types(values.dtype, torch.float32))


def labelled_mean(values: Tensor, mask: Tensor, *, count: Tensor | None = None) -> Tensor:
    """The mean of ``values`` where ``mask`` is true, and 0 with zero gradients where it is true nowhere.

    Args:
        values: A loss per voxel, ``(B, *S)``.
        mask: The voxels that count, bool of the same shape; ``label != IGNORE`` as a rule.
        count: What to divide by, if not the number of true voxels. Several processes that average their gradients
            get the mean over the voxels of all of them with ``count`` = the average over the processes of
            ``masked_sum_and_count(values, mask)[1]``.
    """
    total, here = masked_sum_and_count(values, mask)
    divisor = here if count is None else count
    return total / torch.where(divisor > 0, divisor, 1)


def masked_sum_and_count(values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The sum of ``values`` where ``mask`` is true, and how many those are: both can be added up over processes."""
    values = at_least_float32(values)
    # Not a product with the mask: a value that is not finite would survive it as nan.
    total = torch.where(mask, values, 0).sum()
    return total, mask.sum().to(total.dtype)


def cross_entropy(logits: Tensor, label: Tensor) -> Tensor:
    """``-log p[label]`` per voxel ``(B, *S)``, and 0 where the label is IGNORE.

    Equations 1 and 2 of the paper: the same function for full masks, scribbles and foreground-only labels. The mean
    over the labelled voxels is ``labelled_mean(cross_entropy(logits, label), label != IGNORE)``.

    Args:
        logits: ``(B, C, *S)``.
        label: ``(B, *S)`` class indices or IGNORE, of any integer type.
    """
    return F.cross_entropy(at_least_float32(logits), label.long(), ignore_index=IGNORE, reduction="none")


def soft_dice(probs: Tensor, label: Tensor, *, smoothing: float = 1e-5) -> Tensor:
    """One minus the soft Dice coefficient of each class ``(C,)``, over the labelled voxels of the whole batch.

    ``1 - (2 sum p y + smoothing) / (sum p^2 + sum y + smoothing)``; a class that is neither there nor predicted gives
    0. This is the one loss without a value per voxel: take ``soft_dice(...)[1:].mean()`` to leave out the background.

    Args:
        probs: ``(B, C, *S)`` probabilities.
        label: ``(B, *S)`` class indices or IGNORE, of any integer type.
        smoothing: Keeps the quotient defined where a class is absent.
    """
    return dice_of_sums(*dice_sums(probs, label), smoothing=smoothing)


def dice_of_sums(twice_overlap: Tensor, sizes: Tensor, *, smoothing: float = 1e-5) -> Tensor:
    """``soft_dice`` from the sums of all the voxels that it is about."""
    return 1 - (twice_overlap + smoothing) / (sizes + smoothing)


def dice_sums(probs: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
    """``2 sum p y`` and ``sum p^2 + sum y`` of each class ``(C,)``: both can be added up over processes."""
    probs = at_least_float32(probs)
    labelled = (label != IGNORE).unsqueeze(1)
    classes = torch.arange(probs.shape[1], device=probs.device).reshape(-1, *[1] * (probs.ndim - 2))
    truth = (label.unsqueeze(1) == classes).to(probs.dtype)
    seen = torch.where(labelled, probs, 0)
    voxels = [axis for axis in range(probs.ndim) if axis != 1]
    return 2 * (seen * truth).sum(voxels), (seen**2 + truth).sum(voxels)


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
