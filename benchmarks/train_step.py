"""One training step of mixseg beside a plain PyTorch loop and beside two floors, in one run.

    python benchmarks/train_step.py --out speed.json [--limit 150] [--methods lower-bound kl-ent] [--dims 2]

For each method, ms per step and peak memory of (a) the frozen fp32 loop of plain_loop.py, (b) the same under bf16
autocast, (c) mixseg: Feed, method and the engine's own step, as the preset and the device make it; then the ratio of
each to the arithmetic and to the attainable floor of floors.py, the kernels of (b) and (c) by kind, and ms of a look at
validation scans. TF32 is off in (a) and (b). A method that plain_loop.py has no script for is looped by itself there,
eagerly, over host-side loaders.

Timing: after a warm-up (its seconds beyond the steps are the start: compilation, searches for kernels), blocks of
steps between two synchronisations, the median block; all versions are timed twice in turn, and the table shows both.
Kernels which an earlier run compiled come from inductor's cache: give TORCHINDUCTOR_CACHE_DIR an empty folder for a
cold start. The data are made by formula. Without a GPU the preset is "quick".

`python benchmarks/speed_page.py add speed.json` takes the result into docs/results/.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import lightning_fabric
import torch
from lightning_fabric import Fabric

from contenders import Flags, Scans, make_feed, make_scans, mixseg_step, plain_step, time_feed, time_validation
from floors import ceilings, floors, observe
from kernel_profile import profile_steps
from mixseg.runs.build import build
from mixseg.runs.config import Config, make_config
from mixseg.runs.device import Hardware, make_fabric, settle_precision
from mixseg.training import loop
from plain_loop import plain_family
from stopwatch import Deadline, Step, Version, attempt, clean

ROUNDS = 2
BLOCKS = 5


def measure(config: Config, fabric: Fabric, flags: Flags, args: argparse.Namespace) -> dict[str, Any]:
    """All versions of one method, timed in turn, and what else there is time for."""
    scans = make_scans(config)
    versions = race(scans, config, fabric, flags, args)
    entry: dict[str, Any] = {"batch": config.training.batch.counts, "grid": config.data.grid}
    entry |= {"versions": {version.name: version.entry() for version in versions}}
    entry["plain_is"] = "plain_loop.py" if plain_family(config.method.name) else "mixseg's method, eager"
    whole = not args.short and args.deadline.leaves(10)
    if whole:
        entry["profile"] = {version.name: profiled(version, flags) for version in versions if version.step}
    flags.set("mixseg")
    for version in versions:
        version.step = None
    clean(fabric.device)
    entry["feed"] = attempt(lambda: time_feed(scans, config, fabric.device))
    if whole and config.data.dims == 2:
        entry["look"] = attempt(lambda: time_validation(scans, config, fabric))
    if not whole:
        return {**entry, "floors": {"error": "left out"}}
    say(f"{config.method.name}: floors")
    floor = attempt(lambda: measure_floors(scans, config, fabric, args.ceilings))
    for version in entry["versions"].values():
        for which in ("arithmetic", "attainable"):
            version[f"times_{which}"] = version["ms"] / floor.get(f"{which}_ms", float("nan"))
    return {**entry, "floors": floor}


def race(scans: Scans, config: Config, fabric: Fabric, flags: Flags, args: argparse.Namespace) -> list[Version]:
    """The versions, each with its rounds."""
    device = fabric.device
    makers: dict[str, Callable[[], Step]] = {
        "plain fp32": lambda: plain_step(scans, config, device, bf16=False),
        "plain bf16": lambda: plain_step(scans, config, device, bf16=True),
        "mixseg": lambda: mixseg_step(scans, config, fabric),
    }
    versions = []
    for name, make in makers.items():
        if name in args.versions:
            say(f"{config.method.name}: {name} warms up")
            flags.set(name)
            versions.append(Version(name, make, device))
    for turn in range(ROUNDS):
        for version in versions:
            flags.set(version.name)
            version.time(BLOCKS, args.round_s)
            say(f"{config.method.name}: {version.name} {version.ms:.2f} ms (round {turn + 1})")
    return versions


def measure_floors(scans: Scans, config: Config, fabric: Fabric, ceiling: dict[str, Any]) -> dict[str, Any]:
    """The floors of mixseg's step: what it must compute, in its precision."""
    batch = make_feed(scans, config, fabric.device)(0)
    method = build(config, channels=batch.parts[0].image.shape[1], classes=2).to(fabric.device)
    work = observe(method, batch, autocast=fabric.autocast(), optimizer=config.training.optimizer)
    parameters = sum(parameter.numel() for parameter in method.parameters())
    del method, batch
    clean(fabric.device)
    return {"parameters": parameters, **floors(work, ceiling, device=fabric.device, dtype=activations(fabric))}


