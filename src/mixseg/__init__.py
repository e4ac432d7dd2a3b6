"""Medical image segmentation from mixed supervision.

``mixseg.scan``, ``mixseg.train``, ``mixseg.load`` and ``mixseg.predict`` work on arrays: docs/tutorials/python.md. The
command line does the same for files.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mixseg.api import ArrayScan, Model, load, predict, scan, train
    from mixseg.errors import MixsegError

__version__ = "0.1.0"
__all__ = ["ArrayScan", "MixsegError", "Model", "__version__", "load", "predict", "scan", "train"]

# Before torch is imported: let waiting threads sleep soon, unless the user has a policy. By default they spin for long,
# and with another busy process beside it a training step takes ten times as long and more. So many spins are what
# libgomp itself takes where it knows that there are more threads than cores.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the module holds under that name
    """Loaded when first used: importing mixseg imports no torch, and ``mixseg --help`` answers at once."""
    if name in __all__:
        from importlib import import_module

        return getattr(import_module("mixseg.errors" if name == "MixsegError" else "mixseg.api"), name)
    raise AttributeError(f"module 'mixseg' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
