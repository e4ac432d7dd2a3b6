"""The ReLU of all networks: one function, written in the way that suits who runs it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ReLU(nn.Module):
    """``max(x, 0)``; of what is nan, nan.

    Torch takes the gradient from the sign of the output. A compiler would have to read that map again, beside the input
    of the normalisation before it, which it reads anyway and which has the same sign in it: so there the sign is the
    input's.
    """

    def forward(self, feature: Tensor) -> Tensor:
        """In place where nothing is compiled."""
        if torch.compiler.is_compiling():
            return torch.where(feature <= 0, 0.0, feature)
        return F.relu_(feature)
