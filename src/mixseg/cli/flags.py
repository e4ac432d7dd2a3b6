"""Flags that several verbs share. The short names are nnU-Net's, where they mean the same."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro import conf

from mixseg.core import types
from mixseg.core.errors import UsageError
from mixseg.datasets.labels import LabelFlags
from mixseg.runs.typed_json import merged

Folder = Annotated[Path, conf.Positional, conf.arg(metavar="FOLDER")]
Target = Annotated[Path, conf.Positional, conf.arg(metavar="OUT")]
Run = Annotated[Path, conf.Positional, conf.arg(metavar="RUN")]
Source = Annotated[Path | None, conf.arg(name="from", metavar="RUN", help_behavior_hint="")]
Settings = Annotated[conf.UseAppendAction[tuple[str, ...]], conf.arg(metavar="KEY=VALUE")]
Input = Annotated[Path, conf.arg(name="input", aliases=["-i"], metavar="FOLDER")]
Inputs = Annotated[tuple[Path, ...], conf.arg(name="input", aliases=["-i"], metavar="FOLDER|FILE")]
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


def parse(assignments: Iterable[str], flag: str = "--set", *, such_as: str = "batch.full=4") -> dict[str, Any]:
    """``["batch.full=4", "lr=1e-3"]`` -> ``{"batch": {"full": 4}, "lr": 0.001}``; what is not JSON is text.

    Args:
        assignments: What was given.
        flag: With which flag.
        such_as: An example for who gave something else.
    """
    settings: dict[str, Any] = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or not all(key.split(".")):
            raise UsageError(
                f"{flag} {assignment} is no setting: write key=value, such as {flag} {such_as}.",
                "not-a-setting",
                flag=flag,
                value=assignment,
            )
        settings = merged(settings, _nested(key.split("."), _value(text)))
    return settings


def config_settings(assignments: Iterable[str]) -> dict[str, Any]:
    """What ``--set`` says of a config, its keys named with their groups or without; the last one of a key wins."""
    from mixseg.runs.config import flat

    settings: dict[str, Any] = {}
    for assignment in assignments:
        settings = merged(settings, flat(parse([assignment])))
    return settings


def split_grid(assignments: Iterable[str]) -> tuple[list[str], dict[str, list[Any]]]:
    """Assignments of one value, and by key the values of those of several: ``lr=1e-3,3e-4``."""
    single, grid = [], {}
    for assignment in assignments:
        key, _, text = assignment.partition("=")
        values = _values(text)
        if len(values) > 1:
            grid[key] = values
        else:
            single.append(assignment)
    return single, grid


def _values(text: str) -> list[Any]:
    """The values of a list without brackets; one value, which may be a list in brackets, is one."""
    try:
        json.loads(text)
    except json.JSONDecodeError:
        pass
    else:
        return [text]
    try:
        return list(json.loads(f"[{text}]"))
    except json.JSONDecodeError:
        return [_value(each.strip()) for each in text.split(",")]


def meant_as_settings(words: Sequence[str], flags: Collection[str]) -> list[str]:
    """A sentence for each of ``words`` that is none of ``flags``, but a key of the config written as a flag."""
    from mixseg.runs.config import GROUPS, KEYS

    known = {flag.replace("_", "-") for flag in flags}
    hints = []
    for word, after in pairwise((*words, "--")):
        flag, equals, value = word.partition("=")
        key = flag.removeprefix("--").replace("-", "_")
        first, dot, _ = key.partition(".")
        names_one = first in KEYS or (dot and first in GROUPS)
        if flag.startswith("--") and flag.replace("_", "-") not in known and names_one:
            value = value if equals else "VALUE" if after.startswith("--") else after
            hints.append(f"{key} is a key of the config: write --set {key}={value}")
    return hints


def _nested(keys: list[str], value: object) -> dict[str, Any]:
    first, *rest = keys
    return {first: _nested(rest, value) if rest else value}


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
