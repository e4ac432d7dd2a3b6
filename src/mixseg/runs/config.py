"""Everything a run is told, as one frozen dataclass that goes to JSON and back. An unknown key is an error."""

from __future__ import annotations

import dataclasses
import json
import math
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from mixseg.core.errors import MixsegError, did_you_mean, known
from mixseg.core.files import read_json
from mixseg.core.types import Kind
from mixseg.data.prepare.options import PrepareOptions, check_spacing
from mixseg.methods import METHODS, terms_of
from mixseg.methods.losses import divergence
from mixseg.networks import NETWORKS
from mixseg.runs.presets import METHOD_WEIGHTS, PRESETS
from mixseg.runs.typed_json import as_typed, build, merged

WITHOUT_EFFECT = frozenset({"compile", "validate_every", "on_collapse", "tensorboard", "mlflow"})
"""Keys of a config that make no other run."""
OF_DIMS = {2: ("size", "long_side"), 3: ("patch", "stride")}
"""Keys that slices alone, or volumes alone, have a use for."""


@dataclass(frozen=True)
class BatchSizes:
    """Images per step by kind of supervision.

    Attributes:
        full: With full masks.
        partial: With partial labels, and half of them without any where there are such scans and ``bare`` is None.
        bare: Without labels; None leaves it to the scans. 0 is none, if there are partly labelled ones.
    """

    full: int = 8
    partial: int = 16
    bare: int | None = None

    @property
    def counts(self) -> dict[Kind, int]:
        """What there is of each kind before the scans have a say."""
        return {"full": self.full, "partial": self.partial, "bare": self.bare or 0}


