"""``mixseg export``: a trained model for others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from tyro import conf

from mixseg.cli.flags import Run
from mixseg.core.messages import result, say

FORMATS = Literal["model", "onnx"]


def export(
    run: Run,
    out: Annotated[Path, conf.Positional, conf.arg(metavar="FILE")],
    *,
    to: Annotated[FORMATS, conf.arg(metavar="FORMAT")] = "model",
    checkpoint: Annotated[Literal["best", "last"] | None, conf.arg(help_behavior_hint="")] = None,
    licence: Annotated[str, conf.arg(metavar="NAME", help_behavior_hint="")] = "",
) -> None:
    """Write the model of a finished run as one file: for mixseg elsewhere, or for ONNX Runtime.

    $ mixseg export run heart.zip

    makes one file of weights, settings, checksums and a card, which predict and Python take wherever they take a run;
    no name of a patient or a file is in it.

    $ mixseg export run heart.onnx --to onnx

    makes a network for ONNX Runtime, and leaves runner.py beside it: image to label map without torch or mixseg.

    Args:
        run: A finished run, or a model file.
        out: The file to write.
        to: model, one file for mixseg; onnx, for ONNX Runtime.
        checkpoint: best on the validation scans, or last; if not given, best where there is one.
        licence: Under which the weights are given away, such as CC-BY-4.0: for the card.
    """
    from mixseg.export import export as write

    path = write(run, to, out, checkpoint=checkpoint, licence=licence)
    say(f"Written: {path} ({path.stat().st_size / 1e6:.1f} MB)")
    result({"export": path, "format": to, "bytes": path.stat().st_size})
