"""Settings with which no scans can be trained on: told before a scan is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mixseg.core.errors import MixsegError, listed
from mixseg.core.text_files import read_json
from mixseg.core.types import IGNORE, Kind
from mixseg.data.batches import check_share
from mixseg.data.supervision import Data
from mixseg.methods import METHODS, Method
from mixseg.methods.base import NEEDS_FULL, Role
from mixseg.networks import Network
from mixseg.runs.build import build
from mixseg.runs.config import Config, check_keys_apply, from_dict, make_config, to_dict
from mixseg.runs.config_groups import DataConfig, TrainingConfig
from mixseg.runs.device import Hardware, accelerator_of
from mixseg.runs.folder import RunFolder
from mixseg.training.plan.settings import PLANNED, taken_over
from mixseg.training.pseudo_labels import FILE, check_finished, find_source
from mixseg.training.trackers import check_installed


def check_before_reading(settings: Mapping[str, Any], run: RunFolder, hardware: Hardware) -> None:
    """Nothing, or one sentence about what ``run`` can never have, whatever the scans are.

    Where the plan will choose slices or volumes, it is what suits neither.
    """
    accelerator_of(hardware.device)
    given, settings = settings, taken_over(settings, run)
    spacing = settings.get("spacing")
    likely = len(spacing) if isinstance(spacing, list | tuple) else 2
    choices = [settings["dims"]] if "dims" in settings else sorted((2, 3), key=lambda dims: dims != likely)
    errors = []
    for dims in choices:
        try:
            _check_settings({**settings, "dims": dims}, run, hardware)
            break
        except MixsegError as error:
            errors.append(error)
    else:
        raise errors[0]
    if "dims" in settings:
        check_keys_apply(given, settings["dims"])


def _check_settings(settings: Mapping[str, Any], run: RunFolder, hardware: Hardware) -> None:
    config = make_config(**settings)
    _ = config.data.prepare_options  # which checks itself
    check_installed(config)
    # Whether what the scans have a say in differs from a run that has begun shows later.
    run.check_unchanged(config, compared=lambda key: key.fixed and not key.settled)
    source = find_source(config, run)
    if source is not None and not (run.path / FILE).exists():  # a run that has begun has its masks
        check_finished(source)
    if config.data.split:
        read_json(Path(config.data.split))
    planned = config.preset == PLANNED
    if not planned or "batch" in settings:
        check_share("full", config.training.batch.full, hardware.devices * hardware.nodes)
    sized = not planned or ("size" if config.data.dims == 2 else "patch") in settings
    _check_network(_shape(config), sized, sized and (not planned or "batch" in settings))


def _shape(config: Config) -> str:
    """What networks are built and fed with, as JSON: many rows of an experiment share one."""
    data, method = config.data, config.method
    weights = {term: float(weight > 0) for term, weight in method.weights.items()}
    shape = Config(
        data=DataConfig(dims=data.dims, size=data.size, patch=data.patch),
        method=replace(method, weights=weights, proposals_from=""),
        ablation=config.ablation,
        network=config.network,
        training=TrainingConfig(batch=config.training.batch),
    )
    return json.dumps(to_dict(shape))


@cache
def _check_network(shape: str, sized: bool, filled: bool) -> None:
    """Nothing, or one sentence about a network that cannot be built, or not be fed where the grid or batch is known."""
    config = from_dict(json.loads(shape))
    try:
        with torch.device("meta"), torch.no_grad():  # where nothing is stored or computed
            method = build(config, channels=1, classes=2).eval()
            if sized:
                method.predict(torch.empty(1, 1, *config.data.grid))
            if filled:
                _train_once(method, config)
    except (ValueError, RuntimeError) as error:
        raise MixsegError(
            f"No network fits width, depth, grid and batch ({error}): choose others.", "unfit-network"
        ) from error


def _train_once(method: Method, config: Config) -> None:
    """What a step asks of the networks: a batch normalisation of one voxel, say, has nothing to normalise by."""
    alone = METHODS[config.method.name].sees in ("full", "all-full")
    rows = [count for kind, count in config.training.batch.counts.items() if count and (kind == "full" or not alone)]
    for network in (module for module in method.train().modules() if isinstance(module, Network)):
        network(torch.empty(min(rows), 1, *config.data.grid))


def check_classes(data: Data) -> None:
    """Nothing, or one sentence about a class that no label of the training scans shows.

    Raises:
        MixsegError: There is one.
    """
    if missing := unlearnable(data):
        raise MixsegError(
            f"No training scan has a voxel labelled {missing[0]} on the training grid: label some, choose smaller "
            "voxels (spacing) if it is thin, or leave the class out (--set 'target=[\"...\"]' names those to segment).",
            "class-missing",
            name=missing[0],
        )


def unlearnable(data: Data) -> list[str]:
    """The classes that no label of the training scans shows."""
    seen = np.zeros(IGNORE + 1, bool)
    for scans in data.train.values():
        for scan in scans:
            for labels in (scan.full, scan.partial):
                if labels is not None:
                    seen |= np.bincount(labels.ravel(), minlength=len(seen)) > 0
    return [name for index, name in enumerate(data.classes) if not seen[index]]


def remarks(config: Config, data: Data) -> list[str]:
    """Sentences about what of the data a run has no use for, and what of the run the data cannot serve."""
    about_training = (terms_off(config, data), left_out(config, data), unseen(config, data))
    return [sentence for sentence in (*about_training, not_judging(data), no_best(data)) if sentence]


def terms_off(config: Config, data: Data) -> str:
    """A sentence about the terms of the loss that this data gives nothing to, or ""."""
    role = METHODS[config.method.name].role
    fed: set[Role] = {*NEEDS_FULL, *(("confidence",) if config.ablation.entropy_on == "all" else ())}
    if any(scan.partial is not None for scans in data.train.values() for scan in scans):
        fed.add("partial labels")
    off = [name for name, weight in config.method.all_weights.items() if weight and role(name) not in fed]
    if any(data.train.get(kind) for kind in ("partial", "unlabeled")):
        off = [name for name in off if role(name) == "partial labels"]
        return f"No scan has partial labels: the term {', '.join(off)} is off." if off else ""
    return f"No scan is partly labelled or unlabeled: what needs one is off ({', '.join(off)})." if off else ""


def left_out(config: Config, data: Data) -> str:
    """A sentence about the train scans whose masks are not complete enough for this method, or ""."""
    unused = data.protocol.get("unused", ())
    if not unused:
        return ""
    return (
        f"{config.method.name} learns from full masks alone: {len(unused)} scan{'s' * (len(unused) > 1)} in which a "
        f"class was not looked for {'are' if len(unused) > 1 else 'is'} not used ({listed(unused)})."
    )


def not_judging(data: Data) -> str:
    """A sentence about those whom the split has in val or test and who have no full mask to be scored by, or ""."""
    names = data.protocol.get("unscored", ())
    if not names:
        return ""
    many = len(names) > 1
    return (
        f"Of those to validate and test on, {len(names)} {'have' if many else 'has'} no full mask and "
        f"{'are' if many else 'is'} neither scored nor trained on: {listed(names, most=8)}."
    )


def no_best(data: Data) -> str:
    """A sentence about validation scans that can choose no checkpoint, or ""."""
    if not data.val or any(scan.shows_foreground for scan in data.val):
        return ""
    names = [scan.name for scan in data.val]
    return (
        f"No validation scan ({listed(names)}) shows any foreground ({listed(data.classes[1:])}): no best checkpoint "
        "can be chosen, and the last one is used; validate on patients who have some."
    )


def unseen(config: Config, data: Data) -> str:
    """A sentence about the train scans of a kind that no row of a step is for, or ""."""
    sentences = []
    kinds: dict[Kind, str] = {"partial": "partly labelled", "unlabeled": "unlabeled"}
    for kind, words in kinds.items():
        names = [scan.name for scan in data.train.get(kind, ())]
        if names and not config.training.batch.counts[kind]:
            scans = f"{len(names)} {words} scan{'s are' if len(names) > 1 else ' is'}"
            sentences.append(f"batch.{kind} is 0: {scans} not seen ({listed(names)}).")
    return " ".join(sentences)
