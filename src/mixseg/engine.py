"""The only training loop: steps, looks at the validation scans, checkpoints, exact resume. The home of Fabric."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from lightning_fabric import Fabric
from lightning_fabric.strategies.ddp import DDPStrategy
from torch import nn

from mixseg.checkpoint import Average, State
from mixseg.config import Config
from mixseg.data.batches import Feed
from mixseg.errors import MixsegError
from mixseg.logbook import Log, Record
from mixseg.methods import Method
from mixseg.networks import Network
from mixseg.progress import Progress

Look = Callable[[Method, float], dict[str, Any]]
"""(method, progress) -> what is seen between steps, for the log. "score" chooses the best checkpoint, "told" is shown
beside the progress bar, "warning" is said aloud."""

PRECISIONS = {"fp64": "64-true", "fp32": "32-true", "tf32": "32-true", "bf16": "bf16-mixed"}
SECONDS_BETWEEN_CHECKPOINTS = 60.0


@dataclass(frozen=True)
class Hardware:
    """Where a run computes.

    Attributes:
        device: "auto" takes the GPU if there is one.
        devices: Processes on this machine that train together, one per GPU.
        nodes: Machines that train together.
    """

    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    devices: int = 1
    nodes: int = 1


def make_fabric(hardware: Hardware, precision: str) -> Fabric:
    """Fabric for the hardware, launched: with several processes, each goes on from here."""
    accelerator = _accelerator(hardware.device)
    if precision == "auto":
        precision = "bf16" if accelerator == "cuda" and torch.cuda.is_bf16_supported() else "fp32"
    torch.set_float32_matmul_precision("highest" if precision in ("fp32", "fp64") else "high")
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.benchmark = True  # the shapes of training never change
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # its hints are settled here
    several = hardware.devices * hardware.nodes > 1
    fabric = Fabric(
        accelerator=accelerator,
        devices=hardware.devices,
        num_nodes=hardware.nodes,
        strategy=DDPStrategy() if several else "auto",
        precision=PRECISIONS[precision],  # type: ignore[arg-type]
    )
    fabric.launch()
    return fabric


def _accelerator(device: str) -> str:
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if device == "auto":
        return next(name for name, there in available.items() if there)
    if not available[device]:
        raise MixsegError(f"torch sees no {device} device here: use --device cpu, or ask `mixseg doctor`.")
    return device


def fit(method: Method, feed: Feed, look: Look, *, config: Config, folder: Path, fabric: Fabric) -> State:
    """Train ``method`` to ``config.steps``, from where the folder's last checkpoint left off.

    Writes ``last.pt``, ``best.pt`` and ``log.jsonl``. Order and noise of a step depend on the seed and the step's
    number alone, so that a run which was killed and resumed ends with the weights of one which was not.
    """
    speed_up(method, config, fabric)
    method.to(fabric.device)
    state = State(method, make_optimizer(method, config))
    state.average = Average(method, config.average) if config.average else None
    state.resume(folder)
    leads = fabric.is_global_zero
    log = Log(folder / "log.jsonl", keep_until=state.step) if leads else None
    model, optimizer = fabric.setup(method, state.optimizer)
    record = Record()
    saved = time.monotonic()
    with Progress("training", total=config.steps, done=state.step, silent=not leads) as bar:
        while state.step < config.steps:
            loss, terms = _step(model, optimizer, feed, config, state.step, fabric)
            method.after_step(state.step, state.step / config.steps)
            if state.average:
                state.average.update(method)
            record.add(loss, terms)
            state.step += 1
            bar.step()
            if state.step % config.looks and state.step < config.steps:
                continue
            _refuse_nan(record, feed, state.step, folder)
            if log:
                entry = {"step": state.step, "lr": optimizer.param_groups[0]["lr"], **record.entry()}
                with state.average.worn_by(method) if state.average else nullcontext(), evaluating(method, fabric):
                    entry |= look(method, state.step / config.steps)
                    state.keep_if_best(entry["score"])
                log.write(entry)
                _tell(bar, entry)
                if state.step == config.steps or time.monotonic() - saved > SECONDS_BETWEEN_CHECKPOINTS:
                    state.save(folder)
                    saved = time.monotonic()
                if entry.get("warning") and config.on_collapse == "stop":
                    raise MixsegError(f"Stopped at step {state.step} (--on-collapse stop). {entry['warning']}")
            record = Record()
            fabric.barrier()
    return state


def _step(
    model: nn.Module, optimizer: torch.optim.Optimizer, feed: Feed, config: Config, step: int, fabric: Fabric
) -> tuple[torch.Tensor, dict[str, Any]]:
    """One optimiser step; returns the loss and its terms."""
    progress = step / config.steps
    for group in optimizer.param_groups:
        group["lr"] = config.lr * lr_factor(config.schedule, progress)
    torch.manual_seed(_seed(config.seed, step, fabric.global_rank))
    terms = model(feed(step), progress)
    loss = torch.stack([term.weight * term.value for term in terms.values()]).sum()
    fabric.backward(loss)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss, terms


def _seed(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint32)[0])


def _refuse_nan(record: Record, feed: Feed, step: int, folder: Path) -> None:
    bad = record.first_bad()
    if bad is None:
        return
    broken = step - len(record.losses) + bad
    raise MixsegError(
        f"The loss is no longer a finite number at step {broken + 1}, on {', '.join(feed.names(broken)[:4])} ...: "
        f"the last good checkpoint in {folder} is kept; start again with a lower lr or precision fp32."
    )


def _tell(bar: Progress, entry: dict[str, Any]) -> None:
    terms = " ".join(f"{name} {value:.4g}" for name, value in entry["terms"].items())
    bar.step(f"{terms}  {entry.get('told', '')}", count=0)
    if entry.get("warning"):
        bar.say(entry["warning"])


def speed_up(method: Method, config: Config, fabric: Fabric) -> None:
    """The memory layout and the compilation that suit the device; the results stay those of the plain path."""
    if fabric.device.type == "cuda" and fabric.world_size > 1:
        nn.SyncBatchNorm.convert_sync_batchnorm(method)  # type: ignore[no-untyped-call]
    method.to(memory_format=torch.channels_last if config.dims == 2 else torch.channels_last_3d)  # type: ignore[call-overload]
    if config.compile and fabric.device.type == "cuda":
        for network in (module for module in method.modules() if isinstance(module, Network)):
            for part in (network.encoder, *network.decoders):
                part.compile(dynamic=False)


@contextmanager
def evaluating(method: Method, fabric: Fabric) -> Iterator[None]:
    """Evaluation mode without gradients, and without tuning or compiling for the many shapes of whole scans."""
    method.eval()
    torch.backends.cudnn.benchmark = False
    try:
        with torch.no_grad(), torch.compiler.set_stance("force_eager"), fabric.autocast():
            yield
    finally:
        torch.backends.cudnn.benchmark = True
        method.train()


def make_optimizer(method: nn.Module, config: Config) -> torch.optim.Optimizer:
    """The config's optimiser over everything that learns."""
    parameters = [parameter for parameter in method.parameters() if parameter.requires_grad]
    if config.optimizer == "sgd":
        return torch.optim.SGD(parameters, config.lr, momentum=0.9, weight_decay=config.weight_decay)
    kind = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam
    return kind(parameters, config.lr, weight_decay=config.weight_decay, fused=True)


def lr_factor(schedule: str, progress: float) -> float:
    """What the learning rate is multiplied by at ``progress``."""
    if schedule == "drops":
        return 1.0 if progress < 5 / 12 else 0.1 if progress < 10 / 12 else 0.01
    if schedule == "poly":
        return float((1 - progress) ** 0.9)
    if schedule == "cosine":
        return (1 + math.cos(math.pi * progress)) / 2
    return 1.0
