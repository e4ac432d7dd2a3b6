"""Work through a file of runs on one GPU within so many minutes, several side by side.

    python benchmarks/gpu_queue.py JOBS.json --archives carry --work runs/queue --out FOLDER --minutes 9.5
        [--parallel 5] [--commit HASH] [--only TEXT] [--dry]

JOBS holds {"bases": {NAME: {"config", "data", "split", "seconds", "test"}}, "jobs": [{"name", "base", "config"}]}: a
config as for `python -m mixseg.training`, in which a job's keys go before those of its base; the name of an archive
(acdc.zip is "acdc"); a split file, seen from JOBS; the seconds that such a run took beside others (queue.jsonl tells);
and whether test is opened. Jobs are begun in order; one that cannot be done in the time that is left gives way to the
next that can. What is finished already is left alone; what is cut off goes on the next time, from its checkpoint, if
the folder --work is still there.

What comes back under --out is small: runs.tar.gz with the config, facts, log and scores of every finished run, which
`python benchmarks/results.py add` takes, and queue.jsonl with each run's seconds. Needs what training needs, no more.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KEPT = ("config.json", "environment.json", "finished.json", "log.jsonl", "metrics.csv")
GRACE = 20.0
"""Seconds before the end in which runs that are cut off write their checkpoints and the results are packed."""
SRC = Path(__file__).resolve().parents[1] / "src"


@dataclass(frozen=True)
class Job:
    """One run: its name, its config, what it trains on, and how long that takes."""

    name: str
    config: dict[str, Any]
    data: str
    split: Path
    seconds: float
    test: bool


def read_jobs(path: Path) -> list[Job]:
    """The jobs of a file, in order."""
    content = json.loads(path.read_text())
    found = []
    for job in content["jobs"]:
        told = {"test": False, **content["bases"][job["base"]], **job}
        config = {**content["bases"][job["base"]]["config"], **job["config"]}
        split = path.parent / told["split"]
        found.append(Job(told["name"], config, told["data"], split, float(told["seconds"]), bool(told["test"])))
    return found


class Queue:
    """The processes that train, and what is left to do."""

    def __init__(self, jobs: Sequence[Job], options: argparse.Namespace) -> None:
        self.todo, self.options = list(jobs), options
        self.running: dict[subprocess.Popen[bytes], tuple[Job, float]] = {}
        self.end = time.monotonic() + 60 * options.minutes - GRACE
        options.work.mkdir(parents=True, exist_ok=True)

    def run(self) -> None:
        """Until nothing is left to do, or no time."""
        while self.todo or self.running:
            self._collect()
            while len(self.running) < self.options.parallel and (job := self._next()):
                self._begin(job)
            if time.monotonic() > self.end:
                break
            time.sleep(0.5)
        for process in self.running:
            process.send_signal(signal.SIGTERM)
        while self.running and time.monotonic() < self.end + GRACE - 6:
            self._collect()
            time.sleep(0.2)
        for process, (job, _) in self.running.items():
            process.kill()
            print(f"{job.name}: cut off", flush=True)

    def _next(self) -> Job | None:
        left = self.end - time.monotonic()
        return next((job for job in self.todo if job.seconds < left), None)

    def _begin(self, job: Job) -> None:
        self.todo.remove(job)
        config = self.options.work / f"{job.name}.json"
        config.write_text(json.dumps(job.config))
        words = [str(config), "--data", str(self.options.archives / f"{job.data}.zip"), "--split", str(job.split)]
        words += ["--out", str(self.options.work), *(["--test"] if job.test else [])]
        words += ["--commit", self.options.commit] if self.options.commit else []
        log = (self.options.work / f"{job.name}.log").open("ab")
        environment = {**os.environ, "PYTHONPATH": str(SRC), "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "3"}
        process = subprocess.Popen(
            [sys.executable, "-m", "mixseg.training", *words], stdout=log, stderr=log, env=environment
        )
        self.running[process] = (job, time.monotonic())
        print(f"{job.name}: begun, {self.end - time.monotonic():.0f} s left", flush=True)

    def _collect(self) -> None:
        for process, (job, began) in list(self.running.items()):
            if process.poll() is None:
                continue
            del self.running[process]
            seconds = round(time.monotonic() - began, 1)
            print(f"{job.name}: ended with {process.returncode} after {seconds} s", flush=True)
            if process.returncode not in (0, -signal.SIGTERM, 143):
                text = (self.options.work / f"{job.name}.log").read_text(errors="replace").strip()
                print(text[-1500:], flush=True)
            with (self.options.work / "queue.jsonl").open("a") as record:
                record.write(json.dumps({"name": job.name, "seconds_of": seconds, "code": process.returncode}) + "\n")


def finished(work: Path) -> Iterator[Path]:
    """The folders of the runs that are done."""
    return (path.parent for path in sorted(work.glob("*/finished.json")))


def pack(work: Path, out: Path) -> None:
    """What is kept of the finished runs."""
    out.mkdir(parents=True, exist_ok=True)
    with tarfile.open(out / "runs.tar.gz", "w:gz") as archive:
        for run in finished(work):
            for name in KEPT:
                archive.add(run / name, f"{run.name}/{name}")
    if (work / "queue.jsonl").exists():
        (out / "queue.jsonl").write_bytes((work / "queue.jsonl").read_bytes())


def scores(work: Path) -> Iterator[str]:
    """A line for each finished run: the last checkpoint's mean DSC of each output, by part."""
    for run in finished(work):
        found: dict[str, list[float]] = {}
        for entry in json.loads((run / "finished.json").read_text())["summary"]:
            if entry["checkpoint"] == "last":
                found.setdefault(f"{entry['part']} {entry['branch']}", []).append(entry["dsc"]["mean"])
        yield f"{run.name}: " + ", ".join(f"{name} {100 * sum(of) / len(of):.2f}" for name, of in found.items())


def main() -> int:
    """Run the queue."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", type=Path)
    parser.add_argument("--archives", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--parallel", type=int, default=5)
    parser.add_argument("--commit", help="that the sources were copied from")
    parser.add_argument("--only", default="", help="jobs whose name holds this")
    parser.add_argument("--dry", action="store_true", help="name what would be done")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    done = {path.name for path in finished(options.work)}
    jobs = [job for job in read_jobs(options.jobs) if job.name not in done and options.only in job.name]
    # A job that waits for an archive that did not travel is left for the call that carries it.
    jobs = [job for job in jobs if (options.archives / f"{job.data}.zip").exists()]
    if options.dry:
        print("\n".join(f"{job.name}: about {job.seconds:.0f} s" for job in jobs))
        return 0
    # Several processes share one GPU in space and not by turns where CUDA's multi-process service is there.
    if shutil.which("nvidia-cuda-mps-control"):
        subprocess.run(["nvidia-cuda-mps-control", "-d"], check=False, capture_output=True)
    try:
        Queue(jobs, options).run()
    finally:
        pack(options.work, options.out)
    print("\n".join(scores(options.work)), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
