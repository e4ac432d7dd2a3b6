"""What train_step.py compares: mixseg's step and the plain ones, on scans made by formula."""

from __future__ import annotations

import itertools
import time

import numpy as np
import torch
from lightning_fabric import Fabric

from mixseg.core.types import IGNORE, KINDS, Batch, Kind, Part
from mixseg.data.augment import AUGMENTATIONS
from mixseg.data.batches import Feed
from mixseg.data.scan import Scan
from mixseg.runs.build import build, evaluating, speed_up
from mixseg.runs.config import Config
from mixseg.training.step import make_optimizer, make_step
from mixseg.training.validation import Validation
from plain_loop import PlainLoop, make_loaders, plain_family
from stopwatch import Step, synchronize, time_calls

SLICES = {"full": 200, "partial": 500, "unlabeled": 500}
VOLUMES = {"full": 16, "partial": 32, "unlabeled": 32}
SLICES_PER_SCAN = 10
LOOKED_AT = 100
Scans = dict[Kind, list[Scan]]


def make_scan(kind: Kind, number: int, shape: tuple[int, ...], dims: int) -> Scan:
    """A bright, wobbling ellipsoid in noise, with its mask and a stroke for each class."""
    rng = np.random.default_rng([KINDS.index(kind), number])
    axes = np.meshgrid(*(np.linspace(-1, 1, n, dtype=np.float32) for n in shape), indexing="ij", sparse=True)
    centre, radii = rng.uniform(-0.3, 0.3, len(shape)), rng.uniform(0.25, 0.5, len(shape))
    if dims == 2:  # the first axis counts slices: the shape changes along it but fills all of them
        centre[0], radii[0] = 0, 4
    distance = np.sqrt(sum(((axis - c) / r) ** 2 for axis, c, r in zip(axes, centre, radii, strict=True)))
    full = (distance < 1 + 0.1 * np.sin(9 * axes[-1])).astype(np.uint8)
    image = np.clip(70 + 80 * full + rng.normal(0, 25, shape).astype(np.float32), 0, 255).astype(np.uint8)
    partial = np.full(shape, IGNORE, np.uint8)
    partial[distance < 0.3], partial[(distance > 1.5) & (distance < 1.55)] = 1, 0
    stacked = image[:, None] if dims == 2 else image[None]
    labels = (full if kind == "full" else None, None if kind == "unlabeled" else partial)
    return Scan(f"{kind}{number}", stacked, *labels, mean=(float(image.mean()),), std=(float(image.std()),))


