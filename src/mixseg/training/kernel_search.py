"""cuDNN's search for the fastest kernels of a backward pass, begun while the method is still being compiled.

The search takes seconds of the GPU, the compilation as many of the host. cuDNN remembers what it found by thread, and
gradients are computed in a thread of autograd's own: that is where the search is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from threading import Thread
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from mixseg.networks import Network


@dataclass(frozen=True)
class Convolution:
    """The shapes by which cuDNN knows a convolution, and torch's arguments from the stride to the groups."""

    image: tuple[int, ...]
    weight: tuple[int, ...]
    made: tuple[int, ...]
    geometry: tuple[Any, ...]


def search_beside(
    method: nn.Module,
    images: Collection[torch.Size],
    *,
    device: torch.device,
    dtype: torch.dtype,
    layout: torch.memory_format,
) -> Thread:
    """Have the backward convolutions of the method's networks searched for, on images of these shapes, in a thread.

    A method that joins images to other batches than these searches for the rest itself, in its first step.
    """

    def search() -> None:
        with suppress(RuntimeError):  # no room, say: what is not found here is searched for when it is needed
            search_backward(convolutions_of(method, images), device=device, dtype=dtype, layout=layout)

    thread = Thread(target=search, name="kernel search", daemon=True)
    thread.start()
    return thread


def convolutions_of(method: nn.Module, images: Collection[torch.Size]) -> list[Convolution]:
    """The different convolutions of every network that learns, on images of these shapes; nothing is computed."""
    seen = _Seen()
    for network in (module for module in method.modules() if isinstance(module, Network)):
        if any(parameter.requires_grad for parameter in network.parameters()):
            shadow = deepcopy(network).eval().to("meta")
            with torch.no_grad(), seen:
                for shape in images:
                    shadow(torch.empty(shape, device="meta"))
    return list(dict.fromkeys(seen.convolutions))


def search_backward(
    convolutions: Sequence[Convolution], *, device: torch.device, dtype: torch.dtype, layout: torch.memory_format
) -> None:
    """Compute the gradients of each convolution once, in the thread that computes gradients on ``device``."""

    def empty(shape: Sequence[int]) -> Tensor:
        return torch.empty(*shape, device=device, dtype=dtype, memory_format=layout)

    def differentiate() -> None:
        for each in convolutions:
            gradient, image, weight = empty(each.made), empty(each.image), empty(each.weight)
            wanted = [True, True, False]  # cuDNN takes no part in the gradient of a bias
            torch.ops.aten.convolution_backward(gradient, image, weight, None, *each.geometry, wanted)

    trigger = torch.zeros((), device=device, requires_grad=True)
    _InAutograd.apply(trigger, differentiate).backward()  # type: ignore[no-untyped-call]


class _Seen(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the convolutions of this thread."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.convolutions: list[Convolution] = []

    def __torch_dispatch__(
        self,
        func: Callable[..., Tensor],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Tensor:
        made = func(*args, **(kwargs or {}))
        if func is torch.ops.aten.convolution.default:
            image, weight, _, *geometry = args
            fixed = tuple(tuple(each) if isinstance(each, list) else each for each in geometry)
            self.convolutions.append(Convolution(tuple(image.shape), tuple(weight.shape), tuple(made.shape), fixed))
        return made


class _InAutograd(torch.autograd.Function):
    """Calls a function where gradients are computed."""

    @staticmethod
    def forward(ctx: Any, trigger: Tensor, call: Callable[[], None]) -> Tensor:  # noqa: ANN401 - torch's own type
        ctx.call = call
        return trigger.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401
        ctx.call()
        return gradient, None
