"""The groups of keys that make a run, and what other rooms need to know of each key: see ``Config``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from mixseg.core.types import Kind
from mixseg.data.prepare.options import PrepareOptions
from mixseg.methods import METHODS
from mixseg.methods.base import AblationOptions, TermOptions


@dataclass(frozen=True)
class Traits:
    """What is to be known of a key beside its type; ``keys_where`` finds keys by it.

    Attributes:
        effect: Whether another value makes another run.
        may_change: Whether a run that has begun can be continued with another value.
        dims: 2 (or 3) where slices (or volumes) alone have a use for it.
        planned: Whether it is chosen from the scans and the memory where it is not given.
        settled: Whether the scans have a say in it: a run may write down another value than it was given.
        located: Whether it is a path, written down as it is seen from the run.
        inherited: Whether a run on proposals has it from the run that proposes: "always", as masks would not fit
            otherwise; "without-preset", where it names no preset of its own; or "never".
        task: Whether it says what is learnt from what: with another value, the paper's figures are about
            something else.
        flag: Of ``mixseg experiment``, which stands for it there.
    """

    effect: bool = True
    may_change: bool = False
    dims: Literal[2, 3] | None = None
    planned: bool = False
    settled: bool = False
    located: bool = False
    inherited: Literal["always", "without-preset", "never"] = "without-preset"
    task: bool = False
    flag: str = ""

    @property
    def fixed(self) -> bool:
        """Whether a run that has begun keeps the value that it began with."""
        return self.effect and not self.may_change


TRAITS = "traits"
"""Where the metadata of a field has them."""


def about(**traits: Any) -> dict[str, Traits]:  # noqa: ANN401 - those of Traits
    """The metadata of a field."""
    return {TRAITS: Traits(**traits)}


def option(default: Any, **traits: Any) -> Any:  # noqa: ANN401 - a field of any type
    """A key with a default and with ``Traits``."""
    return field(default=default, metadata=about(**traits))


@dataclass(frozen=True)
class BatchSizes:
    """Images per step by kind of supervision.

    Attributes:
        full: With full masks.
        partial: With partial labels, and half of them without any where there are such scans and ``unlabeled`` is None.
        unlabeled: Without labels; None leaves it to the scans. 0 is none, if there are partly labelled ones.
    """

    full: int = 8
    partial: int = 16
    unlabeled: int | None = None

    @property
    def counts(self) -> dict[Kind, int]:
        """What there is of each kind before the scans have a say."""
        return {"full": self.full, "partial": self.partial, "unlabeled": self.unlabeled or 0}


@dataclass(frozen=True)
class DataConfig:
    """Which scans, which of their labels, on which grid.

    Attributes:
        dataset: The layout that the scans were read with.
        target: The classes to segment, by name; the others become background. Empty: all.
        partial: Where partial labels come from: "drawn" (the files), a generator's name, or "none".
        split: A splits.json or splits_final.json; empty: the one beside the data, or a seeded patient-wise one.
        fold: Which fold of a splits_final.json, from 0; without a split file, of five that are drawn patient-wise.
        validation: Where neither a split file, nor a fold, nor the folder of the scans says who validates: "part", a
            tenth of the patients, or "none", and all are trained on.
        set: Set-N: N patients with full masks and ``ratio`` times as many with partial labels. None: as the files say.
        ratio: Partly labelled patients for each fully labelled one in Set-N.
        dims: 2 trains on slices, 3 on patches of volumes.
        size: In-plane size of the training grid in 2D: pixels of a slice.
        long_side: In 2D, for scans without a voxel size: pixels that the longer side of a slice becomes; slices are
            then cropped or padded as with ``spacing``.
        spacing: Voxel size in mm that scans are resampled to, 2 numbers in 2D and 3 in 3D; slices are then cropped or
            padded to ``size`` round their centre. None: slices are stretched to ``size``, volumes kept as they are.
        clip: Intensities that become black and white, such as [1, 99]; None is minimum and maximum.
        clip_by: What clip counts in: "percentiles" of a volume, or "values", such as HU. "outliers" is minimum and
            maximum, unless a few voxels take up the range: then percentiles of the body.
        patch: Size of the patches in 3D.
        intensity: What the network is fed: "unit" (0 to 1) or "zscore".
    """

    dataset: str = option("", inherited="never", flag="--dataset")
    target: tuple[str, ...] = option((), inherited="always", task=True)
    partial: str = option("drawn", inherited="always", task=True)
    split: str = option(
        "", inherited="always", located=True, may_change=True
    )  # whom it names is compared with the data
    fold: int | None = option(None, inherited="always")
    validation: Literal["part", "none"] = option("part", inherited="always")
    set: int | None = option(None, inherited="always", flag="--sets")
    ratio: int = option(5, inherited="always", task=True)
    dims: Literal[2, 3] = option(2, inherited="always", planned=True, task=True)
    size: tuple[int, int] = option((256, 256), inherited="always", planned=True, dims=2)
    long_side: int | None = option(None, inherited="always", planned=True, dims=2)
    spacing: tuple[float, ...] | None = option(None, inherited="always", planned=True)
    clip: tuple[float, float] | None = option(None, inherited="always", planned=True)
    clip_by: Literal["percentiles", "values", "outliers"] = option("percentiles", inherited="always", planned=True)
    patch: tuple[int, int, int] = option((112, 112, 80), planned=True, dims=3)
    intensity: Literal["unit", "zscore"] = "unit"

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
            clip_by=self.clip_by,
        )

    @property
    def grid(self) -> tuple[int, ...]:
        """Spatial size of what the network is trained on."""
        return self.size if self.dims == 2 else self.patch


@dataclass(frozen=True)
class MethodConfig(TermOptions):
    """What is learnt from the labels.

    Attributes:
        name: A row of METHODS.
        weights: Weights of the loss terms that differ from the method's own.
        proposals_from: For the method proposals: the finished run that proposes masks, a path relative to the folder
            that holds this run's, or else to the current one.
    """

    name: str = option("kl-ent", inherited="never", flag="--methods")
    weights: Mapping[str, float] = field(default_factory=dict, metadata=about(inherited="never"))
    proposals_from: str = option("", inherited="never", located=True)

    @property
    def all_weights(self) -> dict[str, float]:
        """Of every term of the method: those that are given, and its own."""
        return {**METHODS[self.name].weights, **self.weights}


@dataclass(frozen=True)
class AblationConfig(AblationOptions):
    """What the paper leaves open or compares: choices that nobody need make.

    Attributes:
        geometry: "padded", or "authors" for the unpadded network of the paper's code.
        beta2: How long adam and adamw remember the size of gradients: the larger, the longer.
        deep: Coarser levels of each decoder that learn the masks too, weighing 1/2, 1/4, ...; 0 is off.
    """

    geometry: Literal["padded", "authors"] = "padded"
    beta2: float = 0.999
    deep: int = 0


@dataclass(frozen=True)
class NetworkConfig:
    """The network.

    Attributes:
        name: "unet" or "vnet".
        width: Channels of the first level; None is the network's own.
        depth: Number of halvings; None is the network's own.
        norm: "batch", "instance", "group" or "none".
        dropout: At the deepest encoder level.
    """

    name: str = "unet"
    width: int | None = None
    depth: int | None = None
    norm: Literal["batch", "instance", "group", "none"] = "batch"
    dropout: float = 0.5


@dataclass(frozen=True)
class TrainingConfig:
    """How the weights are found.

    Attributes:
        steps: Optimiser steps.
        batch: Images per step by kind.
        seed: Drives initialisation, order and noise; never the split.
        augment: "none", "paper-3d", "strong", or "any-contrast": strong, and bright may become dark.
        optimizer: "adam", "adamw" or "sgd".
        lr: Learning rate at the start.
        weight_decay: Of the optimiser.
        schedule: "constant", "drops" (a tenth at 5/12 and at 10/12 of training), "poly" or "cosine".
        validate_every: Steps between two validations; 0 is every 1 %, at most 50 steps.
        on_collapse: What happens when the student runs away: "warn" or "stop".
    """

    steps: int = option(3000, may_change=True)  # a schedule goes on where a step stands in the longer training
    batch: BatchSizes = field(default_factory=BatchSizes, metadata=about(inherited="never", planned=True, settled=True))
    seed: int = option(0, flag="--seeds")
    augment: Literal["none", "paper-3d", "strong", "any-contrast"] = "none"
    optimizer: Literal["adam", "adamw", "sgd"] = "adam"
    lr: float = 1e-4
    weight_decay: float = 0.0
    schedule: Literal["constant", "drops", "poly", "cosine"] = "constant"
    validate_every: int = option(0, effect=False)
    on_collapse: Literal["warn", "stop"] = option("warn", effect=False)

    @property
    def validation_interval(self) -> int:
        """Steps between two validations."""
        return self.validate_every or max(1, min(50, self.steps // 100))


@dataclass(frozen=True)
class InferenceConfig:
    """How a scan is predicted.

    Attributes:
        window: How windows of a volume that overlap are averaged: "gaussian" lets their middle count more, "uniform"
            all of them alike.
        stride: Voxels from one window to the next when a volume is predicted; None is half a patch, as it always is
            for the validations during training.
        largest: Numbers of the classes (the first structure is 1) of which a prediction keeps the largest connected
            component alone; None: those that are one component in every full mask of the training scans.
    """

    window: Literal["gaussian", "uniform"] = option("gaussian", may_change=True)
    stride: tuple[int, int, int] | None = option(None, may_change=True, dims=3)
    largest: tuple[int, ...] | None = option((), settled=True)


@dataclass(frozen=True)
class RuntimeConfig:
    """How it is computed and followed.

    Attributes:
        precision: "fp64", "fp32", "tf32" or "bf16"; "auto" is bf16 on a GPU that has it, and for slices on a CPU that
            has it, and fp32 elsewhere.
        compile: Whether the network is compiled first, where the machine can; pays on long GPU runs.
        tensorboard: Whether the log is written for TensorBoard too, to ``tensorboard/`` in the run folder.
        mlflow: Whether it is written for MLflow too, to ``mlflow.db`` beside the run folder.
    """

    precision: Literal["auto", "fp64", "fp32", "tf32", "bf16"] = "auto"
    compile: bool = option(False, effect=False)
    tensorboard: bool = option(False, effect=False)
    mlflow: bool = option(False, effect=False)
