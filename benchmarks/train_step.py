"""One training step of mixseg beside a plain PyTorch loop and beside two floors, in one run.

    python benchmarks/train_step.py [--methods lower-bound kl-ent] [--dims 2] [--out speed.json] [--profile top.txt]

For each method, ms per step and peak memory of (a) the frozen fp32 loop of plain_loop.py, (b) the same under bf16
autocast, (c) mixseg: Feed, method and the engine's own step, as the preset and the device make it; then the ratio of
each to the arithmetic and to the attainable floor of floors.py. TF32 is off in (a) and (b). A method that
plain_loop.py has no script for is looped by itself there, eagerly, over host-side loaders.

Timing: after a warm-up (its seconds beyond the steps are the start: compilation, searches for kernels), blocks of
steps between two synchronisations, the median block; all versions are timed twice in turn, and the table shows
both. Kernels which an earlier method compiled come from inductor's cache, also from earlier runs: give
TORCHINDUCTOR_CACHE_DIR an empty folder for a cold start. The data are made by formula: 600 fully and 1500 partly
labelled slices, 16 and 32 volumes in 3D. Without a GPU the preset is "quick".
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import lightning_fabric
import torch
from lightning_fabric import Fabric

from contenders import Flags, Scans, make_feed, make_scans, mixseg_step, plain_step
from floors import ceilings, floors, observe
from kernel_profile import draw, profile_steps
from mixseg.config import Config, make_config
from mixseg.engine import Hardware, make_fabric
from mixseg.run import build
from mixseg.types import KINDS
from plain_loop import plain_family
from stopwatch import Step, Version, attempt, clean


def measure(config: Config, fabric: Fabric, flags: Flags, args: argparse.Namespace) -> dict[str, Any]:
    """All versions of one method, timed in turn, and the floors."""
    device = fabric.device
    torch.compiler.reset()  # each method compiles for itself, and none runs into the limit of recompilations
    scans = make_scans(config)
    makers: dict[str, Callable[[], Step]] = {
        "plain fp32": lambda: plain_step(scans, config, device, bf16=False),
        "plain bf16": lambda: plain_step(scans, config, device, bf16=True),
        "mixseg": lambda: mixseg_step(scans, config, fabric),
    }
    versions = []
    for name, make in makers.items():
        say(f"{config.method}: {name} warms up")
        flags.set(name)
        versions.append(Version(name, make, device))
    for turn in range(2):
        for version in versions:
            flags.set(version.name)
            version.time(args.steps, args.blocks)
            say(f"{config.method}: {version.name} {version.ms:.2f} ms (round {turn + 1})")
    batch = {kind: getattr(config.batch, kind) for kind in KINDS}
    entry: dict[str, Any] = {"method": config.method, "batch": batch, "grid": config.grid}
    entry |= {"versions": {version.name: version.entry() for version in versions}}
    entry["plain_is"] = "plain_loop.py" if plain_family(config.method) else "mixseg's method, eager"
    flags.set("mixseg")
    if args.profile:
        entry["profile"] = attempt(lambda: write_profile(versions[-1], args.profile, config))
    for version in versions:
        version.step = None
    clean(device)
    say(f"{config.method}: floors")
    floor = attempt(lambda: measure_floors(scans, config, fabric, args.ceilings))
    for version in entry["versions"].values():
        for which in ("arithmetic", "attainable"):
            version[f"times_{which}"] = version["ms"] / floor.get(f"{which}_ms", float("nan"))
    return {**entry, "floors": floor}


def measure_floors(scans: Scans, config: Config, fabric: Fabric, ceiling: dict[str, Any]) -> dict[str, Any]:
    """The floors of mixseg's step: what it must compute, in its precision."""
    batch = make_feed(scans, config, fabric.device)(0)
    method = build(config, channels=batch.parts[0].image.shape[1], classes=2).to(fabric.device)
    work = observe(method, batch, autocast=fabric.autocast(), optimizer=config.optimizer)
    parameters = sum(parameter.numel() for parameter in method.parameters())
    del method, batch
    clean(fabric.device)
    return {"parameters": parameters, **floors(work, ceiling, device=fabric.device, dtype=activations(fabric))}


def activations(fabric: Fabric) -> torch.dtype:
    """The type that convolutions compute in."""
    with fabric.autocast():
        one = torch.ones(1, 1, device=fabric.device)
        return (one @ one).dtype


def write_profile(version: Version, path: Path, config: Config) -> dict[str, Any]:
    """Table and picture of mixseg's step, with the method in the file names; returns the sums by kind."""
    if version.step is None:
        return {"error": version.error}
    found = profile_steps(version.step, version.device, steps=5, step_ms=version.ms)
    path = path.with_name(f"{path.stem}-{config.method}{path.suffix or '.txt'}")
    path.parent.mkdir(parents=True, exist_ok=True)
    what = "kernels" if version.device.type == "cuda" else "operators"
    title = f"{config.method}: {version.ms:.2f} ms a step, {found['launches']:.0f} {what}, torch {torch.__version__}"
    path.write_text(f"{title}\n{found.pop('table')}\n")
    draw(found, path.with_suffix(".png"), title)
    return found


