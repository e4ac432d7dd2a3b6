"""Runs as tasks of Ray: on the machines of a cluster that share a file system, or on a Ray started here."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from mixseg.core.errors import MixsegError
from mixseg.core.signals import unchanged
from mixseg.core.workers import cores
from mixseg.experiments.executors.base import Resources, gpus
from mixseg.experiments.executors.worker import Job, execute_into_log

SMALLEST_STORE = 80 * 2**20
"""Nothing passes through Ray but names: its store of objects can be as small as Ray allows."""


class OnRay:
    """Tasks of Ray. It finds the machine with room; a task whose machine dies is given to another one."""

    def __init__(self, resources: Resources) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        # Else its workers run at nice 15, and nearly stand still beside anything that is busy.
        os.environ.setdefault("RAY_worker_niceness", "0")
        try:
            import ray
        except ImportError:
            raise MixsegError(
                "Ray is not installed: pip install 'mixseg[ray]', or run with --on local.",
                "not-installed",
                package="ray",
            ) from None
        self.ray = ray
        self.running: dict[str, Any] = {}
        quiet = {"log_to_driver": False, "logging_level": "ERROR"}
        with unchanged():  # else it ends this process at once on SIGTERM, its own tasks and all
            if resources.address:
                ray.init(address=resources.address, **quiet)
            else:
                workers = resources.workers or gpus(resources.device) or cores()
                ray.init(
                    num_cpus=max(cores(), workers),
                    num_gpus=gpus(resources.device),
                    include_dashboard=False,
                    object_store_memory=SMALLEST_STORE,
                    **quiet,
                )
        found = ray.cluster_resources()
        self.by_gpu = resources.device != "cpu" and found.get("GPU", 0) > 0
        every = found["GPU"] if self.by_gpu else found["CPU"]
        self.workers = resources.workers or max(1, int(every))
        share = every / self.workers
        # Ray gives a task as many threads as it has cores, and shows it no GPU but its own.
        needs = {"num_gpus": min(1.0, share)} if self.by_gpu else {"num_cpus": max(1, int(share))}
        # A process for each run, so that memory goes back; the runner repeats what was killed.
        self.task = ray.remote(max_calls=1, max_retries=0, **needs)(execute_into_log)

    def free(self) -> int:
        """As many as were asked for, whichever machines they are on."""
        return self.workers - len(self.running)

    def start(self, jobs: Sequence[Job]) -> None:
        """A task for each job."""
        for job in jobs:
            self.running[job.name] = self.task.remote(job)

    def ended(self) -> list[str]:
        """Names whose task is over, or whose worker has died."""
        by_task = {task: name for name, task in self.running.items()}
        if not by_task:
            return []
        over, _ = self.ray.wait(list(by_task), num_returns=len(by_task), timeout=0)
        return [by_task[task] for task in over if self.running.pop(by_task[task])]

    def close(self) -> None:
        """Cancel what is going on and leave, or end, Ray."""
        for task in self.running.values():
            with suppress(Exception):  # a signal may have ended it, or what Ray knew of it, already
                self.ray.cancel(task, force=True)
        self.ray.shutdown()
