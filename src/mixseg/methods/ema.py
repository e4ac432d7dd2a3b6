"""A teacher that follows its student: the moving average of a network's weights."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from mixseg.methods.losses.terms import at_least_float32
from mixseg.networks import Network


class EMATeacher(nn.Module):
    """Image -> class probabilities of the averaged network, never with gradients.

    Only the parameters are averaged. The buffers of a BatchNorm are the teacher's own: it is in training mode while
    its student trains (``method.train()``), so its batches fill them, and ``predict`` in evaluation mode reads them.

    Args:
        student: The network with one branch to start from; it is copied, and shares no storage with the teacher.
    """

    def __init__(self, student: Network) -> None:
        super().__init__()
        self.network = deepcopy(student).requires_grad_(False)

    @torch.no_grad()
    def forward(self, image: Tensor) -> Tensor:
        """Probabilities ``(B, classes, *S)`` for ``(B, channels, *S)`` images."""
        return probabilities(self.network, image)

    @torch.no_grad()
    def ensemble(self, image: Tensor) -> Tensor:
        """The mean ``(B, classes, *S)`` of the probabilities of all branches."""
        probs = [at_least_float32(logits).softmax(dim=1) for logits in self.network(image)]
        return torch.stack(probs).mean(dim=0)

    @torch.no_grad()
    def follow(self, student: nn.Module, decay: float) -> None:
        """``teacher = decay * teacher + (1 - decay) * student``, for the parameters alone."""
        own, others = list(self.network.parameters()), list(student.parameters())
        get_ema_multi_avg_fn(decay)(own, others, None)  # type: ignore[no-untyped-call]

    @torch.no_grad()
    def take_statistics(self, student: nn.Module) -> None:
        """Copy the running statistics of the student's batches, for a teacher that is always in evaluation mode."""
        for own, other in zip(self.network.buffers(), student.buffers(), strict=True):
            own.copy_(other)


def probabilities(network: Network, image: Tensor) -> Tensor:
    """The softmax ``(B, classes, *S)`` of the network's first branch, in float32 or better."""
    logits = network.decode(network.encode(image), 0)
    return at_least_float32(logits).softmax(dim=1)