def environment(fabric: Fabric, config: Config) -> dict[str, Any]:
    """What the numbers depend on."""
    cuda = fabric.device.type == "cuda"
    return {
        "device": torch.cuda.get_device_name(fabric.device) if cuda else platform.processor() or platform.machine(),
        "device_type": fabric.device.type,
        "threads": torch.get_num_threads(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "lightning_fabric": lightning_fabric.__version__,
        "preset": config.preset,
        "precision": str(activations(fabric)),
        "compile": config.compile and cuda,
        "width": config.width,
        "network": config.network,
    }


def say(line: str) -> None:
    """Print at once."""
    print(f"[{time.strftime('%H:%M:%S')}] {line}", flush=True)


def table(result: dict[str, Any]) -> str:
    """The whole result in a few lines."""
    env, ceiling = result["environment"], result["ceilings"]
    lines = [
        f"{env['device']}, {env['threads']} threads, torch {env['torch']}, preset {env['preset']}, "
        f"mixseg in {env['precision']}{' compiled' if env['compile'] else ''}; "
        f"matrix product {ceiling['matmul_flops'] / 1e12:.3g} TFLOP/s, "
        f"copy {ceiling['copy_bytes_per_s'] / 1e9:.3g} GB/s",
        f"{'method':14} {'version':11} {'ms/step':>8} {'round 1':>8} {'round 2':>8} {'start s':>8} {'peak GiB':>9} "
        f"{'x arith.':>9} {'x attain.':>9} {'a / it':>7}",
    ]
    for entry in result["methods"]:
        lines += method_lines(entry) if "versions" in entry else [f"{entry['method']:14} failed: {entry['error']}"]
    return "\n".join(lines)


def method_lines(entry: dict[str, Any]) -> list[str]:
    """The rows of one method."""
    floor = entry["floors"]
    lines = []
    baseline = entry["versions"]["plain fp32"]["ms"]
    for name, version in entry["versions"].items():
        if version["error"]:
            lines.append(f"{entry['method']:14} {name:11} failed: {version['error'][:90]}")
            continue
        ms, (first, second) = version["ms"], version["ms_of_each_round"]
        lines.append(
            f"{entry['method']:14} {name:11} {ms:8.2f} {first:8.2f} {second:8.2f} {version['start_s']:8.1f} "
            f"{version['peak_gib']:9.2f} {version['times_arithmetic']:9.2f} {version['times_attainable']:9.2f} "
            f"{baseline / ms:7.2f}"
        )
    if "error" in floor:
        return [*lines, f"{entry['method']:14} floors failed: {floor['error'][:90]}"]
    alone, between = sum(floor["convolutions_ms"].values()), sum(floor["bytes_ms"].values())
    return [
        *lines,
        f"{entry['method']:14} floors: arithmetic {floor['arithmetic_ms']:.2f} ms ({floor['flop'] / 1e12:.3g} TFLOP), "
        f"attainable {floor['attainable_ms']:.2f} ms (convolutions {alone:.2f}, bytes between them {between:.2f}, "
        f"other products {floor['other_products_ms']:.2f}); plain is {entry['plain_is']}",
    ]


def setting(text: str) -> tuple[str, Any]:
    """KEY=VALUE of the config, the value as in JSON where it is JSON."""
    key, _, value = text.partition("=")
    with suppress(json.JSONDecodeError):
        return key, json.loads(value)
    return key, value


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda", "mps"])
    parser.add_argument("--methods", nargs="+", default=["lower-bound", "kl-ent"])
    parser.add_argument("--dims", type=int, default=2, choices=[2, 3])
    parser.add_argument("--preset", help="default: paper on a GPU, quick on a CPU")
    parser.add_argument("--width", type=int, help="channels of the first level; default: the preset's")
    parser.add_argument("--size", type=int, help="side of the square or cube; default: the preset's")
    parser.add_argument("--steps", type=int, default=10, help="steps in a block")
    parser.add_argument("--blocks", type=int, default=5, help="blocks in a round; there are two rounds")
    parser.add_argument("--set", type=setting, nargs="+", default=[], metavar="KEY=VALUE", help="of mixseg's config")
    parser.add_argument("--out", type=Path, help="JSON")
    parser.add_argument("--profile", type=Path, help="kernels of mixseg's step: FILE-METHOD.txt and .png")
    return parser.parse_args()


def settle(method: str, args: argparse.Namespace, preset: str) -> Config:
    """The config of a method as the command line has it."""
    changes: dict[str, Any] = dict(args.set)
    if args.width:
        changes["width"] = args.width
    if args.size:
        changes["size" if args.dims == 2 else "patch"] = [args.size] * args.dims
    return make_config(method=method, preset=preset, dims=args.dims, **changes)


def main() -> None:
    """Measure, write, print the table last."""
    args = parse()
    started = time.perf_counter()
    precision = dict(args.set).get("precision", "auto")
    fabric = make_fabric(Hardware(device=args.device), precision)
    flags = Flags()
    preset = args.preset or ("paper" if fabric.device.type == "cuda" else "quick")
    args.ceilings = ceilings(fabric.device, activations(fabric))
    clean(fabric.device)
    result: dict[str, Any] = {
        "environment": environment(fabric, settle("kl-ent", args, preset)),
        "ceilings": args.ceilings,
        "steps_per_block": args.steps,
        "blocks_per_round": args.blocks,
        "methods": [],
    }
    for name in args.methods:
        found = attempt(lambda name=name: measure(settle(name, args, preset), fabric, flags, args))
        result["methods"].append({"method": name, **found})
        result["seconds"] = time.perf_counter() - started
        if args.out:  # after each method: what is done is kept if the rest is cut off
            args.out.parent.mkdir(parents=True, exist_ok=True)
            strict = json.loads(json.dumps(result), parse_constant=lambda _: None)  # JSON has no nan
            args.out.write_text(json.dumps(strict, indent=1) + "\n")
    print(f"\nWhole benchmark {result['seconds']:.0f} s.\n{table(result)}")


if __name__ == "__main__":
    main()
