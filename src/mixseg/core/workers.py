"""One function over many cases, on all cores, with a progress bar."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import TypeVar

from mixseg.core.errors import MixsegError
from mixseg.core.progress import Progress

Job = TypeVar("Job")
Result = TypeVar("Result")

FEW = 4
"""So few jobs are done before worker processes would have started."""


def cores() -> int:
    """How many this process may use, which on a shared machine are fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_all(
    function: Callable[[Job], Result], jobs: Sequence[Job], *, names: Sequence[str], label: str, workers: int | None
) -> list[Result]:
    """``[function(job) for job in jobs]``, computed by several processes; the first error ends them all.

    Args:
        function: A function of a module: it travels to the workers by name.
        jobs: What it is called with.
        names: What the progress bar calls each job.
        label: What the progress bar calls the work.
        workers: Processes; ``None`` is one per core, and 1 starts none.
    """
    count = min(workers or cores(), len(jobs))
    with Progress(label, total=len(jobs)) as bar:
        if count <= 1 or (workers is None and len(jobs) <= FEW):
            results = []
            for job, name in zip(jobs, names, strict=True):
                results.append(function(job))
                bar.step(name)
            return results
        return _in_processes(function, jobs, names, bar, count)


def _in_processes(
    function: Callable[[Job], Result], jobs: Sequence[Job], names: Sequence[str], bar: Progress, count: int
) -> list[Result]:
    results: dict[int, Result] = {}
    # Not "fork": a process that has used torch or a progress bar has threads, and their locks would be copied.
    available = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in available else "spawn")
    with ProcessPoolExecutor(count, mp_context=context) as pool:
        with _without_main():
            futures = {pool.submit(function, job): index for index, job in enumerate(jobs)}
        try:
            for future in as_completed(futures):
                index = futures[future]
                results[index] = future.result()
                bar.step(names[index])
        except BrokenProcessPool:
            raise MixsegError(
                "A worker process ended unexpectedly, as it does without memory: workers=1 does without processes.",
                "worker-died",
            ) from None
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    return [results[index] for index in range(len(jobs))]


HIDING = threading.Lock()


@contextmanager
def _without_main() -> Iterator[None]:
    """Inside, new processes do not import what this one was started with, which they would by default.

    A function travels by the name of its own module; the command may need torch and half a minute, in each of them, and
    a script that did not expect it would begin anew.
    """
    with HIDING:
        main = sys.modules["__main__"]
        spec, file = main.__spec__, vars(main).pop("__file__", None)
        main.__spec__ = None
        try:
            yield
        finally:
            main.__spec__ = spec
            if file is not None:
                main.__file__ = file
