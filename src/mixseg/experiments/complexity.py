"""What each method stores and how long it takes for a sample: nothing is trained, the networks are new.

Beside the parameters of all networks that are kept in training, two times: of passing an image through all of them
once, every branch included, as the paper counts; and of what answers for an image, the student's branch alone.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from mixseg.core.errors import known
from mixseg.core.files import write_json
from mixseg.core.progress import track
from mixseg.core.types import Device
from mixseg.methods import METHODS, Method, MethodOptions
from mixseg.methods.dual_branch import DualBranch
from mixseg.methods.ssco import SSCO
from mixseg.networks import Network
from mixseg.runs.build import build
from mixseg.runs.config import Config, make_config
from mixseg.runs.device import Hardware, make_fabric
from mixseg.runs.folder import environment

FILE = "complexity.json"
ROWS = {
    "single": "single",
    "glmi": "glmi",
    "dual-branch": "kl-ent",
    "ua-mt": "ua-mt",
    "ssco": "ssco",
    "ssco, 2 + 2": "ssco",
}
"""The paper's rows and a method of each; ours of ssco has half as many networks as the paper counts."""
PAPER = "ssco"
STUDENTS_OF_THE_PAPER = 4
CLASSES, CHANNELS = 2, 1
REPEATS = 7


@dataclass(frozen=True)
class Measure:
    """One row.

    Attributes:
        row: As the paper calls it.
        method: Whose networks these are.
        parameters: Of all networks, moving averages included; heads that are dropped after training are not counted.
        heads: Parameters of those heads.
        all_ms: Milliseconds per sample through all networks and branches.
        answer_ms: Milliseconds per sample of what answers.
    """

    row: str
    method: str
    parameters: int
    heads: int
    all_ms: float
    answer_ms: float


def rows_named(names: Collection[str]) -> dict[str, str]:
    """The rows of these labels or methods, each with its method; all if none is named."""
    for name in names:
        known("row of complexity", name, dict.fromkeys((*ROWS, *ROWS.values())))
    return {row: method for row, method in ROWS.items() if not names or {row, method} & set(names)}


def measure_all(
    out: Path, *, preset: str, settings: Mapping[str, Any], only: Collection[str] = (), device: Device = "auto"
) -> list[Measure]:
    """Measure every row, or ``only`` some, and write ``out/complexity.json``: batches of one, in fp32."""
    fabric = make_fabric(Hardware(device), "fp32")
    configs = {row: make_config(**{**settings, "preset": preset, "method": m}) for row, m in rows_named(only).items()}
    found = [
        measure(row, config, fabric.device) for row, config in track(configs.items(), "measuring", total=len(configs))
    ]
    facts = environment(fabric.device, "")
    shown = next(iter(configs.values()))
    about = {"network": shown.network.name, "grid": list(shown.data.grid), "batch": 1, "precision": "fp32"}
    kept = {key: facts[key] for key in ("python", "versions", "device", "threads", "commit")}
    write_json(out / FILE, {**about, **kept, "rows": [asdict(each) for each in found]})
    return found


def measure(row: str, config: Config, device: torch.device) -> Measure:
    """One method, freshly made."""
    method = make(row, config).to(device).eval()
    networks = [module for module in method.modules() if isinstance(module, Network)]
    parameters = sum(each.numel() for network in networks for each in network.parameters())
    heads = sum(each.numel() for each in method.parameters()) - parameters
    image = torch.rand(1, CHANNELS, *config.data.grid, device=device)
    with torch.inference_mode():
        every = milliseconds(lambda: [network(image) for network in networks], device)
        answer = milliseconds(lambda: method.predict(image, method.outputs[:1]), device)
    return Measure(row, config.method.name, parameters, heads, every, answer)


def make(row: str, config: Config) -> Method:
    """The method of ``config``; in the paper's row of ssco with as many networks as it counts."""
    if row != PAPER:
        return build(config, channels=CHANNELS, classes=CLASSES)
    single = build(config.changed(method="single", weights={}), channels=CHANNELS, classes=CLASSES)
    assert isinstance(single, DualBranch), "single has one network of one branch"
    network = single.network
    return SSCO(
        lambda branches: deepcopy(network), METHODS["ssco"].weights, MethodOptions(), students=STUDENTS_OF_THE_PAPER
    )


def milliseconds(call: Callable[[], object], device: torch.device) -> float:
    """The median over some calls, after two that warm up."""
    times = []
    for _ in range(2 + REPEATS):
        started = time.perf_counter()
        call()
        if device.type != "cpu":
            torch.accelerator.synchronize()
        times.append(1e3 * (time.perf_counter() - started))
    return statistics.median(times[2:])
