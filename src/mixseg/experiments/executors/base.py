"""Where runs are computed: on this machine, in a Ray cluster, under SLURM. All of them do the same jobs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from mixseg.core.errors import known
from mixseg.core.types import Device
from mixseg.core.workers import cores
from mixseg.experiments.executors.worker import Job

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class Executor(Protocol):
    """Takes jobs and says which are over; how they went is read from their run folders."""

    def free(self) -> int:
        """How many more jobs it takes now."""

    def start(self, jobs: Sequence[Job]) -> None:
        """Take these jobs."""

    def ended(self) -> list[str]:
        """Names of the jobs that are over since the last question, finished or not."""

    def close(self) -> None:
        """End what is still going on, where that is ours to end."""


@dataclass(frozen=True)
class Resources:
    """What an executor may use.

    Attributes:
        folder: For its own logs.
        device: What runs compute on.
        workers: How many runs at once; None is what the executor suggests.
        address: Of a Ray cluster to join; "" starts one here.
        slurm: Options of sbatch such as ``{"partition": "gpu"}``.
    """

    folder: Path
    device: Device = "auto"
    workers: int | None = None
    address: str = ""
    slurm: Mapping[str, Any] = field(default_factory=dict)


EXECUTORS: dict[str, tuple[str, str]] = {
    "local": (
        "mixseg.experiments.executors.local:Local",
        "processes on this machine: one per GPU, or sharing the cores",
    ),
    "ray": ("mixseg.experiments.executors.on_ray:OnRay", "tasks of Ray, started here or joined with --ray-address"),
    "slurm": ("mixseg.experiments.executors.on_slurm:OnSlurm", "SLURM job arrays, through submitit"),
    "submitit-local": ("mixseg.experiments.executors.on_slurm:OnSubmititLocal", "submitit's processes here: to try it"),
}
"""Name -> where its class is, and a clause about it. The libraries are optional, so they are imported when chosen."""


def make_executor(name: str, resources: Resources) -> Executor:
    """The executor called ``name``."""
    known("place to run", name, EXECUTORS)
    module, _, cls = EXECUTORS[name][0].partition(":")
    executor: Executor = getattr(import_module(module), cls)(resources)
    return executor


def thread_limits(workers: int) -> dict[str, str]:
    """Environment variables with which ``workers`` processes share the cores without getting into each other's way.

    A smaller number that is set already holds: somebody else uses the machine too. It holds for all of them, because
    torch listens to more than one.
    """
    limits = [os.environ.get(name, "") for name in THREADS]
    share = min([max(1, cores() // workers), *(int(value) for value in limits if value.isdigit())])
    return dict.fromkeys(THREADS, str(share))


def gpus(device: Device) -> int:
    """How many GPUs runs on ``device`` find here."""
    import torch

    return torch.cuda.device_count() if device in ("auto", "cuda") and torch.cuda.is_available() else 0
