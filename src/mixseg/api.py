"""mixseg from Python: arrays in, a trained model, label maps out. Files, folders and flags are not needed.

``mixseg.train``, ``mixseg.predict`` and the others here are loaded when they are first used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from mixseg.data.build import build, digest, existing, key_of
from mixseg.data.extent import Extent, times
from mixseg.data.grey import to_8_bits
from mixseg.data.native import Header, Native
from mixseg.data.options import PrepareOptions
from mixseg.data.prepared import Prepared, PreparedCase
from mixseg.data.scan import Scan
from mixseg.data.split import Split
from mixseg.errors import MixsegError
from mixseg.folder import RunFolder
from mixseg.hardware import Hardware, torch_as_it_was
from mixseg.predictor import Predictor
from mixseg.run import propose
from mixseg.run import train as train_run
from mixseg.training_data import Data, bare_scan, prepare_options
from mixseg.training_plan import planned
from mixseg.types import IGNORE, Branch, Device

Labels = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class ArrayScan:
    """A scan in memory, on its own grid: made by ``scan``, taken by ``train``.

    Attributes:
        name: For messages and predictions.
        native: Its voxels, the image in 8 bits.
        spacing: Voxel size in mm along I, J, K; None where it is unknown.
    """

    name: str
    native: Native
    spacing: tuple[float, float, float] | None = None

    @property
    def extent(self) -> Extent:
        """What a plan needs to know of it."""
        i, j, k = self.native.image.shape[1:]
        return Extent((i, j, k), self.spacing or (1.0, 1.0, 1.0), self.spacing is not None)

    @cached_property
    def header(self) -> Header:
        """What preparing needs to know of it, whatever the training grid will be."""
        native, (shape, size, known) = self.native, self.extent
        state = hashlib.blake2b(repr((self.name, self.spacing, native.image.shape)).encode(), digest_size=16)
        for array in (native.image, native.full, native.drawn):
            state.update(b"-" if array is None else np.ascontiguousarray(array).data)
        return Header(
            id=self.name,
            patient=self.name,
            frame="",
            classes=(),
            annotated=None,
            split="",
            channels=len(native.image),
            shape=shape,
            affine=tuple(tuple(map(float, row)) for row in np.diag([*size, 1.0])),
            spacing=size,
            spacing_known=known,
            source=self.name,
            has_full=native.full is not None,
            has_drawn=native.drawn is not None,
            fingerprint=state.hexdigest(),
        )


def scan(
    name: str,
    image: ArrayLike,
    full: ArrayLike | None = None,
    partial: ArrayLike | None = None,
    *,
    spacing: tuple[float, float, float] | None = None,
) -> ArrayScan:
    """A scan to train on or to validate with, from arrays of any dtype.

    Args:
        name: Unique among the scans of a run.
        image: ``(I, J, K)`` with the slices along the last axis, one slice ``(I, J)``, or channels ``(C, I, J, K)``.
            Its smallest and largest value become black and white, channel by channel.
        full: A class index for every voxel, 0 being the background; same axes, without channels.
        partial: The same, with 255 (or -1) where nothing is labelled. Without both, the scan has no labels.
        spacing: Voxel size in mm; scores are then in mm too.
    """
    if not isinstance(name, str):
        raise MixsegError(f"A scan is called by a text, mixseg.scan(name, image, ...): this is {type(name)}.")
    return _scan(name, image, full, partial, spacing=spacing)


def _scan(
    name: str,
    image: ArrayLike,
    full: ArrayLike | None = None,
    partial: ArrayLike | None = None,
    *,
    spacing: tuple[float, float, float] | None = None,
    clip: tuple[float, float] | None = None,
) -> ArrayScan:
    """A scan whose grey values end at the percentiles of ``clip``, as those of a run on files may."""
    channels = [to_8_bits(channel, clip) for channel in _channels(image, name)]
    images, low, high = zip(*channels, strict=True)
    shape = images[0].shape
    labels = [_labels(given, shape, f"{name}: {what}") for given, what in ((full, "full"), (partial, "partial"))]
    if labels[0] is not None and (unlabelled := np.mean(labels[0] == IGNORE)):
        raise MixsegError(
            f"{name}: full labels have a class for every voxel, and {unlabelled:.2%} of these are {IGNORE} or -1, "
            "unlabelled: give them as partial=."
        )
    native = Native(np.ascontiguousarray(np.stack(images)), low, high, *labels)
    return ArrayScan(name, native, None if spacing is None else _spacing(spacing, name))


@torch_as_it_was()
def train(
    scans: Iterable[ArrayScan],
    *,
    classes: Iterable[str],
    out: Path | str,
    val: Iterable[ArrayScan] = (),
    test: Iterable[ArrayScan] = (),
    device: Device = "auto",
    **settings: Any,  # noqa: ANN401 - config keys, each with its own type
) -> Model:
    """A model trained on ``scans``; called again, it goes on where it stopped, or returns what is finished.

    Args:
        scans: With full masks, partial labels or none: at least one with a full mask.
        classes: Names by class index, the background first.
        out: The run folder; the prepared arrays lie beside it.
        val: Scans with full masks, to choose the best checkpoint with.
        test: Scans with full masks, scored once the training is over.
        device: "auto" takes the GPU if there is one.
        settings: Any config key, such as ``preset="quick"``, ``method="kl"``, ``steps=500``, ``dims=3``; what is not
            given is planned from the scans and the memory, as ``mixseg train`` does.
    """
    scans, val, test = _listed(scans, "scans"), _listed(val, "val"), _listed(test, "test")
    if not scans:
        raise MixsegError("There is no scan to train on: give at least one with a full mask.")
    classes = _class_names(classes)
    for key in ("split", "fold"):
        if key in settings:
            raise MixsegError(f"Arrays are split by the caller, as scans, val and test: leave the key {key} out.")
    out, hardware = _path(out, "out"), Hardware(device)
    everyone = [*scans, *val, *test]
    for each in everyone:
        _check_classes(each, classes)
    config, plan = planned([each.extent for each in everyone], settings, out, hardware)
    if config.clip is not None:
        raise MixsegError("Arrays are scaled as they come: clip them before mixseg.scan, and leave the key clip out.")
    prepared = _prepare(everyone, classes, out.parent / ".prepared", prepare_options(config))
    for sentence in prepared.remarks():
        print(sentence, flush=True)
    split = Split(*(tuple(each.name for each in part) for part in (scans, val, test)))
    proposals = propose(config, prepared, split, out, hardware=hardware)
    data = replace(Data.of(prepared, split, config, proposals=proposals), plan=plan)
    train_run(config, data, out, hardware=hardware, test=bool(test))
    return Model(out, device=device)


def load(
    run: Path | str,
    *,
    checkpoint: Literal["best", "last"] | None = None,
    branch: Branch | None = None,
    device: Device = "auto",
) -> Model:
    """The model of a run folder, from Python or from the command line; arguments as for ``Model``."""
    return Model(_path(run, "run"), checkpoint=checkpoint, branch=branch, device=device)


def predict(
    model: Model | Path | str, image: ArrayLike, *, spacing: tuple[float, float, float] | None = None
) -> Labels:
    """The label map of an image: class indices on the grid of the image.

    Args:
        model: What ``train`` or ``load`` returned, or a run folder (which is then read anew at every call).
        image: As for ``scan``.
        spacing: Voxel size in mm, for a model that was trained at one.
    """
    return (model if isinstance(model, Model) else load(model)).predict(image, spacing=spacing)


class Model:
    """A trained run, ready to predict.

    Args:
        run: The run folder.
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
        folder = RunFolder(run)
        self.config, facts = folder.config, folder.facts
        self.classes: tuple[str, ...] = tuple(facts["classes"])
        self.channels = int(facts["channels"])
        with torch_as_it_was():
            self.predictor = Predictor.of(folder, device=device, checkpoint=checkpoint, branch=branch)

    def __repr__(self) -> str:
        return f"Model({str(self.run)!r}: {self.config.method}, {', '.join(self.classes)})"

    def predict(self, image: ArrayLike, *, spacing: tuple[float, float, float] | None = None) -> Labels:
        """Class indices on the grid of the image."""
        ready, place = self._ready(image, spacing)
        answer = self.predictor.answer
        labels = self.predictor.on_source(ready, place, outputs=[answer])[answer]
        return labels[..., 0] if np.ndim(image) == 2 else labels

    def probabilities(
        self, image: ArrayLike, *, spacing: tuple[float, float, float] | None = None
    ) -> NDArray[np.float32]:
        """The probability of each class, ``(classes, ...)`` on the grid of the image."""
        ready, place = self._ready(image, spacing)
        answer = self.predictor.answer
        maps = self.predictor.probabilities_on_source(ready, place, outputs=[answer])[answer]
        return maps[..., 0] if np.ndim(image) == 2 else maps

    def _ready(self, image: ArrayLike, spacing: tuple[float, float, float] | None) -> tuple[Scan, PreparedCase]:
        """An image on the training grid, and the way back."""
        if self.config.spacing and spacing is None:
            raise MixsegError(
                f"{self.run} was trained at {times(self.config.spacing)} mm: say how large the voxels of the image "
                "are, with spacing=(I, J, K) in mm."
            )
        given = _scan("the image", image, spacing=spacing, clip=self.config.clip)
        if len(given.native.image) != self.channels:
            raise MixsegError(
                f"The image has {len(given.native.image)} channels, and {self.run} was trained on {self.channels}."
            )
        return bare_scan(given.header, given.native, replace(prepare_options(self.config), target=None))


