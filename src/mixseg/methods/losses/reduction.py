"""From a value per voxel to a scalar: means over the voxels that count."""

from __future__ import annotations

import torch
from torch import Tensor

from mixseg.methods.losses.precision import at_least_float32


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
