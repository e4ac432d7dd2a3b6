"""A runner to kill: ``python runner_script.py SCANS OUT``."""

import sys
from pathlib import Path

from grids import small
from mixseg.experiments.executors.base import Place
from mixseg.experiments.run_experiment import conduct

if __name__ == "__main__":
    scans, out = sys.argv[1:]
    conduct("main", scans, Path(out), small("lower-bound", "single", steps=60), place=Place(Path(out), "cpu", 1))