def _listed(given: Iterable[ArrayScan], what: str) -> list[ArrayScan]:
    """The scans of one part, from a list or a generator."""
    if not isinstance(given, Iterable):
        raise MixsegError(f"{what} is a list of scans, each made by mixseg.scan(name, image, ...), not {type(given)}.")
    found = list(given)
    for each in found:
        if not isinstance(each, ArrayScan):
            raise MixsegError(f"A scan to train with is made by mixseg.scan(name, image, ...): this is {type(each)}.")
    return found


def _class_names(given: Iterable[str]) -> tuple[str, ...]:
    names = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise MixsegError(f"classes is {given!r}: give a list of names, the background first.")
    if twice := [name for name in names if names.count(name) > 1]:
        raise MixsegError(f"Two classes are called {twice[0]}: rename one.")
    return names


def _prepare(scans: Sequence[ArrayScan], classes: tuple[str, ...], beside: Path, options: PrepareOptions) -> Prepared:
    """The scans as a prepared folder, made once, so that a run on arrays is a run like any other."""
    headers = [
        replace(each.header, classes=classes, fingerprint=digest(each.header.fingerprint, classes)) for each in scans
    ]
    key = key_of([header.fingerprint for header in headers], options)
    out = beside / f"arrays-{key[:12]}"
    # No worker processes: the arrays would travel to them, and a script needs no `if __name__` this way.
    loads = [partial(_native, each) for each in scans]
    return existing(out, key) or build(out, headers, loads, options, workers=1)


