"""Does the fast step train as the plain one does? The losses of both, step by step, on the device at hand.

    python benchmarks/same_result.py [--methods kl-ent ua-mt] [--optimizers adam sgd] [--steps 12] [--precision fp32]

Plain: eager, in torch's own memory layout, every step launched anew. Fast: what the engine does, with and without
compilation. Both draw the same batches and the same noise. Ends with an error if a loss differs by more than
rounding, carried through the steps, explains.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor

from contenders import make_feed, make_scans
from mixseg.runs.build import build, speed_up
from mixseg.runs.config import Config, make_config
from mixseg.runs.device import Hardware, make_fabric, settle_precision
from mixseg.training.step import PlainStep, make_optimizer, make_step

TOLERANCE = {"fp64": 1e-7, "fp32": 2e-3, "bf16": 5e-2}
SMALL = {"size": [64, 64], "patch": [32, 32, 32], "width": 8, "depth": 3, "lr": 1e-3, "ramp": 0.5, "schedule": "cosine"}


def losses(config: Config, hardware: Hardware, steps: int, *, fast: bool) -> Tensor:
    """The loss and its terms, weighted, in each of the first steps: ``(steps, 1 + terms)``."""
    from torch._inductor import config as inductor

    fabric = make_fabric(hardware, settle_precision(config.runtime.precision, hardware.device, dims=config.data.dims))
    feed = make_feed(make_scans(config), config, fabric.device)
    method = build(config, channels=1, classes=2)
    if fast:
        speed_up(method, config, fabric)
    method.to(fabric.device).train()
    model, optimizer = fabric.setup(method, make_optimizer(method, config))
    train_on = (make_step if fast else PlainStep)(model, optimizer, feed, config, fabric)
    found = []
    with inductor.patch(fallback_random=True):  # compiled code then draws the noise that eager code draws
        for step in range(steps):
            loss, terms = train_on(step)
            method.after_step(step, step / config.training.steps)
            found.append([float(loss), *(float(term.weight) * float(term.value) for term in terms.values())])
    return torch.tensor(found, dtype=torch.float64)


def difference(config: Config, hardware: Hardware, steps: int) -> float:
    """The largest difference between fast and plain, relative to the loss of the step."""
    plain = losses(config.changed(compile=False), hardware, steps, fast=False)
    fast = losses(config, hardware, steps, fast=True)
    return float(((fast - plain).abs() / plain[:, :1].abs().clamp(min=1e-3)).max())


def small_config(method: str, *, optimizer: str, precision: str, dims: int = 2, compiled: bool = False) -> Config:
    """A run on a small network, without the dropout that compiled code draws by itself."""
    changes = {**SMALL, "optimizer": optimizer, "precision": precision, "compile": compiled, "dropout": 0.0}
    return make_config(method=method, preset="quick", dims=dims, steps=40, **changes)


def main() -> None:
    """A line for each comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=["lower-bound", "kl-ent", "ua-mt", "glmi", "ssco"])
    parser.add_argument("--optimizers", nargs="+", default=["adam"])
    parser.add_argument("--precision", default="fp32", choices=list(TOLERANCE))
    parser.add_argument("--dims", type=int, default=2, choices=[2, 3])
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    args = parser.parse_args()
    hardware, worst = Hardware(args.device), 0.0
    for method in args.methods:
        for optimizer in args.optimizers:
            for compiled in (False, True) if torch.cuda.is_available() and args.device != "cpu" else (False,):
                config = small_config(
                    method, optimizer=optimizer, precision=args.precision, dims=args.dims, compiled=compiled
                )
                found = difference(config, hardware, args.steps)
                worst = max(worst, found)
                how = "compiled and recorded" if compiled else "recorded" if torch.cuda.is_available() else "on a CPU"
                print(f"{method:12} {optimizer:6} {how:22} differs by {found:.1e} of the loss", flush=True)
    if not worst <= TOLERANCE[args.precision]:
        raise SystemExit(
            f"The fast step does not train as the plain one: {worst:.1e} > {TOLERANCE[args.precision]:.0e}"
        )


if __name__ == "__main__":
    main()
