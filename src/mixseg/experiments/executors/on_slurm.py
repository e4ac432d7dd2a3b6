"""Runs as jobs of a SLURM array, through submitit; and the same on this machine, to try it without a cluster."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from mixseg.core.errors import MixsegError
from mixseg.core.workers import cores
from mixseg.experiments.executors.base import Resources, gpus, thread_limits
from mixseg.experiments.executors.worker import Job, execute_into_log

MINUTES = 24 * 60
AT_ONCE = 64
"""Jobs of an array that run together, unless --workers says otherwise; all that are ready are handed over."""


class OnSlurm:
    """One array per hand-over: all runs that wait for nothing go together, those that need others follow."""

    cluster = "slurm"

    def __init__(self, resources: Resources) -> None:
        try:
            import submitit
        except ImportError:
            raise MixsegError(
                "submitit is not installed: pip install 'mixseg[slurm]', or run with --on local.",
                "not-installed",
                package="submitit",
            ) from None
        try:
            self.executor = submitit.AutoExecutor(folder=resources.folder / "submitit", cluster=self.cluster)
        except RuntimeError as error:
            raise MixsegError(
                f"No SLURM here ({error}): start this where sbatch is, or use --on local.", "no-slurm"
            ) from None
        try:
            self.executor.update_parameters(**self.parameters(resources))
        except NameError as error:
            raise MixsegError(
                f"--slurm: {str(error).splitlines()[0]}; name options of sbatch.", "invalid-value", flag="--slurm"
            ) from None
        self.workers = self.room(resources)
        self.running: dict[str, Any] = {}

    def parameters(self, resources: Resources) -> dict[str, Any]:
        """What each job asks for; ``--slurm key=value`` adds to it or replaces it."""
        usual = {"name": "mixseg", "timeout_min": MINUTES, "cpus_per_task": 4}
        usual["slurm_array_parallelism"] = resources.workers or AT_ONCE
        if resources.device != "cpu":
            usual["gpus_per_node"] = 1
        return {**usual, **{_parameter(key): value for key, value in resources.slurm.items()}}

    def room(self, resources: Resources) -> int:
        """SLURM keeps the queue: it takes all there are."""
        return 10_000

    def free(self) -> int:
        """How many more it takes."""
        return self.workers - len(self.running)

    def start(self, jobs: Sequence[Job]) -> None:
        """One array of jobs."""
        if jobs:
            started = self.executor.map_array(execute_into_log, list(jobs))
            self.running |= {job.name: task for job, task in zip(jobs, started, strict=True)}

    def ended(self) -> list[str]:
        """Names whose job is over."""
        over = [name for name, task in self.running.items() if task.done()]
        for name in over:
            del self.running[name]
        return over

    def close(self) -> None:
        """Cancel what is still queued or running; the runs can be continued."""
        for task in self.running.values():
            task.cancel(check=False)


class OnSubmititLocal(OnSlurm):
    """The same through submitit's processes on this machine."""

    cluster = "local"

    def parameters(self, resources: Resources) -> dict[str, Any]:
        """A GPU each, if there are any."""
        return {"timeout_min": MINUTES, **({"gpus_per_node": 1} if gpus(resources.device) else {})}

    def room(self, resources: Resources) -> int:
        """There is no queue here, so that too many would get into each other's way."""
        workers = resources.workers or gpus(resources.device) or cores()
        os.environ.update(thread_limits(workers))  # its processes have the environment of this one
        return workers


def _parameter(key: str) -> str:
    """``partition`` as submitit calls it; what submitit has a name of its own for is left as it is."""
    common = {"timeout_min", "mem_gb", "cpus_per_task", "gpus_per_node", "nodes", "tasks_per_node", "name"}
    return key if key in common or key.startswith("slurm_") else f"slurm_{key}"
