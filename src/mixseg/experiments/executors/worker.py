"""One run of an experiment, in a process of its own: the same function on this machine, in Ray and under SLURM."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
import threading
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from mixseg.core.errors import MixsegError
from mixseg.core.files import explained
from mixseg.core.messages import say
from mixseg.core.types import Device
from mixseg.datasets.labels import LabelFlags
from mixseg.experiments.states import forget_failure, record_failure
from mixseg.runs.folder import BusyError

CONSOLE = "console.log"


@dataclass(frozen=True)
class Job:
    """What a worker is told; it goes through JSON and pickle.

    Attributes:
        name: Of the run.
        out: The run folder, from the root of the file system.
        scans: The folder of scans, from the root too.
        layout: How they lie there.
        settings: Config keys.
        flags: What label ids mean: the fields of LabelFlags.
        device: Where to compute.
        test: Score the test scans too.
    """

    name: str
    out: str
    scans: str
    layout: str
    settings: dict[str, Any]
    flags: dict[str, Any]
    device: Device
    test: bool


def execute(job: Job) -> None:
    """Train the run, or go on with it. What went wrong is left in its folder: nothing is raised, nothing returned."""
    from mixseg.runs.device import Hardware
    from mixseg.training.folder import train_folder

    out = Path(job.out)
    forget_failure(out)
    try:
        train_folder(
            Path(job.scans),
            out,
            settings=job.settings,
            dataset=job.layout,
            flags=LabelFlags(**job.flags),
            hardware=Hardware(job.device),
            test=job.test,
        )
    except (BusyError, KeyboardInterrupt) as error:  # another process is at it, perhaps of an earlier start; or stopped
        say(str(error))
    except Exception as error:
        message = str(error) if isinstance(error, MixsegError) else f"{type(error).__name__}: {error} (see {CONSOLE})"
        traceback.print_exc()
        record_failure(out, message)


def open_console(job: Job) -> IO[bytes]:
    """The run's console.log, to be written on."""
    path = Path(job.out) / CONSOLE
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("ab")


def execute_into_log(job: Job) -> None:
    """``execute``, with all that is printed in the run's console.log."""
    # The file descriptors: libraries below Python print too.
    with open_console(job) as log:
        kept = [os.dup(stream) for stream in (1, 2)]
        try:
            for stream in (1, 2):
                os.dup2(log.fileno(), stream)
            execute(job)
        finally:
            for stream, old in zip((1, 2), kept, strict=True):
                os.dup2(old, stream)
                os.close(old)


def _end_with_the_runner() -> None:
    """End this process when its standard input closes: whoever started it is gone, however it went."""
    while os.read(0, 1):  # not through sys.stdin, whose lock a process that ends by itself would wait for
        pass
    os._exit(1)


def main() -> None:
    """Read a job, one line of JSON, from standard input, and do it; whoever started this has opened console.log."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C comes to the runner too, which ends its workers
    job = Job(**json.loads(sys.stdin.buffer.readline()))
    threading.Thread(target=_end_with_the_runner, daemon=True).start()
    execute(job)


def as_line(job: Job) -> bytes:
    """The job as ``main`` reads it."""
    return json.dumps(dataclasses.asdict(job)).encode() + b"\n"


if __name__ == "__main__":
    main()
