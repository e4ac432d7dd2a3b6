"""What a training step cannot beat: an arithmetic and an attainable floor, from ceilings measured in the same run.

Arithmetic: the FLOP of the step over the rate of a large matrix product in the run's precision.
Attainable: each convolution timed by itself at its real shape, forward, backward-data and backward-weight, in the
better of the two memory layouts, with the kernel that cuDNN finds fastest and without what the host takes to launch it,
plus the bytes that the layers between them and the optimizer must move over the bandwidth of a large copy, plus the
FLOP of a method's other products, where it has any, over the rate of the matrix product.

Passes assumed over each tensor, with perfect fusion of everything elementwise and nothing fused into a convolution
(whose own reads and writes are in its time):

- normalisation with its ReLU and any dropout: forward 3 (read for the statistics; read, write), 2 without statistics;
  backward 5 (read gradient and input for the two sums; read both, write);
- max pooling: input and output once forward, once backward; the indices are left out;
- a concatenated skip: read and write both halves forward, nothing backward (gradients are views);
- an added skip: two reads and a write forward, nothing backward;
- logits: read for the loss; read and write for its gradient. The feed and the labels are left out;
- Adam: parameter, gradient and two moments read, all but the gradient written, 7 x 4 bytes a parameter; SGD with
  momentum 5 x 4. Under bf16 also the cast of the parameter (read 4, write 2) and of its gradient (read 2, write 4).
  Adding up the gradients of several passes and moving averages of weights are left out.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from mixseg.core.types import Batch
from mixseg.methods import Method
from mixseg.networks import layers as convolutions
from mixseg.networks.layers import CONVOLUTIONS, NORMALISATIONS
from mixseg.networks.unet import UNetDecoder
from mixseg.networks.vnet import VNetDecoder
from stopwatch import time_calls, time_kernels

POOLS = (nn.MaxPool2d, nn.MaxPool3d)
WATCHED = (*CONVOLUTIONS, *NORMALISATIONS, *POOLS, UNetDecoder, VNetDecoder)
OPTIMIZER_BYTES = {"adam": 28, "adamw": 28, "sgd": 20}
CAST_BYTES = 12
MOST = 24
"""So many convolutions are kept one by one, the longest."""

LAYOUTS = {
    2: {"channels first": torch.contiguous_format, "channels last": torch.channels_last},
    3: {"channels first": torch.contiguous_format, "channels last": torch.channels_last_3d},
}


@dataclass(frozen=True)
class Conv:
    """The shape of a convolution: equal ones are timed once."""

    image: tuple[int, ...]
    weight: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    transposed: bool
    output_padding: tuple[int, ...]
    groups: int

    @property
    def geometry(self) -> tuple[Any, ...]:
        """The arguments that forward and backward share."""
        shape = (list(self.stride), list(self.padding), list(self.dilation), self.transposed, list(self.output_padding))
        return *shape, self.groups

    @property
    def flop(self) -> int:
        """Of any one direction: each is two operations for a weight and a place where it is applied."""
        places = math.prod(self.image[2:]) // (1 if self.transposed else math.prod(self.stride))
        return 2 * self.image[0] * math.prod(self.weight) * places


@dataclass
class Work:
    """What one step does: FLOP, convolutions by (shape, direction), bytes moved between them."""

    flop: int = 0
    convolutions: Counter[tuple[Conv, str]] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)


def ceilings(device: torch.device, dtype: torch.dtype) -> dict[str, Any]:
    """FLOP/s of a large matrix product and bytes/s of a large copy (read plus written), on random data."""
    side, elements = (8192, 2**30) if device.type == "cuda" else (1024, 2**25)
    a, b = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))
    flops = 2e3 * side**3 / time_calls(lambda: a @ b, device, block_ms=30)
    source = torch.rand(elements, device=device, dtype=torch.bfloat16)
    target = torch.empty_like(source)
    moved = 2 * source.nbytes
    bandwidth = 1e3 * moved / time_calls(lambda: target.copy_(source), device, block_ms=30)
    return {"matmul_flops": flops, "matmul_side": side, "matmul_dtype": str(dtype), "copy_bytes_per_s": bandwidth}


def observe(method: Method, batch: Batch, *, autocast: Any, optimizer: str) -> Work:
    """What one eager, uncompiled step of ``method`` on ``batch`` must do, seen by hooks on its layers.

    Channels of zeros, which make some convolutions faster, need not be.
    """
    work = Work()
    layers = [module for module in method.modules() if isinstance(module, WATCHED)]
    hooks = [layer.register_forward_hook(lambda m, i, o: _note(work, m, i[0], o)) for layer in layers]
    method.train()
    try:
        with FlopCounterMode(display=False) as counter, patch.object(convolutions, "ALIGNED", 1):
            with autocast:
                terms = method(batch, 0.5)
            sum(term.weight * term.value for term in terms.values()).backward()
    finally:
        for hook in hooks:
            hook.remove()
        method.zero_grad(set_to_none=True)
    work.flop = counter.get_total_flops()
    learning = sum(parameter.numel() for parameter in method.parameters() if parameter.requires_grad)
    half = bool(work.bytes.pop("half precision", 0))
    work.bytes["optimizer"] = learning * (OPTIMIZER_BYTES[optimizer] + CAST_BYTES * half)
    return work


def _note(work: Work, module: nn.Module, given: Any, made: Any) -> None:
    """Add one call of a layer; the module docstring says how many passes are assumed."""
    if isinstance(module, CONVOLUTIONS):
        _note_convolution(work, module, given, made)
    elif isinstance(module, NORMALISATIONS):
        statistics_read = module.training or not getattr(module, "track_running_stats", False)
        work.bytes["normalisation"] += made.nbytes * (2 + statistics_read + 5 * made.requires_grad)
    elif isinstance(module, POOLS):
        work.bytes["pooling"] += (given.nbytes + made.nbytes) * (1 + made.requires_grad)
    elif isinstance(module, UNetDecoder | VNetDecoder):
        skips = sum(skip.nbytes for skip in given[:-2])
        work.bytes["skips"] += skips * (4 if isinstance(module, UNetDecoder) else 3)
        work.bytes["logits"] += made[0].nbytes * (1 + 2 * made[0].requires_grad)


def _note_convolution(work: Work, module: nn.Module, given: Tensor, made: Tensor) -> None:
    shape = Conv(
        tuple(given.shape),
        tuple(module.weight.shape),
        *(tuple(getattr(module, name)) for name in ("stride", "padding", "dilation")),
        module.transposed,
        tuple(module.output_padding),
        module.groups,
    )
    work.bytes["half precision"] |= made.element_size() == 2
    work.convolutions[shape, "forward"] += 1
    if made.requires_grad:
        work.convolutions[shape, "weight"] += module.weight.requires_grad
        work.convolutions[shape, "data"] += given.requires_grad


@cache
def time_convolution(conv: Conv, direction: str, layout: str, device: torch.device, dtype: torch.dtype) -> float:
    """Milliseconds of one convolution by itself, without bias."""
    form = LAYOUTS[len(conv.image) - 2][layout]
    image, weight = (
        torch.randn(shape, device=device, dtype=dtype).to(memory_format=form) for shape in (conv.image, conv.weight)
    )
    aten = torch.ops.aten
    with torch.no_grad():
        made = aten.convolution.default(image, weight, None, *conv.geometry)
        if direction == "forward":
            return time_kernels(lambda: aten.convolution.default(image, weight, None, *conv.geometry), device)
        gradient = torch.randn_like(made)
        wanted = [direction == "data", direction == "weight", False]
        return time_kernels(
            lambda: aten.convolution_backward.default(gradient, image, weight, None, *conv.geometry, wanted), device
        )


def floors(work: Work, ceiling: dict[str, Any], *, device: torch.device, dtype: torch.dtype) -> dict[str, Any]:
    """Both floors in ms per step, and what the attainable one is made of."""
    by_direction: Counter[str] = Counter()
    rows = []
    for (conv, direction), count in work.convolutions.items():
        if count:
            layouts = {name: time_convolution(conv, direction, name, device, dtype) for name in LAYOUTS[2]}
            best = min(layouts, key=lambda name: layouts[name])
            by_direction[direction] += count * layouts[best]
            shape = {"image": conv.image, "weight": conv.weight, "direction": direction, "flop": conv.flop}
            rows.append({**shape, "count": count, "ms": layouts[best], "layout": best, "ms_of_layouts": layouts})
    others = work.flop - sum(count * conv.flop for (conv, _), count in work.convolutions.items())
    products = 1e3 * max(0, others) / ceiling["matmul_flops"]
    moved = {kind: 1e3 * amount / ceiling["copy_bytes_per_s"] for kind, amount in work.bytes.items()}
    return {
        "flop": work.flop,
        "arithmetic_ms": 1e3 * work.flop / ceiling["matmul_flops"],
        "convolutions_ms": dict(by_direction),
        "other_products_ms": products,
        "bytes": dict(work.bytes),
        "bytes_ms": moved,
        "attainable_ms": sum(by_direction.values()) + sum(moved.values()) + products,
        "recorded": device.type == "cuda",
        "each_convolution": sorted(rows, key=lambda row: -row["count"] * row["ms"])[:MOST],
    }