def activations(fabric: Fabric) -> torch.dtype:
    """The type that convolutions compute in."""
    with fabric.autocast():
        one = torch.ones(1, 1, device=fabric.device)
        return (one @ one).dtype


def profiled(version: Version, flags: Flags) -> dict[str, Any]:
    """Milliseconds by kind of kernel, and the table of the longest kernels."""
    assert version.step is not None
    flags.set(version.name)
    step = version.step
    return attempt(lambda: profile_steps(step, version.device, steps=3, step_ms=version.ms))


def environment(fabric: Fabric, config: Config) -> dict[str, Any]:
    """What the numbers depend on."""
    cuda = fabric.device.type == "cuda"
    return {
        "device": torch.cuda.get_device_name(fabric.device) if cuda else processor(),
        "device_type": fabric.device.type,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda if cuda else None,
        "cudnn": torch.backends.cudnn.version() if cuda else None,
        "lightning_fabric": lightning_fabric.__version__,
        "date": time.strftime("%Y-%m-%d"),
        "preset": config.preset,
        "dims": config.data.dims,
        "precision": str(activations(fabric)).removeprefix("torch."),
        "compile": config.runtime.compile and cuda,
        "network": config.network.name,
        "width": config.network.width,
        "depth": config.network.depth,
    }


def processor() -> str:
    """The name of the CPU."""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    return platform.processor() or platform.machine()


def say(line: str) -> None:
    """Print at once."""
    print(f"[{time.strftime('%H:%M:%S')}] {line}", flush=True)


def table(entries: list[dict[str, Any]]) -> str:
    """The whole result in a few lines."""
    env, ceiling = entries[0]["environment"], entries[0]["ceilings"]
    lines = [
        f"{env['device']}, {env['threads']} threads, torch {env['torch']}, preset {env['preset']}, "
        f"mixseg in {env['precision']}{' compiled' if env['compile'] else ''}; "
        f"matrix product {ceiling['matmul_flops'] / 1e12:.3g} TFLOP/s, "
        f"copy {ceiling['copy_bytes_per_s'] / 1e9:.3g} GB/s",
        f"{'method':14} {'version':11} {'ms/step':>8} {'round 1':>8} {'round 2':>8} {'start s':>8} {'peak GiB':>9} "
        f"{'x arith.':>9} {'x attain.':>9} {'a / it':>7}",
    ]
    for entry in entries:
        lines += method_lines(entry) if "versions" in entry else [f"{entry['method']:14} failed: {entry['error']}"]
    return "\n".join(lines)


def method_lines(entry: dict[str, Any]) -> list[str]:
    """The rows of one method."""
    lines = []
    nan = float("nan")
    baseline = entry["versions"].get("plain fp32", {"ms": nan})["ms"]
    for name, version in entry["versions"].items():
        if version["error"]:
            lines.append(f"{entry['method']:14} {name:11} failed: {version['error'][:90]}")
            continue
        ms, (first, second) = version["ms"], version["ms_of_each_round"]
        lines.append(
            f"{entry['method']:14} {name:11} {ms:8.2f} {first:8.2f} {second:8.2f} {version['start_s']:8.1f} "
            f"{version['peak_gib']:9.2f} {version.get('times_arithmetic', nan):9.2f} "
            f"{version.get('times_attainable', nan):9.2f} {baseline / ms:7.2f}"
        )
    for name in ("feed", "look"):
        if name in entry:
            lines.append(f"{entry['method']:14} {name}: {json.dumps(entry[name])}")
    return [*lines, f"{entry['method']:14} {floor_line(entry['floors'])}; plain is {entry['plain_is']}"]


