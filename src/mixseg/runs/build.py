"""The method of a config, fresh or trained by a run, and what makes it quick on its device, with the same results."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import torch
from lightning_fabric import Fabric
from torch import nn
from torch._dynamo.exc import TorchDynamoException

from mixseg.core.errors import MixsegError
from mixseg.core.progress import Progress
from mixseg.methods import Method, MethodOptions, make_method
from mixseg.networks import Network, make_network
from mixseg.networks.folding import folded
from mixseg.networks.redundant_biases import drop_idle_biases
from mixseg.runs.checkpoint import give_weights, load_weights
from mixseg.runs.config import Config
from mixseg.runs.device import configure_tracer
from mixseg.runs.folder import RunFolder
from mixseg.runs.model_file import ModelFile


class Trained(NamedTuple):
    """A method with the weights of a run's ``checkpoint``, "best" or "last", which was made at ``step``."""

    method: Method
    checkpoint: str
    step: int


def build(config: Config, *, channels: int, classes: int) -> Method:
    """The freshly initialised method of ``config``; the seed alone decides its weights."""
    chosen, ablation = config.network, config.ablation

    def network(branches: int) -> Network:
        return make_network(
            chosen.name,
            in_channels=channels,
            classes=classes,
            branches=branches,
            width=chosen.width,
            depth=chosen.depth,
            dims=config.data.dims,
            norm=chosen.norm,
            geometry=ablation.geometry,
            dropout=chosen.dropout,
            deep=ablation.deep,
        )

    torch.manual_seed(config.training.seed)
    return make_method(config.method.name, network, config.method.weights, MethodOptions(config.method, ablation))


def load(run: RunFolder | ModelFile, *, channels: int, classes: int, checkpoint: str | None = "last") -> Trained:
    """The method that a run trained, in evaluation mode on the CPU; None is the best checkpoint if there is one.

    Raises:
        MixsegError: There are no such weights, or they are damaged or of another architecture.
    """
    method = build(run.config, channels=channels, classes=classes)
    if isinstance(run, ModelFile):
        if checkpoint not in (None, run.checkpoint):
            raise MixsegError(
                f"{run.path} holds the {run.checkpoint} checkpoint alone: leave --checkpoint {checkpoint} out.",
                "file-missing",
                file=run.path,
            )
        weights, step = run.weights()
        give_weights(method, weights, run.path)
        return Trained(method.eval(), run.checkpoint, step)
    chosen = checkpoint or ("best" if (run.path / "best.pt").exists() else "last")
    step = load_weights(method, run.path / f"{chosen}.pt")
    return Trained(method.eval(), chosen, step)


def memory_layout(config: Config, device: torch.device) -> torch.memory_format:
    """Channels last, which convolutions are fastest in; but for slices whose maps torch copies to normalise them."""
    if config.data.dims == 3:
        return torch.channels_last_3d
    copied = device.type == "cpu" and config.network.norm == "instance"
    return torch.contiguous_format if copied else torch.channels_last


def recordable(method: Method, fabric: Fabric) -> bool:
    """Whether the steps of ``method`` can be replayed as a CUDA graph here."""
    return fabric.device.type == "cuda" and fabric.world_size == 1 and method.replays


COMPILER = {"realize_reads_threshold": 12, "realize_opcount_threshold": 60}
"""How much arithmetic is done again instead of written to a map: all that lies between two convolutions."""


@cache
def fetch_compiler() -> Future[Any]:
    """Import the compiler, which takes a second or more, while the caller prepares other things."""
    pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="compiler")
    future = pool.submit(import_module, "torch._inductor.compile_fx")
    pool.submit(_name_compiler)
    pool.shutdown(wait=False)
    return future


def _name_compiler() -> None:
    """Have the compiler hash its own sources and Triton's, by which it finds what it has compiled before.

    Another second, which it has to itself here, beside the tracing of the method.
    """
    with suppress(Exception):  # it does so itself where this fails: these are no part of its interface
        codecache = import_module("torch._inductor.codecache")
        codecache.torch_key()
        codecache.CacheBase.get_system()


def speed_up(method: Method, config: Config, fabric: Fabric) -> None:
    """The memory layout and the compilation that suit the device; the results stay those of the plain path.

    An optimiser is made before: a run then goes on where there is a GPU and where there is none.
    """
    if fabric.device.type == "cuda" and fabric.world_size > 1:
        nn.SyncBatchNorm.convert_sync_batchnorm(method)  # type: ignore[no-untyped-call]
    method.to(memory_format=memory_layout(config, fabric.device))  # type: ignore[call-overload]
    if fabric.device.type != "cuda":
        return
    drop_idle_biases(method)
    if not config.runtime.compile:
        return
    wait([fetch_compiler()])
    configure_tracer()
    if recordable(method, fabric):
        method.compile(dynamic=False, options=COMPILER)
        return
    for network in (module for module in method.modules() if isinstance(module, Network)):
        for part in (network.encoder, *network.decoders):
            part.compile(dynamic=False, options=COMPILER)


@contextmanager
def without_compiling(error: TorchDynamoException, optimizer: torch.optim.Optimizer, bar: Progress) -> Iterator[None]:
    """Say that the machine lacks what a compiler needs; inside, everything runs as it is written."""
    why = next((line for line in str(error).splitlines() if line and not line.startswith("backend=")), "")
    why = textwrap.shorten(why, 120, placeholder=" ...") or type(error).__name__
    bar.say(
        f"The network cannot be compiled here ({why.rstrip('.')}): training goes on without, and takes longer. Ask "
        "`mixseg doctor` what is missing, or set compile=false."
    )
    optimizer.zero_grad(set_to_none=True)
    with torch.compiler.set_stance("force_eager"):
        yield


@contextmanager
def evaluating(method: Method, fabric: Fabric) -> Iterator[None]:
    """Evaluation mode without gradients, and without tuning or compiling for the many shapes of whole scans.

    On a GPU weights are folded together, so that no other ones may be loaded inside.
    """
    training, tuned = method.training, torch.backends.cudnn.benchmark
    method.eval()
    torch.backends.cudnn.benchmark = False
    try:
        with torch.no_grad(), torch.compiler.set_stance("force_eager"), fabric.autocast():
            half = fabric.device.type == "cuda" and torch.is_autocast_enabled("cuda")
            with folded(method, torch.get_autocast_dtype("cuda")) if half else nullcontext():
                yield
    finally:
        torch.backends.cudnn.benchmark = tuned
        method.train(training)
