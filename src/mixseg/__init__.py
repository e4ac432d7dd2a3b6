"""Medical image segmentation from mixed supervision.

``mixseg.scan``, ``mixseg.train``, ``mixseg.load`` and ``mixseg.predict`` work on arrays, ``mixseg.inspect`` and
``mixseg.train`` on folders; ``mixseg.open_run``, ``compare``, ``evaluate``, ``experiment`` and ``write_report`` say
what came of it: docs/tutorials/python.md. The command line does the same for files.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mixseg.core.errors import MixsegError
    from mixseg.data.arrays import scan
    from mixseg.data.scan import Native
    from mixseg.datasets import inspect
    from mixseg.datasets.layouts.table import ScanTable
    from mixseg.inference.model import Model, load, predict
    from mixseg.report.api import Compared, Experiment, compare, evaluate, experiment, write_report
    from mixseg.report.run import Run, open_run
    from mixseg.training.arrays import train

__version__ = "0.1.0"
__all__ = [
    "Compared",
    "Experiment",
    "MixsegError",
    "Model",
    "Native",
    "Run",
    "ScanTable",
    "__version__",
    "compare",
    "evaluate",
    "experiment",
    "inspect",
    "load",
    "open_run",
    "predict",
    "scan",
    "train",
    "write_report",
]

HOMES = {
    "Compared": "mixseg.report.api",
    "Experiment": "mixseg.report.api",
    "MixsegError": "mixseg.core.errors",
    "Model": "mixseg.inference.model",
    "Native": "mixseg.data.scan",
    "Run": "mixseg.report.run",
    "ScanTable": "mixseg.datasets.layouts.table",
    "compare": "mixseg.report.api",
    "evaluate": "mixseg.report.api",
    "experiment": "mixseg.report.api",
    "inspect": "mixseg.datasets",
    "load": "mixseg.inference.model",
    "open_run": "mixseg.report.run",
    "predict": "mixseg.inference.model",
    "scan": "mixseg.data.arrays",
    "train": "mixseg.training.arrays",
    "write_report": "mixseg.report.api",
}
"""The module of each public name."""

# Before torch is imported: let waiting threads sleep soon, unless the user has a policy. By default they spin for long,
# and with another busy process beside it a training step takes ten times as long and more. So many spins are what
# libgomp itself takes where it knows that there are more threads than cores.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the module holds under that name
    """Loaded when first used: importing mixseg imports no torch, and ``mixseg --help`` answers at once."""
    if name in HOMES:
        from importlib import import_module

        return getattr(import_module(HOMES[name]), name)
    raise AttributeError(f"module 'mixseg' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
