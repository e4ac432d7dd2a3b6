"""Runs on this machine, each in a process of its own: one per GPU, or on a CPU with the cores shared out."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

from mixseg.core.workers import cores
from mixseg.experiments.executors.base import Resources, gpus, thread_limits
from mixseg.experiments.executors.worker import Job, as_line, open_console

VISIBLE = "CUDA_VISIBLE_DEVICES"


class Local:
    """Worker processes. They end with the process that made this object, even if that is killed."""

    def __init__(self, resources: Resources) -> None:
        self.devices = _visible_gpus(gpus(resources.device))
        # Runs of one core each do more in an hour than one run on all cores: small layers do not share well.
        self.workers = max(1, resources.workers or len(self.devices) or cores())
        self.running: dict[str, tuple[subprocess.Popen[bytes], int]] = {}

    def free(self) -> int:
        """Slots without a process."""
        return self.workers - len(self.running)

    def start(self, jobs: Sequence[Job]) -> None:
        """A process for each job."""
        for job in jobs:
            taken = {slot for _, slot in self.running.values()}
            slot = next(slot for slot in range(self.workers) if slot not in taken)
            command = [sys.executable, "-m", "mixseg.experiments.executors.worker"]
            with open_console(job) as console:  # from the first line on: it may not get as far as to open it
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,  # stays open: its end tells the worker that nobody waits for it any more
                    stdout=console,
                    stderr=console,
                    env=self._environment(slot),
                )
            self.running[job.name] = (process, slot)
            assert process.stdin is not None, "it was asked for"
            with suppress(BrokenPipeError):  # it died at once: ended() tells
                process.stdin.write(as_line(job))
                process.stdin.flush()

    def ended(self) -> list[str]:
        """Names whose process is over."""
        over = [name for name, (process, _) in self.running.items() if process.poll() is not None]
        for name in over:
            self._forget(name)
        return over

    def close(self) -> None:
        """End the processes; their runs can be continued."""
        for process, _ in self.running.values():
            process.terminate()
        for name in list(self.running):
            self.running[name][0].wait()
            self._forget(name)

    def _forget(self, name: str) -> None:
        process, _ = self.running.pop(name)
        if process.stdin is not None:
            with suppress(BrokenPipeError):
                process.stdin.close()

    def _environment(self, slot: int) -> dict[str, str]:
        own = thread_limits(self.workers)
        if self.devices:
            own[VISIBLE] = self.devices[slot % len(self.devices)]
        return {**os.environ, **own}


def _visible_gpus(count: int) -> list[str]:
    """What CUDA_VISIBLE_DEVICES calls each GPU that this process sees."""
    visible = os.environ.get(VISIBLE, "").split(",")
    return visible[:count] if len(visible) >= count and visible[0] else [str(number) for number in range(count)]
