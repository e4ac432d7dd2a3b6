"""The plan of a run: settings that were not given, from the size of its scans and the memory of this machine.

Slices or volumes, and how many at once; how large they are is chosen in ``grid``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from mixseg.core.messages import say
from mixseg.data.scan import FEW_SLICES, Header, middle_slices, middle_spacing
from mixseg.networks import NETWORKS
from mixseg.runs.config import Config, check_keys_apply, keys_where, make_config, settings_of
from mixseg.runs.device import Hardware, accelerator_of, settle_precision
from mixseg.runs.folder import RunFolder
from mixseg.training.plan.grid import MemoryBudget, asked_for, choose_slices, choose_volumes
from mixseg.training.plan.intensities import Images, choose_intensities
from mixseg.training.plan.memory import numbers_held
from mixseg.training.pseudo_labels import inherited

CHOSEN = keys_where(lambda key: key.planned)
"""The config keys that a plan chooses, where they are not given."""
PLANNED = "strong"
"""The preset that is planned; the others fix the training grid, and only 2D or 3D is chosen for them."""
PUBLISHED = "paper"
"""The preset whose images are as the paper has them, whatever they show."""
NEARLY_ISOTROPIC = 3.0
"""From so many times a pixel's width on, the next slice says little about this one."""
LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Where a container reads how much of the memory it may take."""
MODEST = 8.0 * 2**30
"""Bytes, where the system (Windows) does not say how many it has."""


@dataclass(frozen=True)
class Plan:
    """Config keys that were not given, and why they are what they are."""

    settings: Mapping[str, Any]
    reasons: tuple[str, ...]

    def sentences(self) -> str:
        """The plan for a terminal."""
        otherwise = "To choose otherwise: --dims, --spacing, --size, --patch, --set batch.full=N."
        return "\n".join(["Plan:", *(f"  - {reason}" for reason in self.reasons), f"  {otherwise}"])


def planned(
    headers: Callable[[], Sequence[Header]],
    settings: Mapping[str, Any],
    run: RunFolder,
    hardware: Hardware,
    images: Images = tuple,
) -> tuple[Config, list[str]]:
    """The config of ``run`` on scans with ``headers``, of files or arrays, and the plan's sentences.

    A run that has begun goes on as it was planned, whatever memory there is by now; one from proposals has what is not
    given from the run that proposes.
    """
    on_purpose = "preset" in settings and hardware.device == "cpu"
    given, settings = settings, taken_over(settings, run)
    if run.begun:
        config = make_config(**settings)
        check_keys_apply(given, config.data.dims)
        return config, run.facts.get("plan", [])
    scans = headers()
    if settings.get("preset", PLANNED) != PLANNED:
        grey, why = ({}, []) if settings["preset"] == PUBLISHED else choose_intensities(images, settings)
        config = make_config(**{"dims": choose_dims(scans)[0], **grey, **settings})
        say(*why)
        check_keys_apply(given, config.data.dims)
        if note := stretched(scans, config, asked="size" in settings):
            say(note)
        return config, []
    plan = plan_for(scans, settings, hardware, images)
    check_keys_apply(given, plan.settings["dims"])
    say(plan.sentences())
    if not on_purpose and accelerator_of(hardware.device) == "cpu":
        say(f"On a CPU this may take days: preset {PLANNED} is made for a GPU, --preset quick for a CPU.")
    return make_config(**{**plan.settings, **settings}), list(plan.reasons)


def stretched(scans: Sequence[Header], config: Config, *, asked: bool = False) -> str:
    """A sentence about slices that are brought to one size whatever they show, be it ``asked`` for or not, or ""."""
    found = {scan.shape[:2] for scan in scans} - {config.data.size}
    if config.data.dims == 3 or config.data.spacing or config.data.long_side or not found:
        return ""
    grid, largest = ("x".join(map(str, size)) for size in (config.data.size, max(found)))
    whose = "as asked for" if asked else f"preset {config.preset}"
    shrunk = any(side > kept for size in found for side, kept in zip(size, config.data.size, strict=True))
    more = ": a larger --size, or --spacing, keeps more of them" if shrunk else ""
    return (
        f"Slices, of {largest} pixels for example, are stretched to {grid} ({whose}), and distances are scored there"
        f"{more}."
    )


def taken_over(settings: Mapping[str, Any], run: RunFolder) -> dict[str, Any]:
    """``settings`` with what ``run`` has from the run that proposes, and from its own beginning."""
    settings = inherited(settings, run)
    kept = settings_of(run.config) if run.begun else {}
    return {**{key: kept[key] for key in CHOSEN if key in kept}, **settings}


def plan_for(
    headers: Sequence[Header], settings: Mapping[str, Any], hardware: Hardware, images: Images = tuple
) -> Plan:
    """The plan of a run with ``settings`` on scans with ``headers``."""
    dims = settings.get("dims", choose_dims(headers)[0])
    usual = make_config(**{**settings, "dims": dims})
    given = {key: settings[key] for key in CHOSEN if key in settings}
    if "batch" in given:  # some kinds alone may be given
        given["batch"] = settings_of(usual)["batch"]
    plan = make_plan(headers, given, settings_of(usual), budget_of(usual, hardware))
    grey, why = choose_intensities(images, settings)
    return Plan({**plan.settings, **grey}, (*plan.reasons, *why))


def make_plan(
    scans: Sequence[Header], given: Mapping[str, Any], defaults: Mapping[str, Any], budget: MemoryBudget
) -> Plan:
    """The plan for ``scans``.

    Args:
        scans: All of them, those to predict included.
        given: Of the keys that a plan chooses, those that are settled; None counts as settled too.
        defaults: "size", "patch" and "batch" of the preset and the method.
        budget: The network and the memory.
    """
    dims, why = choose_dims(scans)
    if "dims" in given:
        dims = given["dims"]
        why = asked_for("Slices are learned one by one" if dims == 2 else "Volumes are learned")
    chosen, reasons = (choose_slices if dims == 2 else choose_volumes)(scans, given, defaults, budget)
    grid = {**chosen, **given}["size" if dims == 2 else "patch"]
    batch, memory = fitting(grid, given, defaults, budget)
    return Plan({"dims": dims, **chosen, **batch}, (why, *reasons, memory))


def choose_dims(scans: Sequence[Header]) -> tuple[int, str]:
    """2 or 3, and why."""
    slices = middle_slices(scans)
    if slices < FEW_SLICES:
        return 2, f"Slices are learned one by one: a scan has few of them ({slices})."
    i, j, k = middle_spacing(scans)
    width = f"{i:.3g}" if f"{i:.3g}" == f"{j:.3g}" else f"{i:.3g} x {j:.3g}"
    apart = f"they are {k:.3g} mm apart and pixels {width} mm wide"
    if k > NEARLY_ISOTROPIC * min(i, j):
        return 2, f"Slices are learned one by one: {apart}, so that one says little about the next."
    return 3, f"Volumes are learned: a scan has {slices} slices, {apart}."


def fitting(
    grid: Sequence[int], given: Mapping[str, Any], defaults: Mapping[str, Any], budget: MemoryBudget
) -> tuple[dict[str, Any], str]:
    """``batch``, halved until it fits unless it is given, where that changes it; and a sentence about the memory."""
    wanted = {**defaults["batch"], **given.get("batch", {})}
    asked: dict[str, int] = {kind: rows for kind, rows in wanted.items() if rows is not None}
    batch = asked
    while "batch" not in given and not budget.fits(sum(batch.values()), grid) and max(batch.values()) > 1:
        batch = {kind: (rows + 1) // 2 for kind, rows in batch.items()}
    rows = sum(batch.values())
    sentence = f"A step on {rows} of them takes about {budget.bytes(rows, grid) / 1e9:.1f} GB"
    sentence += f" of the {budget.memory / 1e9:.0f} GB of {budget.where}"
    if batch != asked:
        sentence += f"; {sum(asked.values())}, as usual, would not fit"
    if not budget.fits(rows, grid):
        sentence += ": it may not fit; choose fewer or smaller ones, or a smaller width"
    return ({} if batch == asked else {"batch": batch}), f"{sentence}."


def budget_of(config: Config, hardware: Hardware) -> MemoryBudget:
    """The network and the method of ``config``, and what they can be trained with on ``hardware``."""
    network = NETWORKS[config.network.name]
    accelerator = accelerator_of(hardware.device)
    precision = settle_precision(config.runtime.precision, hardware.device, dims=config.data.dims)
    memory, where = _gpu() if accelerator == "cuda" else (_ram() / hardware.devices, "memory")
    return MemoryBudget(
        memory=memory,
        where=where,
        channels=config.network.width or network.width,
        held=numbers_held(config.method.name, config.data.dims),
        halvings=config.network.depth or network.depth,
        number={"bf16": 2, "fp64": 8}.get(precision, 4),
        devices=hardware.devices * hardware.nodes,
    )


def _gpu() -> tuple[float, str]:
    """All of its memory, not what is free just now: the same plan for every process and every time."""
    properties = torch.cuda.get_device_properties(0)
    return float(properties.total_memory), f"the GPU ({properties.name})"


def _ram() -> float:
    """Bytes that this process could have: the machine's, or the container's."""
    limits = [float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))] if hasattr(os, "sysconf") else []
    limits += [float(text) for path in LIMITS if path.exists() and (text := path.read_text().strip()).isdigit()]
    return min(limits, default=MODEST)
