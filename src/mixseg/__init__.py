"""Medical image segmentation from mixed supervision.

``mixseg.scan``, ``mixseg.train``, ``mixseg.load`` and ``mixseg.predict`` work on arrays: docs/tutorials/python.md. The
command line does the same for files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mixseg.api import ArrayScan as ArrayScan
    from mixseg.api import Model as Model
    from mixseg.api import load as load
    from mixseg.api import predict as predict
    from mixseg.api import scan as scan
    from mixseg.api import train as train

__version__ = "0.1.0"

_LAZY = ("ArrayScan", "Model", "load", "predict", "scan", "train")
"""Taken from mixseg.api when first used: importing mixseg imports no torch, and ``mixseg --help`` answers at once."""


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the api holds under that name
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module("mixseg.api"), name)
    raise AttributeError(f"module 'mixseg' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
