"""What environment.json and finished.json hold, as far as anybody relies on it; earlier versions wrote less."""

from __future__ import annotations

from typing import Any, TypedDict


class Facts(TypedDict, total=False):
    """environment.json: see docs/reference/run-folder.md."""

    versions: dict[str, str | None]
    device: str
    commit: str | None
    data: str
    folder: str
    classes: list[str]
    channels: int
    protocol: dict[str, list[str]]
    plan: list[str]
    proposals: dict[str, Any]
    nested: dict[str, str]


class Mean(TypedDict):
    """Of a metric."""

    mean: float | None
    sd: float | None


Score = TypedDict(
    "Score",
    {
        "part": str,
        "checkpoint": str,
        "branch": str,
        "class": str,
        "cases": int,
        "left_out": int,
        "dsc": Mean,
        "hd95_vox": Mean,
        "hd95_mm": Mean,
        "assd_vox": Mean,
        "assd_mm": Mean,
    },
)
"""One entry of the summary."""


class _Finished(TypedDict):
    steps: int


class Finished(_Finished, total=False):
    """finished.json: see docs/reference/run-folder.md."""

    training_seconds: float
    seconds: float
    phases: dict[str, float]
    peak_gpu_gib: float | None
    labelled_patches: float | None
    test: bool
    summary: list[Score]