def floor_line(floor: dict[str, Any]) -> str:
    """What the floors are made of."""
    if "error" in floor:
        return f"floors: {floor['error'][:90]}"
    alone, between = sum(floor["convolutions_ms"].values()), sum(floor["bytes_ms"].values())
    return (
        f"floors: arithmetic {floor['arithmetic_ms']:.2f} ms ({floor['flop'] / 1e12:.3g} TFLOP), "
        f"attainable {floor['attainable_ms']:.2f} ms (convolutions {alone:.2f}, bytes between them {between:.2f}, "
        f"other products {floor['other_products_ms']:.2f})"
    )


def setting(text: str) -> tuple[str, Any]:
    """KEY=VALUE, the value as in JSON where it is JSON."""
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
    parser.add_argument("--set", type=setting, nargs="+", default=[], metavar="KEY=VALUE", help="of mixseg's config")
    parser.add_argument("--inductor", type=setting, nargs="+", default=[], metavar="KEY=VALUE", help="of the compiler")
    races = ["plain fp32", "plain bf16", "mixseg"]
    parser.add_argument("--versions", nargs="+", choices=[*races, "none"], default=races, help="none: floors alone")
    parser.add_argument("--all-biases", action="store_true", help="those before a normalisation too")
    parser.add_argument("--short", action="store_true", help="times of steps alone: no floors, profiles and looks")
    parser.add_argument("--limit", type=float, help="seconds after which nothing new is begun")
    parser.add_argument("--round-s", type=float, default=2.0, help=f"length of one of {ROUNDS} rounds of a version")
    parser.add_argument("--out", type=Path, help="JSON")
    parser.add_argument("--tables", type=Path, help="folder for the tables of kernels, as text")
    return parser.parse_args()


def settle(method: str, args: argparse.Namespace, preset: str) -> Config:
    """The config of a method as the command line has it."""
    changes: dict[str, Any] = dict(args.set)
    if args.width:
        changes["width"] = args.width
    if args.size:
        changes["size" if args.dims == 2 else "patch"] = [args.size] * args.dims
    return make_config(method=method, preset=preset, dims=args.dims, **changes)


def keep(entries: list[dict[str, Any]], args: argparse.Namespace) -> None:
    """Write what is there so far: it stays if the rest is cut off. The tables of kernels become text files."""
    for entry in entries:
        for name, found in entry.get("profile", {}).items():
            kernels = found.pop("table", "")
            if kernels and args.tables:
                args.tables.mkdir(parents=True, exist_ok=True)
                (args.tables / f"{entry['method']}-{name.replace(' ', '-')}.txt").write_text(kernels + "\n")
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        strict = json.loads(json.dumps({"entries": entries}), parse_constant=lambda _: None)  # JSON has no nan
        args.out.write_text(json.dumps(strict, indent=1) + "\n")


def main() -> None:
    """Measure, write, print the table last."""
    args = parse()
    args.deadline = Deadline(args.limit)
    for key, value in args.inductor:
        from torch._inductor import config as inductor

        setattr(inductor, key, value)
        loop.COMPILER[key] = value
    if args.all_biases:
        loop.drop_idle_biases = lambda method: None
    precision = settle_precision(dict(args.set).get("precision", "auto"), args.device, dims=args.dims)
    fabric = make_fabric(Hardware(device=args.device), precision)
    flags = Flags()
    preset = args.preset or ("paper" if fabric.device.type == "cuda" else "quick")
    args.ceilings = ceilings(fabric.device, activations(fabric))
    clean(fabric.device)
    entries: list[dict[str, Any]] = []
    for name in args.methods:
        if not args.deadline.leaves(10):
            say(f"{name}: left out, for want of time")
            continue
        config = settle(name, args, preset)
        about = {"method": name, "environment": environment(fabric, config), "ceilings": args.ceilings}
        if args.inductor:
            about["inductor"] = dict(args.inductor)
        entries.append({**about, **attempt(lambda config=config: measure(config, fabric, flags, args))})
        keep(entries, args)
    if not entries:
        raise SystemExit("There was no time for anything: raise --limit.")
    print(f"\nWhole benchmark {args.deadline.spent:.0f} s.\n{table(entries)}")


if __name__ == "__main__":
    main()
