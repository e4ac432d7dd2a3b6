"""The format ``onnx``: the network as one file, what lies before and after it in its metadata, and a program beside it.

The graph turns what the network is fed into the class probabilities of the answer. How an image becomes that, and the
probabilities a label map, is described in the metadata under ``mixseg`` and done by ``runner.py``, which needs numpy,
nibabel and onnxruntime alone.
"""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mixseg.core.errors import MixsegError
from mixseg.core.files import replacing
from mixseg.core.messages import say
from mixseg.export.card import card
from mixseg.export.exported import Exported
from mixseg.inference.sliding_window import Windows
from mixseg.methods import Method
from mixseg.networks import NETWORKS
from mixseg.runs.config import Config

OPSET, EARLIER_OPSET = 20, 17
"""Of torch's exporter, and of the one that it replaced."""
KEY = "mixseg"
FORMAT = 1
RUNNER = "runner.py"
NEEDED = ("onnx", "onnxscript")


class Answer(nn.Module):
    """What the network is fed ``(B, C, *S)`` -> class probabilities of one output ``(B, classes, *S)``."""

    def __init__(self, method: Method, output: str) -> None:
        super().__init__()
        self.method, self.output = method, output

    def forward(self, image: Tensor) -> Tensor:
        """The probabilities."""
        return self.method.predict(image, [self.output])[self.output]


def export_onnx(exported: Exported, out: Path) -> None:
    """Write the network, and ``runner.py`` beside it.

    Raises:
        MixsegError: A library is missing, or the network cannot be expressed.
    """
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise MixsegError(
            f"{missing[0]} is not installed: pip install 'mixseg[onnx]'.", "not-installed", package=missing[0]
        )
    import onnx

    config, predictor = exported.config, exported.predictor
    multiple = 2 ** (config.network.depth or NETWORKS[config.network.name].depth)
    graph = Answer(predictor.method, predictor.answer).eval()
    with replacing(out) as temporary:
        opset = _write(graph, temporary, config, channels=predictor.channels, multiple=multiple)
        model = onnx.load(str(temporary))
        described = {**description(exported, multiple=multiple), "opset": opset}
        for key, value in ((KEY, json.dumps(described)), ("card", card(exported))):
            entry = model.metadata_props.add()
            entry.key, entry.value = key, value
        onnx.checker.check_model(model)
        onnx.save(model, str(temporary))
    with replacing(out.parent / RUNNER) as temporary:
        shutil.copyfile(Path(__file__).with_name(RUNNER), temporary)
    say(f"Beside it: {out.parent / RUNNER}; try python {RUNNER} {out.name} IMAGE.nii.gz LABELS.nii.gz")


def description(exported: Exported, *, multiple: int) -> dict[str, Any]:
    """What a program has to know that goes from an image to a label map."""
    data, inference = exported.config.data, exported.config.inference
    windows = Windows.of(exported.config)
    about: Mapping[str, Any] = exported.about
    return {
        "format": FORMAT,
        "mixseg": about["mixseg"],
        "model": about["model"],
        "classes": about["facts"]["classes"],
        "channels": about["facts"]["channels"],
        "dims": data.dims,
        "spacing": data.spacing,
        "size": data.size if data.dims == 2 else None,
        "long_side": data.long_side if data.dims == 2 else None,
        "clip": data.clip,
        "clip_by": data.clip_by,
        "intensity": data.intensity,
        "patch": None if windows is None else windows.patch,
        "starts_every": None if windows is None else windows.stride,
        "window": None if windows is None else windows.weights,
        "largest": inference.largest or (),
        "multiple": multiple,
    }


def _write(graph: Answer, path: Path, config: Config, *, channels: int, multiple: int) -> int:
    """The graph in a file; which opset it has."""
    sides = [2 * multiple] * config.data.dims
    image = torch.zeros(2, channels, *sides)
    axes = {2 + axis: multiple * torch.export.Dim(f"k{axis}", min=1, max=256) for axis in range(len(sides))}
    names: dict[str, Any] = {"input_names": ["image"], "output_names": ["probabilities"]}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            shapes = {"image": {0: torch.export.Dim("b", min=1, max=256), **axes}}
            torch.onnx.export(
                graph,
                (image,),
                str(path),
                dynamo=True,
                external_data=False,
                opset_version=OPSET,
                dynamic_shapes=shapes,
                verbose=False,
                **names,
            )
        except Exception:  # whatever a tracer of whole programs meets in a method that it does not know
            dynamic = {0: "b", **{axis: f"k{axis}" for axis in axes}}
            torch.onnx.export(
                graph,
                (image,),
                str(path),
                dynamo=False,
                opset_version=EARLIER_OPSET,
                dynamic_axes={"image": dynamic, "probabilities": dynamic},
                **names,
            )
            return EARLIER_OPSET
    return OPSET
