"""A trained run as an object: arrays in, label maps out."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mixseg.core.errors import MixsegError
from mixseg.core.types import Branch, Device, Labels
from mixseg.data.arrays import make_scan
from mixseg.data.scan import Scan, times
from mixseg.inference.predictor import Predictor
from mixseg.runs.device import torch_as_it_was
from mixseg.runs.model_file import trained_at


def load(
    run: Path | str,
    *,
    checkpoint: Literal["best", "last"] | None = None,
    branch: Branch | None = None,
    device: Device = "auto",
) -> Model:
    """The model of a run folder, or of a file that was exported from one; arguments as for ``Model``."""
    return Model(as_path(run, "run"), checkpoint=checkpoint, branch=branch, device=device)


def predict(
    model: Model | Path | str, image: ArrayLike, *, spacing: tuple[float, float, float] | None = None
) -> Labels:
    """The label map of an image: class indices on the grid of the image.

    Args:
        model: What ``train`` or ``load`` returned; or a run folder or model file, which is read anew at every call.
        image: As for ``scan``.
        spacing: Voxel size in mm, for a model that was trained at one.
    """
    return (model if isinstance(model, Model) else load(model)).predict(image, spacing=spacing)


class Model:
    """A trained run, ready to predict.

    Args:
        run: The run folder, or a model file.
        checkpoint: "best" on the validation scans or "last"; None is the best one if there is one.
        branch: Of a method with two: "student", "teacher", or the mean of "both"; None is the student.
        device: Where to compute.
    """

    def __init__(
        self,
        run: Path,
        *,
        checkpoint: Literal["best", "last"] | None = None,
        branch: Branch | None = None,
        device: Device = "auto",
    ) -> None:
        self.run = run
        source = trained_at(run)
        with torch_as_it_was():
            self.predictor = Predictor.of(source, device=device, checkpoint=checkpoint, branch=branch)
        self.config = self.predictor.config
        self.classes, self.channels = tuple(self.predictor.classes), self.predictor.channels

    def __repr__(self) -> str:
        return f"Model({str(self.run)!r}: {self.config.method.name}, {', '.join(self.classes)})"

    def predict(self, image: ArrayLike, *, spacing: tuple[float, float, float] | None = None) -> Labels:
        """Class indices on the grid of the image."""
        answer = self.predictor.answer
        labels = self.predictor.on_source(self._ready(image, spacing), outputs=[answer])[answer]
        return labels[..., 0] if np.ndim(image) == 2 else labels

    def probabilities(
        self, image: ArrayLike, *, spacing: tuple[float, float, float] | None = None
    ) -> NDArray[np.float32]:
        """The probability of each class, ``(classes, ...)`` on the grid of the image."""
        answer = self.predictor.answer
        maps = self.predictor.probabilities_on_source(self._ready(image, spacing), outputs=[answer])[answer]
        return maps[..., 0] if np.ndim(image) == 2 else maps

    def _ready(self, image: ArrayLike, spacing: tuple[float, float, float] | None) -> Scan:
        """An image on the training grid."""
        if self.config.data.spacing and spacing is None:
            raise MixsegError(
                f"{self.run} was trained at {times(self.config.data.spacing)} mm: say how large the voxels of the "
                "image are, with spacing=(I, J, K) in mm.",
                "voxel-size-unknown",
                folder=self.run,
            )
        return self.predictor.prepare(
            make_scan("the image", image, spacing=spacing, grey=self.config.data.prepare_options.grey_range)
        )


def as_path(given: str | PathLike[str], what: str) -> Path:
    """The path that a caller gave, or one sentence if it is none."""
    if not isinstance(given, str | PathLike):
        raise MixsegError(
            f"{what} is the path of a run's folder, not {type(given)}.",
            "wrong-type",
            key=what,
            type=type(given).__name__,
        )
    return Path(given)
