"""Settings with which no scans can be trained on: told before a scan is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch

from mixseg.config import Config, from_dict, make_config, refuse_unused, to_dict
from mixseg.data.batches import check_share
from mixseg.errors import MixsegError
from mixseg.files import read_json
from mixseg.folder import RunFolder
from mixseg.hardware import Hardware, accelerator_of
from mixseg.methods import METHODS, Method
from mixseg.model import build
from mixseg.networks import Network
from mixseg.proposals import FILE, find_source, refuse_unfinished
from mixseg.tracking import refuse_absent
from mixseg.training_data import prepare_options
from mixseg.training_plan import PLANNED, taken_over

SETTLED = ("batch", "largest")
"""Keys that the scans have a say in: whether they differ from those of a run that has begun shows later."""
SHAPELESS = frozenset({"target", "partial", "split", "fold", "set", "ratio", "proposals_from", "seed", "steps"})
"""Keys that networks are built and fed without."""


def refuse_early(settings: Mapping[str, Any], out: Path, hardware: Hardware) -> None:
    """Nothing, or one sentence about what no run in ``out`` can have, whatever the scans are.

    Where the plan will choose slices or volumes, it is what suits neither.
    """
    accelerator_of(hardware.device)
    given, settings = settings, taken_over(settings, out)
    spacing = settings.get("spacing")
    likely = len(spacing) if isinstance(spacing, list | tuple) else 2
    choices = [settings["dims"]] if "dims" in settings else sorted((2, 3), key=lambda dims: dims != likely)
    errors = []
    for dims in choices:
        try:
            _refuse({**settings, "dims": dims}, out, hardware)
        except MixsegError as error:
            errors.append(error)
    if len(errors) == len(choices):
        raise errors[0]
    if "dims" in settings:
        refuse_unused(given, settings["dims"])


def _refuse(settings: Mapping[str, Any], out: Path, hardware: Hardware) -> None:
    config = make_config(**settings)
    prepare_options(config)
    refuse_absent(config)
    RunFolder(out).refuse_changed(config, but=SETTLED)
    source = find_source(config, out)
    if source is not None and not (out / FILE).exists():  # a run that has begun has its masks
        refuse_unfinished(source)
    if config.split:
        read_json(Path(config.split))
    planned = config.preset == PLANNED
    if not planned or "batch" in settings:
        check_share("full", config.batch.full, hardware.devices * hardware.nodes)
    sized = not planned or ("size" if config.dims == 2 else "patch") in settings
    _refuse_network(_shape(config), sized, sized and (not planned or "batch" in settings))


def _shape(config: Config) -> str:
    """``config`` without what makes no other network, as JSON: many rows of an experiment share one."""
    told = {key: value for key, value in to_dict(config).items() if key not in SHAPELESS}
    return json.dumps(told | {"weights": {term: float(weight > 0) for term, weight in told["weights"].items()}})


@cache
def _refuse_network(shape: str, sized: bool, filled: bool) -> None:
    """Nothing, or one sentence about a network that cannot be built, or not be fed where the grid or batch is known."""
    config = from_dict(json.loads(shape))
    try:
        with torch.device("meta"), torch.no_grad():  # where nothing is stored or computed
            method = build(config, channels=1, classes=2).eval()
            if sized:
                method.predict(torch.empty(1, 1, *config.grid))
            if filled:
                _train_once(method, config)
    except (ValueError, RuntimeError) as error:
        raise MixsegError(f"No network fits width, depth, grid and batch ({error}): choose others.") from error


def _train_once(method: Method, config: Config) -> None:
    """What a step asks of the networks: a batch normalisation of one voxel, say, has nothing to normalise by."""
    alone = METHODS[config.method].sees in ("full", "all-full")
    rows = [count for kind, count in config.batch.counts.items() if count and (kind == "full" or not alone)]
    for network in (module for module in method.train().modules() if isinstance(module, Network)):
        network(torch.empty(min(rows), 1, *config.grid))
