"""The contract of every network: one encoder, one decoder per branch, the same in 2D and 3D."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from mixseg.core.errors import MixsegError

Norm = Literal["batch", "instance", "group", "none"]
Geometry = Literal["padded", "authors"]

CheckSize = Callable[[Sequence[int], int], None]
"""(Sides of the image, depth) -> nothing, or an error that computes a size which the network can take."""


@dataclass(frozen=True)
class Spec:
    """What a network is built from; ``make_network`` documents the fields and fills in the defaults."""

    in_channels: int
    classes: int
    branches: int
    width: int
    depth: int
    dims: int
    norm: Norm = "batch"
    geometry: Geometry = "padded"
    dropout: float = 0.5
    deep: int = 0

    @property
    def channels(self) -> tuple[int, ...]:
        """Channels of each level, from the finest to the bottleneck: they double where the resolution halves."""
        return tuple(self.width * 2**level for level in range(self.depth + 1))


class Encoder(nn.Module):
    """Everything that the branches share: image -> ``[*skips, bottleneck, raised]``.

    ``skips`` go from the finest to the coarsest, and ``raised`` is the bottleneck after the first up-convolution.
    """

    def forward(self, image: Tensor) -> list[Tensor]:
        """The features of ``(B, channels, *S)`` images, each with ``B`` rows."""
        raise NotImplementedError


class Decoder(nn.Module):
    """What each branch has for itself: features -> its logits, and the feature maps on the way there.

    ``deep_heads`` make logits of these maps too, for training alone: at half resolution, a quarter, and so on.
    """

    deep_heads: nn.ModuleList

    def forward(self, features: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Logits ``(B, classes, *S)`` and one feature map per level, from the coarsest to the finest."""
        raise NotImplementedError


class Network(nn.Module):
    """Image -> logits of its branches.

    Features are a plain list of tensors with one row per image, so that a branch runs on the rows it is needed for:
    ``network.decode([feature[rows] for feature in features], branch=1)``.

    Attributes:
        spec: What it was built from.
        encoder: Shared by all branches.
        decoders: One per branch, with no parameter in common.
    """

    def __init__(self, spec: Spec, encoder: Encoder, decoders: Sequence[Decoder], check_size: CheckSize) -> None:
        super().__init__()
        self.spec = spec
        self.encoder = encoder
        self.decoders = nn.ModuleList(decoders)
        self._check_size = check_size

    @property
    def branches(self) -> int:
        """How many decoders there are."""
        return len(self.decoders)

    def forward(self, image: Tensor) -> list[Tensor]:
        """The logits ``(B, classes, *S)`` of every branch for ``(B, channels, *S)`` images."""
        features = self.encode(image)
        return [self.decode(features, branch) for branch in range(self.branches)]

    def encode(self, image: Tensor) -> list[Tensor]:
        """What all decoders read, ``[*skips, bottleneck, raised]``: ``features[-2]`` is the bottleneck."""
        check_channels(image, self.spec)
        self._check_size(image.shape[2:], self.spec.depth)
        features: list[Tensor] = self.encoder(image)
        return features

    def decode(self, features: Sequence[Tensor], branch: int) -> Tensor:
        """The logits ``(B, classes, *S)`` of one branch."""
        return self.decode_features(features, branch)[0]

    def decode_deep(self, features: Sequence[Tensor], branch: int) -> list[Tensor]:
        """The logits of one branch, and those of ``spec.deep`` of its maps: at half resolution, a quarter, ..."""
        logits, maps = self.decode_features(features, branch)
        heads = self.decoders[branch].deep_heads
        return [logits, *(head(level) for head, level in zip(heads, reversed(maps[:-1]), strict=False))]  # type: ignore[arg-type]

    def decode_features(self, features: Sequence[Tensor], branch: int) -> tuple[Tensor, list[Tensor]]:
        """The logits of one branch and its feature maps: ``maps[-1]`` at full resolution, ``maps[-2]`` at half."""
        logits, maps = self.decoders[branch](features)
        return logits, maps


def check_channels(image: Tensor, spec: Spec) -> None:
    """Nothing, or an error that names the shape that the network takes."""
    if image.ndim != spec.dims + 2 or image.shape[1] != spec.in_channels:
        axes = ", ".join("HWD"[: spec.dims])
        raise MixsegError(
            f"This network takes images of shape (B, {spec.in_channels}, {axes}) and was given {tuple(image.shape)}: "
            "build it with the dims and in_channels of your data.",
            "shapes-differ",
            shape=tuple(image.shape),
        )


def check_multiple(size: Sequence[int], depth: int) -> None:
    """Nothing, or an error that computes the size to pad to."""
    step = 2**depth
    if any(side % step for side in size):
        padded = tuple(-(-side // step) * step for side in size)
        raise MixsegError(
            f"A network of depth {depth} halves the image {depth} times, so each side must be a multiple of {step}: "
            f"pad {tuple(size)} to {padded}.",
            "unfit-size",
            size=tuple(size),
        )