def _native(given: ArrayScan) -> Native:
    return given.native


def _path(given: str | PathLike[str], what: str) -> Path:
    if not isinstance(given, str | PathLike):
        raise MixsegError(f"{what} is the path of a run's folder, not {type(given)}.")
    return Path(given)


def _array(given: ArrayLike, what: str) -> NDArray[Any]:
    if isinstance(given, torch.Tensor):
        given = given.detach().cpu()
        given = given.float() if given.dtype == torch.bfloat16 else given  # which numpy does not have
    if isinstance(given, np.ma.MaskedArray):
        raise MixsegError(f"{what}: a masked array would lose its mask here, fill it first, with .filled(...).")
    try:
        return np.asarray(given)
    except ValueError as error:  # of lists alone
        raise MixsegError(f"{what}: rows of different lengths make no array, give all of them one length.") from error


def _channels(image: ArrayLike, name: str) -> list[NDArray[np.generic]]:
    """The channels of an image, each ``(I, J, K)``."""
    array = _array(image, f"{name}: the image")
    if array.ndim == 2:
        array = array[..., None]
    if array.ndim == 3:
        array = array[None]
    if array.ndim != 4 or not array.size or array.dtype.kind not in "biuf":
        raise MixsegError(
            f"{name}: an image is an array of numbers (I, J), (I, J, K) or (channels, I, J, K), "
            f"not {array.dtype} of {array.shape}."
        )
    with np.errstate(over="ignore"):
        finite = array.dtype.kind != "f" or np.isfinite(array.astype(np.float32)).all()
    if not finite:
        raise MixsegError(
            f"{name}: the image holds nan, inf or what float32 cannot hold: replace them first, with np.clip or "
            "np.nan_to_num for example."
        )
    return list(array)


def _spacing(given: Sequence[float], name: str) -> tuple[float, float, float]:
    """The voxel size in mm along I, J, K, from any three numbers above 0."""
    sizes = _array(given, f"{name}: spacing")
    if sizes.shape != (3,) or sizes.dtype.kind not in "iuf" or not ((sizes > 0) & (sizes < 1e4)).all():
        raise MixsegError(
            f"{name}: spacing is the voxel size along I, J, K, three numbers of mm between 0 and 10000, not {given}."
        )
    i, j, k = sizes.tolist()
    return float(i), float(j), float(k)


def _labels(given: ArrayLike | None, shape: tuple[int, ...], what: str) -> Labels | None:
    """Class indices, and IGNORE in partial labels, from whole numbers of any dtype."""
    if given is None:
        return None
    array = _array(given, f"{what} labels")
    if array.ndim == 2:
        array = array[..., None]
    if array.shape != shape:
        raise MixsegError(f"{what} labels have the shape {array.shape}, and the image has {shape}: they must agree.")
    if array.dtype.kind in "if":
        array = np.where(array == -1, np.int16(IGNORE), array)  # which widens int8, where 255 would be -1 again
    with np.errstate(invalid="ignore"):  # nan is told below
        labels = array.astype(np.uint8) if array.dtype.kind in "biuf" else None
    if labels is None or not np.array_equal(labels, array):
        raise MixsegError(
            f"{what} labels hold values that are no class index: use whole numbers from 0 to 254, and in partial "
            f"labels {IGNORE} or -1 where nothing is labelled."
        )
    return np.ascontiguousarray(labels)


def _check_classes(given: ArrayScan, classes: Sequence[str]) -> None:
    found = chain.from_iterable(np.unique(a) for a in (given.native.full, given.native.drawn) if a is not None)
    beyond = sorted({int(label) for label in found if label != IGNORE and label >= len(classes)})
    if beyond:
        raise MixsegError(
            f"{given.name} has the label {beyond[0]}, and {len(classes)} classes are named ({', '.join(classes)}): "
            "name them all, the background first."
        )
