"""The method of a config: fresh, or trained by a run; and what it answers for one scan."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import fields

import numpy as np
import torch
from lightning_fabric import Fabric
from numpy.typing import NDArray

from mixseg.checkpoint import load_weights
from mixseg.config import Config
from mixseg.data.grid import probabilities_to_source, to_source
from mixseg.data.prepared import PreparedCase
from mixseg.data.scan import Scan
from mixseg.engine import evaluating
from mixseg.folder import RunFolder
from mixseg.inference import Bytes, Maps, Piece, Windows, maps, pieces, probabilities
from mixseg.methods import Method, MethodOptions, make_method
from mixseg.networks import Network, make_network
from mixseg.pieces import largest_pieces

NETWORK_KEYS = ("width", "depth", "dims", "norm", "geometry", "dropout", "init")
"""Keys of a config that a network is built with."""
MOST_PROBABILITIES = 2e9
"""Bytes on the grid of the source: bringing more of them back from another grid would take several times that."""


def build(config: Config, *, channels: int, classes: int) -> Method:
    """The freshly initialised method of ``config``; the seed alone decides its weights."""
    shape = {key: getattr(config, key) for key in NETWORK_KEYS}

    def network(branches: int) -> Network:
        return make_network(config.network, in_channels=channels, classes=classes, branches=branches, **shape)

    options = MethodOptions(**{key.name: getattr(config, key.name) for key in fields(MethodOptions)})
    torch.manual_seed(config.seed)
    return make_method(config.method, network, config.weights, options)


def load(run: RunFolder, *, channels: int, classes: int, checkpoint: str | None = "last") -> Method:
    """The trained method of a run, in evaluation mode on the CPU; None is the best checkpoint if there is one."""
    method = build(run.config, channels=channels, classes=classes)
    chosen = checkpoint or ("best" if (run.path / "best.pt").exists() else "last")
    load_weights(method, run.path / f"{chosen}.pt")
    return method.eval()


def predict_maps(
    method: Method,
    scan: Scan,
    config: Config,
    fabric: Fabric,
    *,
    outputs: Collection[str] = (),
    sureness: bool = False,
    tell: Callable[[str], None] | None = None,
) -> Maps:
    """The label maps of a scan on the training grid, and on request how sure the answer is.

    Args:
        method: Of the run.
        scan: On the training grid.
        config: Of the run.
        fabric: Where the method is.
        outputs: Those that are wanted; all of the method's if none are named.
        sureness: Whether entropy and foreground are wanted too.
        tell: Hears how far it is.
    """
    with evaluating(method, fabric):
        found = maps(_pieces(method, scan, config, outputs, tell), grid_of(scan, config), sureness=sureness)
    labels = {name: largest_pieces(guess, config.largest or ()) for name, guess in found.labels.items()}
    return found._replace(labels=labels)


def predict_labels(method: Method, scan: Scan, config: Config, fabric: Fabric) -> dict[str, Bytes]:
    """The label map of each output for one scan on the training grid."""
    return predict_maps(method, scan, config, fabric).labels


def predict_probabilities(
    method: Method,
    scan: Scan,
    config: Config,
    fabric: Fabric,
    *,
    outputs: Collection[str] = (),
    tell: Callable[[str], None] | None = None,
) -> dict[str, torch.Tensor]:
    """The class probabilities ``(classes, *grid)`` of each output for one scan; arguments as for ``predict_maps``.

    On the CPU, and all of them: a float for each class and voxel of every output. Where label maps will do, take those.
    """
    with evaluating(method, fabric):
        return probabilities(_pieces(method, scan, config, outputs, tell), grid_of(scan, config))


def predict_on_source(
    method: Method,
    scan: Scan,
    place: PreparedCase,
    config: Config,
    fabric: Fabric,
    *,
    classes: int,
    outputs: Collection[str] = (),
    tell: Callable[[str], None] | None = None,
) -> dict[str, Bytes]:
    """The label map of each output on the ``(I, J, K)`` grid of the source image; arguments as for ``predict_maps``."""
    outputs = outputs or method.outputs
    if not comes_back_by_probabilities(place, classes * len(outputs)):
        found = predict_maps(method, scan, config, fabric, outputs=outputs, tell=tell)
        return {name: to_source(labels, place) for name, labels in found.labels.items()}
    probs = predict_probabilities(method, scan, config, fabric, outputs=outputs, tell=tell)
    return {name: decided(probabilities_to_source(of.float().numpy(), place), config) for name, of in probs.items()}


def comes_back_by_probabilities(place: PreparedCase, maps: int) -> bool:
    """Whether a scan was resampled: its probabilities then have smoother borders on its own grid than its labels have.

    Not if so many maps of them would fill the memory.
    """
    slices, *plane = place.shape
    grid = place.shape if place.dims == 3 else (*(place.field or plane), slices)
    return grid != place.source_shape and 4 * maps * math.prod(place.source_shape) <= MOST_PROBABILITIES


def decided(probs: NDArray[np.float32], config: Config) -> Bytes:
    """The label map of the probabilities ``(classes, *S)`` of a whole scan, as ``predict_maps`` makes it."""
    return largest_pieces(probs.argmax(axis=0).astype(np.uint8), config.largest or ())


def memory_plan(scan: Scan, config: Config, *, classes: int, outputs: int, probabilities: bool = False) -> str:
    """What predicting a volume takes, in a sentence; nothing for slices, which take little."""
    windows = Windows.of(config)
    if windows is None:
        return ""
    sizes = {"channels": scan.channels, "classes": classes, "outputs": outputs}
    return windows.plan(grid_of(scan, config), **sizes, probabilities=probabilities)


def grid_of(scan: Scan, config: Config) -> tuple[int, ...]:
    """The size of a scan's label maps."""
    axes = (0, 2, 3) if config.dims == 2 else (1, 2, 3)
    return tuple(scan.image.shape[axis] for axis in axes)


def _pieces(
    method: Method, scan: Scan, config: Config, outputs: Collection[str], tell: Callable[[str], None] | None
) -> Iterator[Piece]:
    windows = Windows.of(config)
    return pieces(method, scan, intensity=config.intensity, windows=windows, outputs=outputs, tell=tell)
