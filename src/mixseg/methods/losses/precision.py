"""Losses are computed in float32 or better, whatever precision the network runs in."""

from __future__ import annotations

import torch
from torch import Tensor


def at_least_float32(values: Tensor) -> Tensor:
    """``values`` in float32 if they are in half precision, else as they are.

    Each loss begins with this cast. Its logarithms and exponentials then stay in float32 under autocast too, which
    lowers the precision of matrix products and convolutions only.
    """
    return values.to(torch.promote_types(values.dtype, torch.float32))
