"""Image -> logits of one or several branches, the same contract in 2D and 3D."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import get_args

from mixseg.core.errors import MixsegError, known
from mixseg.networks.base import Geometry, Network, Norm, Spec
from mixseg.networks.layers import initialise
from mixseg.networks.unet import unet
from mixseg.networks.vnet import vnet

__all__ = ["NETWORKS", "Architecture", "Network", "Spec", "make_network"]


@dataclass(frozen=True)
class Architecture:
    """How a network is built, and the shape it has unless told otherwise."""

    build: Callable[[Spec], Network]
    width: int
    depth: int
    dims: int
    about: str


NETWORKS: dict[str, Architecture] = {
    "unet": Architecture(unet, width=64, depth=4, dims=2, about="two convolutions a level, pooling, joined skips"),
    "vnet": Architecture(vnet, width=16, depth=4, dims=3, about="one to three convolutions a level, added skips"),
}


def make_network(
    name: str,
    *,
    in_channels: int = 1,
    classes: int = 2,
    branches: int = 1,
    width: int | None = None,
    depth: int | None = None,
    dims: int | None = None,
    norm: Norm = "batch",
    geometry: Geometry = "padded",
    dropout: float = 0.5,
    deep: int = 0,
) -> Network:
    """A freshly initialised network whose branches share the encoder and the first up-convolution.

    Args:
        name: One of ``NETWORKS``.
        in_channels: Channels of the image.
        classes: Classes to tell apart, the background included.
        branches: Decoders, each with weights of its own.
        width: Channels of the finest level (64 for ``unet``, 16 for ``vnet``); they double with each level.
        depth: How often the resolution is halved (4).
        dims: Spatial axes of the image, 2 or 3 (2 for ``unet``, 3 for ``vnet``).
        norm: What follows each convolution; ``batch`` is the paper's, the others use no batch statistics.
        geometry: ``padded``, or ``authors`` for the unpadded convolutions of the released code (``unet`` only).
        dropout: Rate of the dropout before the bottleneck (``unet``), or after it and before the head (``vnet``).
        deep: Coarser levels of each decoder with a head of their own, which learns and never answers.
    """
    architecture = NETWORKS[known("network", name, NETWORKS)]
    known("norm", norm, get_args(Norm))
    known("geometry", geometry, get_args(Geometry))
    spec = Spec(
        in_channels=in_channels,
        classes=classes,
        branches=branches,
        width=architecture.width if width is None else width,
        depth=architecture.depth if depth is None else depth,
        dims=architecture.dims if dims is None else dims,
        norm=norm,
        geometry=geometry,
        dropout=dropout,
        deep=deep,
    )
    _check(spec)
    network = architecture.build(spec)
    initialise(network)
    return network


def _check(spec: Spec) -> None:
    least = {"in_channels": 1, "classes": 2, "branches": 1, "width": 1, "depth": 1}
    for field, smallest in least.items():
        if getattr(spec, field) < smallest:
            raise MixsegError(
                f"A network needs {field} of at least {smallest}, not {getattr(spec, field)}.",
                "invalid-value",
                key=field,
                value=getattr(spec, field),
            )
    if spec.dims not in (2, 3):
        raise MixsegError(f"A network has 2 or 3 dims, not {spec.dims}.", "invalid-value", key="dims", value=spec.dims)
    if not 0 <= spec.deep < spec.depth:
        raise MixsegError(
            f"A network of depth {spec.depth} takes a deep of 0 to {spec.depth - 1}, not {spec.deep}.",
            "invalid-value",
            key="deep",
            value=spec.deep,
        )
    if spec.deep and spec.geometry == "authors":
        raise MixsegError(
            'Coarser levels (deep) fit the image in geometry="padded" alone: use that, or deep=0.',
            "settings-contradict",
            key="deep",
            other="geometry",
        )
    if not 0 <= spec.dropout < 1:
        raise MixsegError(
            f"A dropout lies in [0, 1), not at {spec.dropout}.", "invalid-value", key="dropout", value=spec.dropout
        )
