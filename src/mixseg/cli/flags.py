"""Flags that several verbs share. The short names are nnU-Net's, where they mean the same."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro import conf

from mixseg.core import types
from mixseg.datasets.labels import LabelFlags

Folder = Annotated[Path, conf.Positional, conf.arg(metavar="FOLDER")]
Target = Annotated[Path, conf.Positional, conf.arg(metavar="OUT")]
Run = Annotated[Path, conf.Positional, conf.arg(metavar="RUN")]
Source = Annotated[Path | None, conf.arg(name="from", metavar="RUN", help_behavior_hint="")]
Settings = Annotated[conf.UseAppendAction[tuple[str, ...]], conf.arg(metavar="KEY=VALUE")]
Input = Annotated[Path, conf.arg(name="input", aliases=["-i"], metavar="FOLDER")]
Output = Annotated[Path, conf.arg(name="out", aliases=["-o", "--output"], metavar="FOLDER")]
File = Annotated[Path | None, conf.arg(metavar="FILE", help_behavior_hint="")]
Layout = Annotated[str | None, conf.arg(metavar="NAME", help_behavior_hint="(default: recognised)")]
Spacing = Annotated[tuple[float, ...] | None, conf.arg(metavar="MM", help_behavior_hint="")]
LongSide = Annotated[int | None, conf.arg(metavar="PIXELS", help_behavior_hint="")]
Device = Annotated[types.Device, conf.arg(aliases=["-device"])]
Branch = Annotated[types.Branch | None, conf.arg(help_behavior_hint="")]
Labels = Annotated[LabelFlags, conf.OmitArgPrefixes, conf.arg(help="What the ids of label maps mean.")]

AS_FOUND = LabelFlags()
"""The rules decide what ids mean."""


@dataclass(frozen=True)
class TrainingFlags:
    """How the verbs that train do it.

    Attributes:
        devices: GPUs (or CPU processes) on this machine.
        on_collapse: When the student runs away: say so, or stop there too.
        tensorboard: Write the log for TensorBoard too, to tensorboard/ in the run folder.
        mlflow: Write it for MLflow too, to mlflow.db beside the run folder.
    """

    devices: int = 1
    on_collapse: Annotated[Literal["warn", "stop"] | None, conf.arg(help_behavior_hint="(default: warn)")] = None
    tensorboard: bool = False
    mlflow: bool = False

    def settings(self) -> dict[str, Any]:
        """The config keys that were named."""
        trackers = {"tensorboard": self.tensorboard or None, "mlflow": self.mlflow or None}
        named = {"on_collapse": self.on_collapse, **trackers}
        return {key: value for key, value in named.items() if value is not None}


@dataclass(frozen=True)
class GridFlags:
    """What is trained on. Whatever is not given is planned from the scans and the memory, with preset strong.

    Attributes:
        dims: 2 learns slices one by one, 3 volumes.
        size: Height and width of the slices, in pixels.
        spacing: Voxel size in mm that scans are resampled to: 2 numbers for slices, 3 for volumes.
        long_side: The same for slices without a voxel size: pixels that their longer side becomes.
        patch: Voxels of the patches of volumes along each axis.
        fold: Which fold of splits_final.json, from 0, or of five that are drawn.
    """

    dims: Annotated[Literal[2, 3] | None, conf.arg(help_behavior_hint="")] = None
    size: Annotated[tuple[int, int] | None, conf.arg(metavar="H W", help_behavior_hint="")] = None
    spacing: Spacing = None
    long_side: LongSide = None
    patch: Annotated[tuple[int, int, int] | None, conf.arg(metavar="I J K", help_behavior_hint="")] = None
    fold: Annotated[int | None, conf.arg(aliases=["-f"], metavar="N", help_behavior_hint="")] = None

    def settings(self) -> dict[str, Any]:
        """The config keys that were named."""
        return {key: value for key, value in asdict(self).items() if value is not None}


Grid = Annotated[GridFlags, conf.OmitArgPrefixes, conf.arg(help="What is trained on; the rest is planned.")]

AS_PLANNED = GridFlags()
"""The plan decides."""

Training = Annotated[TrainingFlags, conf.OmitArgPrefixes, conf.arg(help="How to train.")]

PLAINLY = TrainingFlags()
"""One device, and what the config says."""


def first_given(options: dict[str, Any]) -> str:
    """The first of some options that was given, as it is typed, or nothing."""
    return next((f"--{name.replace('_', '-')}" for name, value in options.items() if value is not None), "")
