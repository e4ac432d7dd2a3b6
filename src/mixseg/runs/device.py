"""Where a run computes: device, precision, and the processes that share the work. The home of Fabric."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass
from typing import TypeVar

import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from lightning_fabric.strategies.ddp import DDPStrategy
from lightning_fabric.utilities.rank_zero import rank_zero_only
from torch import distributed
from torch._dynamo import config as dynamo
from torch._functorch import config as functorch

from mixseg.core.errors import MixsegError
from mixseg.core.types import Device

T = TypeVar("T")

COMPILED_RUNS = 64
"""So many different ones in a process; after that, methods run as they are written."""

FUNCTORCH = {
    # Else what is compiled with a gradient of our own is traced anew in every process, cache or not.
    "autograd_cache_allow_custom_autograd_functions": True,
    # Else the signs that the gradient of a ReLU needs are kept as maps: a tenth of the memory, and no time gained.
    "ban_recompute_used_far_apart": False,
    "ban_recompute_long_fusible_chains": False,
}

PRECISIONS = {"fp64": "64-true", "fp32": "32-true", "tf32": "32-true", "bf16": "bf16-mixed"}


@dataclass(frozen=True)
class Hardware:
    """Where a run computes.

    Attributes:
        device: "auto" takes the GPU if there is one.
        devices: Processes on this machine that train together, one per GPU.
        nodes: Machines that train together.
    """

    device: Device = "auto"
    devices: int = 1
    nodes: int = 1

    def __post_init__(self) -> None:
        """One sentence about processes that cannot be."""
        if min(self.devices, self.nodes) < 1:
            raise MixsegError(
                f"{self.devices} processes on {self.nodes} machines train nothing: ask for at least 1.",
                "invalid-value",
                devices=self.devices,
                nodes=self.nodes,
            )


def make_fabric(hardware: Hardware, precision: str) -> Fabric:
    """Fabric for the hardware and a settled precision, launched: with several processes, each goes on from here."""
    accelerator = accelerator_of(hardware.device)
    torch.set_float32_matmul_precision("highest" if precision in ("fp32", "fp64") else "high")
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.benchmark = True  # the shapes of training never change
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # its hints are settled here
    several = hardware.devices * hardware.nodes > 1
    fabric = Fabric(
        accelerator=accelerator,
        devices=hardware.devices,
        num_nodes=hardware.nodes,
        # The same parameters take part in every step, though not always all of them: a term may be off.
        strategy=DDPStrategy(static_graph=True) if several else "auto",
        precision=PRECISIONS[precision],  # type: ignore[arg-type]
        # A run by itself asks no cluster who else is there: the search imports MPI, which takes a second.
        plugins=None if several else LightningEnvironment(),
    )
    fabric.launch()
    return fabric


@contextmanager
def on_rank_zero_only(hardware: Hardware) -> Iterator[None]:
    """Inside, of processes that train together only the first prints: each of them comes this way by itself."""
    follows = hardware.devices * hardware.nodes > 1 and rank_zero_only.rank != 0  # type: ignore[attr-defined]
    with redirect_stdout(None) if follows else nullcontext():
        yield


@contextmanager
def processes_of_its_own() -> Iterator[None]:
    """Around one of several trainings: its processes end with it, so the next one has to start its own."""
    before = dict(os.environ)  # where Fabric notes that processes were started
    yield
    os.environ.clear()
    os.environ.update(before)


@contextmanager
def torch_as_it_was() -> Iterator[None]:
    """Afterwards, what torch is told here for the whole process is as it was: callers have plans too."""
    matmul, convolutions = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    tuned, recompiled = torch.backends.cudnn.benchmark, dynamo.recompile_limit
    traced = {switch: getattr(functorch, switch) for switch in FUNCTORCH if hasattr(functorch, switch)}
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(matmul)
        torch.backends.cudnn.allow_tf32, torch.backends.cudnn.benchmark = convolutions, tuned
        dynamo.recompile_limit = recompiled
        for switch, position in traced.items():
            setattr(functorch, switch, position)


def configure_tracer() -> None:
    """How torch traces what it compiles, in this process."""
    # What was compiled for a run serves the next one of the process if only its seed differs; others compile anew.
    dynamo.recompile_limit = COMPILED_RUNS
    for switch, position in FUNCTORCH.items():
        if hasattr(functorch, switch):  # in every torch that we know, but they are not promised
            setattr(functorch, switch, position)


def settle_precision(precision: str, device: str, *, dims: int) -> str:
    """What "auto" means there for slices or volumes; any other precision is itself."""
    if precision != "auto":
        return precision
    accelerator = accelerator_of(device)
    if accelerator == "cpu" and dims == 3:
        return (
            "fp32"  # in bf16, weight gradients of 2x2x2 maps read memory that nobody wrote (torch 2.13): nan at times
        )
    return "bf16" if has_bf16(accelerator) else "fp32"


def has_bf16(accelerator: str) -> bool:
    """Whether it multiplies bfloat16 as such, so that this is the faster choice."""
    if accelerator == "cpu":
        return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return accelerator == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)


def destroy_process_group() -> None:
    """Leave the group of processes, if there is one: a process that ends as a member of it may abort."""
    if distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()


def end_others(fabric: Fabric) -> None:
    """End the processes that this one has started to train with, which may be waiting for it."""
    started = getattr(fabric.strategy.launcher, "procs", [])
    while started:  # taken from Fabric's list: else it takes their end for an accident, and kills this process too
        process = started.pop()
        process.kill()
        process.wait()


def accelerator_of(device: str) -> str:
    """What ``device`` means here; one sentence if it is not there."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if device == "auto":
        return next(name for name, there in available.items() if there)
    if device not in available:  # no guess: "gpu" is nearest to "cpu"
        raise MixsegError(
            f"Unknown device {device!r}: choose one of auto, {', '.join(available)}.",
            "unknown-name",
            kind="device",
            name=device,
        )
    if not available[device]:
        raise MixsegError(
            f"torch sees no {device} device here: use --device cpu, or ask `mixseg doctor`.",
            "device-missing",
            device=device,
        )
    return device


def on_rank_zero(fabric: Fabric, act: Callable[[], T]) -> T:
    """What the first process finds by ``act``, in every process.

    Its error is raised there, as it is; the others end without a word, so that nobody waits and it is told once.
    """
    if fabric.world_size == 1:
        return act()
    found: T | None = None
    error: MixsegError | None = None
    if fabric.is_global_zero:
        try:
            found = act()
        except MixsegError as raised:
            error = raised
    found, failed = fabric.broadcast((found, error is not None))
    if error is not None:
        raise error
    if failed:
        raise SystemExit(0)
    return found  # type: ignore[return-value]
