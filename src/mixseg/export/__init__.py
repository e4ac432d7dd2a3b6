"""A finished run -> what can be handed over: one file that mixseg reads, or what other runtimes read.

To add a format, write a function ``(exported, out) -> None`` in a file of its own and a row here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mixseg.core.errors import MixsegError, known
from mixseg.export.exported import Exported
from mixseg.export.model import export_model
from mixseg.export.onnx import export_onnx

__all__ = ["FORMATS", "ExportFormat", "Exported", "export"]


@dataclass(frozen=True)
class ExportFormat:
    """One row of FORMATS.

    Attributes:
        write: Writes the file.
        about: One line for ``--help`` and the docs.
        suffix: Of the name of the file.
    """

    write: Callable[[Exported, Path], None]
    about: str
    suffix: str


FORMATS: dict[str, ExportFormat] = {
    "model": ExportFormat(export_model, "one file that mixseg takes wherever it takes a run", ".zip"),
    "onnx": ExportFormat(export_onnx, "a network for ONNX Runtime, with what lies before and after it", ".onnx"),
}


def export(run: Path, to: str, out: Path, *, checkpoint: str | None = None, licence: str = "") -> Path:
    """Write the model of a finished run for others; returns the file.

    Args:
        run: A run folder, or a model file.
        to: A row of ``FORMATS``.
        out: The file; its suffix is added where it is missing.
        checkpoint: Which weights; None is the best ones if there are any, else the last ones.
        licence: Under which the weights are given away, for the card.

    Raises:
        MixsegError: The run is not finished, or the format cannot express it.
    """
    row = FORMATS[known("export format", to, FORMATS)]
    path = out if out.suffix == row.suffix else out.with_name(out.name + row.suffix)
    if path.resolve() == run.resolve():
        raise MixsegError(f"{path} is the model itself: choose another file.", "would-overwrite", file=path)
    row.write(Exported.of(run, checkpoint=checkpoint, licence=licence), path)
    return path