def make_scans(config: Config) -> Scans:
    """The scans of each kind that the method draws from."""
    kinds = [kind for kind in KINDS if getattr(config.training.batch, kind)]
    if config.data.dims == 3:
        shape = tuple(side + side // 4 for side in config.data.patch)
        return {kind: [make_scan(kind, i, shape, 3) for i in range(VOLUMES[kind])] for kind in kinds}
    shape = (SLICES_PER_SCAN, *config.data.size)
    return {kind: [make_scan(kind, i, shape, 2) for i in range(SLICES[kind] // SLICES_PER_SCAN)] for kind in kinds}


def make_feed(scans: Scans, config: Config, device: torch.device) -> Feed:
    """The feed of a run."""
    augmentation = AUGMENTATIONS[config.training.augment]
    return Feed(
        scans,
        config.training.batch.counts,
        grid=config.data.grid,
        seed=config.training.seed,
        intensity=config.data.intensity,
        augmentation=augmentation,
        device=device,
        compiled=config.runtime.compile and device.type == "cuda",
    )


def mixseg_step(scans: Scans, config: Config, fabric: Fabric) -> Step:
    """What ``training.loop.fit`` repeats, less validation and checkpoints."""
    feed = make_feed(scans, config, fabric.device)
    method = build(config, channels=feed.channels, classes=2)
    speed_up(method, config, fabric)
    method.to(fabric.device).train()
    model, optimizer = fabric.setup(method, make_optimizer(method, config))
    train_on = make_step(model, optimizer, feed, config, fabric)
    count = itertools.count()

    def step() -> None:
        number = next(count) % config.training.steps
        train_on(number)
        method.after_step(number, number / config.training.steps)

    return step


def eager_step(scans: Scans, config: Config, device: torch.device, *, bf16: bool) -> Step:
    """A method without a script in plain_loop.py: mixseg's own, as it stands, over host-side loaders."""
    method = build(config, channels=1, classes=2).to(device).train()
    optimizer = make_optimizer(method, config)
    kinds = [kind for kind in KINDS if kind in scans]
    loaders = make_loaders(scans, config, device)
    none = torch.empty((0, *config.data.grid), dtype=torch.uint8, device=device)
    count = itertools.count()

    def step() -> None:
        drawn = {
            kind: Part(*(tensor.to(device) for tensor in next(loader)))
            for kind, loader in zip(kinds, loaders, strict=True)
        }
        batch = Batch(*(drawn.get(kind, Part(none[:, None].float(), none, none)) for kind in KINDS))
        number = next(count) % config.training.steps
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            terms = method(batch, number / config.training.steps)
        loss = sum(term.weight * term.value for term in terms.values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        method.after_step(number, number / config.training.steps)
        [loss.item(), *(term.value.item() for term in terms.values())]

    return step


def plain_step(scans: Scans, config: Config, device: torch.device, *, bf16: bool) -> Step:
    """The frozen loop, where it has the method."""
    if not plain_family(config.method.name):
        return eager_step(scans, config, device, bf16=bf16)
    method = build(config, channels=1, classes=2)
    loop = PlainLoop(scans, config, branches=len(method.network.decoders), device=device, bf16=bf16)
    own, expected = (sum(p.numel() for p in module.parameters()) for module in (loop.net, method))
    if own != expected:
        raise RuntimeError(f"the plain network has {own} parameters and mixseg's {expected}")
    return loop


def time_feed(scans: Scans, config: Config, device: torch.device, *, steps: int = 30) -> dict[str, float]:
    """Milliseconds of a batch: until the host has launched it, and until it is there."""
    feed = make_feed(scans, config, device)
    numbers = itertools.count()
    ms = time_calls(lambda: feed(next(numbers)), device, block_ms=20)
    synchronize(device)
    started = time.perf_counter()
    for _ in range(steps):
        feed(next(numbers))
    launched = 1e3 * (time.perf_counter() - started) / steps
    synchronize(device)
    return {"ms": ms, "host_ms": launched}


def time_validation(scans: Scans, config: Config, fabric: Fabric) -> dict[str, float]:
    """Milliseconds of a validation, as the training loop does it, of as many slices as five patients of ACDC have."""
    method = build(config, channels=1, classes=2)
    speed_up(method, config, fabric)
    method.to(fabric.device)
    others = [scan for kind in KINDS if kind != "full" for scan in scans.get(kind, ())]
    val = scans["full"][: LOOKED_AT // SLICES_PER_SCAN]
    validation = Validation(val, others, val, classes=("background", "disc"), config=config, device=fabric.device)

    def once(*, searched: bool = False) -> None:
        with evaluating(method, fabric):
            torch.backends.cudnn.benchmark = searched
            validation(method, 0.5, {}, {})

    ms = time_calls(once, fabric.device, block_ms=100)
    tuned = time_calls(lambda: once(searched=True), fabric.device, block_ms=100)
    return {
        "slices": len(validation.val.owner) + len(validation.watched.owner),
        "ms": ms,
        "ms_with_searched_kernels": tuned,
    }


class Flags:
    """The global switches of float32 products, as (c) wants them and as (a) and (b) have them."""

    def __init__(self) -> None:
        self.mixseg = (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32)

    def set(self, name: str) -> None:
        """Switch to those of a version."""
        matmul, cudnn = self.mixseg if name == "mixseg" else ("highest", False)
        torch.set_float32_matmul_precision(matmul)
        torch.backends.cudnn.allow_tf32 = cudnn