@dataclass(frozen=True)
class Config:
    """One run. ``make_config`` fills it from a preset and a method; the run folder keeps the result.

    Attributes:
        method: A row of METHODS.
        preset: Where the defaults came from: "paper", "strong" or "quick".
        dataset: The layout that the scans were read with.
        target: The classes to segment, by name; the others become background. Empty: all.
        partial: Where partial labels come from: "drawn" (the files), a generator's name, or "none".
        split: A splits.json or splits_final.json; empty: the one beside the data, or a seeded patient-wise one.
        fold: Which fold of a splits_final.json, from 0; without a split file, of five that are drawn patient-wise.
        set: Set-N: N patients with full masks and ``ratio`` times as many with partial labels. None: as the files say.
        ratio: Partly labelled patients for each fully labelled one in Set-N.
        proposals_from: For the method proposals: the finished run that proposes masks, a path relative to the folder
            that holds this run's, or else to the current one.
        seed: Drives initialisation, order and noise; never the split.
        steps: Optimiser steps.
        batch: Images per step by kind.
        weights: Weights of the loss terms that differ from the method's own.
        divergence: See MethodOptions, as for the next nine.
        temperature: Of the softmax over softmax.
        detach: Whether the teacher is left alone by the divergence.
        confidence: "entropy" or "min-entropy".
        weak_over: "voxels" or "images".
        entropy_on: "partial" or "all".
        passes: "separate" or "joint" batch statistics.
        ramp: Share of training over which the confidence term grows.
        view: "same" or "strong": grey values of the scans that are cut into each other.
        feature_dropout: Of mutual: share of scans of which the branches see complementary channels.
        network: "unet" or "vnet".
        dims: 2 trains on slices, 3 on patches of volumes.
        size: In-plane size of the training grid in 2D: pixels of a slice.
        spacing: Voxel size in mm that scans are resampled to, 2 numbers in 2D and 3 in 3D; slices are then cropped or
            padded to ``size`` round their centre. None: slices are stretched to ``size``, volumes kept as they are.
        long_side: In 2D, the same for scans without a voxel size: pixels that the longer side of a slice becomes.
        clip: Percentiles of a volume, such as [1, 99], that become black and white; None is minimum and maximum.
        patch: Size of the patches in 3D.
        window: How windows of a volume that overlap are averaged: "gaussian" lets their middle count more, "uniform"
            all of them alike.
        stride: Voxels from one window to the next when a volume is predicted; None is half a patch, as it always is
            for the looks during training.
        width: Channels of the first level; None is the network's own.
        depth: Number of halvings; None is the network's own.
        norm: "batch", "instance", "group" or "none".
        geometry: "padded", or "authors" for the unpadded network of the paper's code.
        dropout: At the deepest encoder level.
        deep: Coarser levels of each decoder that learn the masks too, weighing 1/2, 1/4, ...; 0 is off.
        init: "xavier", "kaiming" or "default".
        intensity: What the network is fed: "unit" (0 to 1) or "zscore".
        optimizer: "adam", "adamw" or "sgd".
        lr: Learning rate at the start.
        weight_decay: Of the optimiser.
        beta2: How long adam and adamw remember the size of gradients: the larger, the longer.
        schedule: "constant", "drops" (a tenth at 5/12 and at 10/12 of training), "poly" or "cosine".
        augment: "none", "paper-3d", "strong", or "any-contrast": strong, and bright may become dark.
        average: Decay of a moving average of the weights, used for validation and prediction; 0 is off.
        largest: Numbers of the classes (the first structure is 1) of which a prediction keeps the largest connected
            piece alone; None: those that are one piece in every full mask of the training scans.
        precision: "fp64", "fp32", "tf32" or "bf16"; "auto" is bf16 on a GPU that has it, and for slices on a CPU that
            has it, and fp32 elsewhere.
        compile: Whether the network is compiled first, where the machine can; pays on long GPU runs.
        validate_every: Steps between two looks at the validation scans; 0 is every 1 %, at most 50 steps.
        on_collapse: What happens when the student runs away: "warn" or "stop".
        tensorboard: Whether the log is written for TensorBoard too, to ``tensorboard/`` in the run folder.
        mlflow: Whether it is written for MLflow too, to ``mlflow.db`` beside the run folder.
    """

    method: str = "kl-ent"
    preset: str = "strong"
    dataset: str = ""
    target: tuple[str, ...] = ()
    partial: str = "drawn"
    split: str = ""
    fold: int | None = None
    set: int | None = None
    ratio: int = 5
    proposals_from: str = ""
    seed: int = 0
    steps: int = 3000
    batch: BatchSizes = field(default_factory=BatchSizes)
    weights: Mapping[str, float] = field(default_factory=dict)
    divergence: str = "kl"
    temperature: float = 1.0
    detach: bool = True
    confidence: Literal["entropy", "min-entropy"] = "entropy"
    weak_over: Literal["voxels", "images"] = "voxels"
    entropy_on: Literal["partial", "all"] = "partial"
    passes: Literal["separate", "joint"] = "separate"
    ramp: float = 0.0
    view: Literal["same", "strong"] = "same"
    feature_dropout: float = 0.0
    network: str = "unet"
    dims: Literal[2, 3] = 2
    size: tuple[int, int] = (256, 256)
    spacing: tuple[float, ...] | None = None
    long_side: int | None = None
    clip: tuple[float, float] | None = None
    patch: tuple[int, int, int] = (112, 112, 80)
    window: Literal["gaussian", "uniform"] = "gaussian"
    stride: tuple[int, int, int] | None = None
    width: int | None = None
    depth: int | None = None
    norm: Literal["batch", "instance", "group", "none"] = "batch"
    geometry: Literal["padded", "authors"] = "padded"
    dropout: float = 0.5
    deep: int = 0
    init: Literal["xavier", "kaiming", "default"] = "xavier"
    intensity: Literal["unit", "zscore"] = "unit"
    optimizer: Literal["adam", "adamw", "sgd"] = "adam"
    lr: float = 1e-4
    weight_decay: float = 0.0
    beta2: float = 0.999
    schedule: Literal["constant", "drops", "poly", "cosine"] = "constant"
    augment: Literal["none", "paper-3d", "strong", "any-contrast"] = "none"
    average: float = 0.0
    largest: tuple[int, ...] | None = ()
    precision: Literal["auto", "fp64", "fp32", "tf32", "bf16"] = "auto"
    compile: bool = False
    validate_every: int = 0
    on_collapse: Literal["warn", "stop"] = "warn"
    tensorboard: bool = False
    mlflow: bool = False

    @property
    def looks(self) -> int:
        """Steps between two looks at the validation scans."""
        return self.validate_every or max(1, min(50, self.steps // 100))

    @property
    def all_weights(self) -> dict[str, float]:
        """Of every term of the method: those that are given, and its own."""
        return {**METHODS[self.method].weights, **self.weights}

    @property
    def prepare_options(self) -> PrepareOptions:
        """The training grid and the partial labels that this run asks for."""
        return PrepareOptions(
            dims=self.dims,
            size=self.size if self.dims == 2 else None,
            target=self.target or None,
            partial=self.partial,
            spacing=self.spacing,
            long_side=self.long_side if self.dims == 2 else None,
            clip=self.clip,
        )

    @property
    def grid(self) -> tuple[int, ...]:
        """Spatial size of what the network is trained on."""
        return self.size if self.dims == 2 else self.patch


def make_config(*, method: str = "kl-ent", preset: str = "strong", dims: int = 2, **changes: Any) -> Config:  # noqa: ANN401
    """The config of ``method`` under ``preset``, with ``changes`` on top (values as in JSON)."""
    known("method", method, METHODS)
    known("preset", preset, PRESETS)
    as_typed(Literal[2, 3], dims, "'dims'")
    full, partial, bare = METHODS[method].batch[dims]
    preferred = PRESETS[preset][dims]
    # A preset weighs terms that not every method has.
    weights = {k: v for k, v in preferred.get("weights", {}).items() if k in terms_of(method)}
    settled: dict[str, Any] = {
        **preferred,
        "weights": {**weights, **METHOD_WEIGHTS.get((preset, method), {})},
        # A method that takes partly labelled scans and counts no bare ones leaves those to the scans.
        "batch": {"full": full, "partial": partial, "bare": bare or (None if partial else 0)},
        **{"method": method, "preset": preset, "dims": dims},
    }
    return from_dict(merged(settled, changes))  # a change of one batch size or weight leaves the others as they are


def from_dict(content: Mapping[str, Any], *, where: str = "the config") -> Config:
    """The config that ``content`` (from JSON) describes; an unknown key or a wrong value is one sentence."""
    config: Config = build(Config, content, where)
    _check(config, where)
    return config


def to_dict(config: Config) -> dict[str, Any]:
    """What ``config.json`` holds."""
    return typing.cast(dict[str, Any], json.loads(json.dumps(dataclasses.asdict(config))))


def read_config(path: Path) -> dict[str, Any]:
    """The keys that a JSON config sets; ``make_config(**keys)`` fills in the rest."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise MixsegError(f'{path} is no config: it should be a JSON object such as {{"method": "kl-ent"}}.')
    build(Config, content, str(path))  # so that a misspelt key is told with the file's name
    return content


def refuse_unused(given: Mapping[str, Any], dims: int) -> None:
    """Nothing, or one sentence about a key of ``given`` that a run of ``dims`` axes has no use for.

    A config that names keys of both, as that of a run does, serves either.
    """
    ours, others = OF_DIMS[dims], OF_DIMS[5 - dims]
    unused = [key for key in others if given.get(key) is not None]
    if unused and not any(key in given for key in ours):
        theirs, learnt = ("slices", "volumes") if dims == 3 else ("volumes", "slices")
        raise MixsegError(
            f"{unused[0]} is a setting of {theirs}, and this run learns {learnt} (dims {dims}): leave it out, give "
            f"{ours[0]} instead, or choose dims {5 - dims}."
        )


AT_LEAST = {"seed": 0, "fold": 0, "steps": 1, "ratio": 0, "set": 1, "deep": 0, "validate_every": 0, "weight_decay": 0.0}
BETWEEN = {
    "seed": (0, 2**63 - 1),
    "ramp": (0, 1),
    "feature_dropout": (0, 1),
    "dropout": (0, 1),
    "average": (0, 0.999999),
    "beta2": (0, 0.999999),
}
"""A decay of 1 would keep the random start, or no gradient; torch takes no larger seed."""


def _check(config: Config, where: str) -> None:
    """Nothing, or one sentence about a name or a number that no run can have."""
    known("method", config.method, METHODS)
    known("network", config.network, NETWORKS)
    divergence(config.divergence)
    _check_weights(config, where)
    for key, least in AT_LEAST.items():
        value = getattr(config, key)
        if value is not None and not value >= least:
            raise MixsegError(f"{key!r} in {where} is {value!r}: it is at least {least}.")
    for key, (least, most) in BETWEEN.items():
        if not least <= getattr(config, key) <= most:
            raise MixsegError(f"{key!r} in {where} is {getattr(config, key)!r}: it lies between {least} and {most}.")
    for key in ("lr", "temperature"):
        if not 0 < getattr(config, key) < math.inf:
            raise MixsegError(f"{key!r} in {where} is {getattr(config, key)!r}: it is a positive number.")
    check_spacing(config.dims, config.spacing, config.long_side)
    for key in ("patch", "stride"):
        if min(getattr(config, key) or (1,)) < 1:
            raise MixsegError(f"{key!r} in {where} is {getattr(config, key)!r}: it counts voxels, at least 1 each.")
    if config.batch.full < 1 or min(config.batch.counts.values()) < 0:
        raise MixsegError(f"'batch' in {where} counts images: at least 1 of 'full', and none of the others below 0.")


def _check_weights(config: Config, where: str) -> None:
    terms = terms_of(config.method)
    for name, weight in config.weights.items():
        if not 0 <= weight < math.inf:
            raise MixsegError(f"The weight of {name!r} in {where} is {weight!r}: it is 0 or a positive number.")
        if name not in terms:
            raise MixsegError(
                f"The method {config.method} has no term {name!r} to weigh ('weights' in {where}): "
                f"{did_you_mean(name, terms)}"
            )
