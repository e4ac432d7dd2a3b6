"""A runner to kill: ``python runner_script.py SCANS OUT``."""

import sys
from pathlib import Path

from grids import small
from mixseg.experiments.executors.base import Resources
from mixseg.experiments.run_experiment import run_experiment

if __name__ == "__main__":
    scans, out = sys.argv[1:]
    run_experiment(
        "main", scans, Path(out), small("lower-bound", "single", steps=60), resources=Resources(Path(out), "cpu", 1)
    )
