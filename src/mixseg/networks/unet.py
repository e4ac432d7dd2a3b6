"""U-Net with one encoder and several decoders, in 2D or 3D."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mixseg.core.errors import MixsegError
from mixseg.networks.base import Decoder, Encoder, Network, Spec, check_multiple
from mixseg.networks.layers import Layers

LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def unet(spec: Spec) -> Network:
    """A U-Net of two convolutions per level whose branches share everything up to the first up-convolution.

    ``geometry="padded"`` keeps the image's size and takes the skips before the pooling. ``geometry="authors"`` is the
    released code's: convolutions without padding, skips taken after the pooling and stretched to the decoder's size,
    logits stretched to the image's. The parameters are the same in number, name and shape.
    """
    check = check_multiple if spec.geometry == "padded" else check_unpadded
    return Network(spec, UNetEncoder(spec), [UNetDecoder(spec) for _ in range(spec.branches)], check)


class UNetEncoder(Encoder):
    """Two convolutions and a pooling per level, the bottleneck, and the first up-convolution."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        layers = Layers(spec.dims, spec.norm)
        inputs = (spec.in_channels, *spec.channels)
        blocks = [two_convolutions(layers, inputs[level], spec.channels[level], spec) for level in range(spec.depth)]
        # The only dropout: on the map that the bottleneck and the coarsest skip both read.
        blocks[-1].append(nn.Dropout(spec.dropout))
        self.blocks = nn.ModuleList(blocks)
        self.pool = layers.pool()
        self.bottleneck = two_convolutions(layers, spec.channels[-2], spec.channels[-1], spec)
        self.up = layers.up(spec.channels[-1], spec.channels[-2])
        self.pooled_skips = spec.geometry == "authors"

    def forward(self, image: Tensor) -> list[Tensor]:
        """``[*skips, bottleneck, raised]`` of ``(B, channels, *S)`` images."""
        skips = []
        feature = image
        for block in self.blocks:
            feature = block(feature)
            pooled = self.pool(feature)
            skips.append(pooled if self.pooled_skips else feature)
            feature = pooled
        bottleneck = self.bottleneck(feature)
        return [*skips, bottleneck, self.up(bottleneck)]


class UNetDecoder(Decoder):
    """Per level a concatenated skip and two convolutions; up-convolutions between the levels; a 1x1 head."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        layers = Layers(spec.dims, spec.norm)
        levels = tuple(reversed(spec.channels[:-1]))  # coarse to fine
        self.blocks = nn.ModuleList(two_convolutions(layers, 2 * width, width, spec) for width in levels)
        ups = [layers.up(width, width // 2) for width in levels[:-1]]
        self.ups = nn.ModuleList([*ups, nn.Identity()])  # nothing lies above the finest level
        self.head = layers.head(levels[-1], spec.classes)
        self.deep_heads = layers.deep_heads(spec)
        self.stretched = spec.geometry == "authors"
        self.mode = "bilinear" if spec.dims == 2 else "trilinear"

    def forward(self, features: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Logits at the image's size, and the map of each level, coarse to fine."""
        *skips, _, raised = features
        maps = []
        for block, up, skip in zip(self.blocks, self.ups, reversed(skips), strict=True):
            if self.stretched:
                skip = self.stretch(skip, raised.shape[2:])
            maps.append(block(torch.cat([dense_gradient(raised), skip], dim=1)))
            raised = up(maps[-1])
        logits = self.head(maps[-1])
        if self.stretched:
            # The finest skip is the image less two convolutions' borders, halved (check_unpadded: exactly halved).
            logits = self.stretch(logits, [2 * side + 4 for side in skips[0].shape[2:]])
        return logits, maps

    def stretch(self, feature: Tensor, size: Sequence[int]) -> Tensor:
        """``feature`` resized linearly to ``size``."""
        return F.interpolate(feature, size=tuple(size), mode=self.mode, align_corners=False)


def dense_gradient(feature: Tensor) -> Tensor:
    """``feature`` itself; on a GPU its gradient is copied out of that of the map which it becomes a part of.

    An up-convolution would copy a gradient with gaps twice, once for its input and once for its weight, and slowly.
    """
    found: Tensor = _DenseGradient.apply(feature) if feature.is_cuda else feature  # type: ignore[no-untyped-call]
    return found


class _DenseGradient(torch.autograd.Function):
    """The identity; backward, a gradient without gaps in the layout of the feature."""

    @staticmethod
    def forward(ctx: Any, feature: Tensor) -> Tensor:  # noqa: ANN401 - torch's own type
        last = LAST[feature.ndim]
        ctx.layout = last if feature.is_contiguous(memory_format=last) else torch.contiguous_format
        return feature.view_as(feature)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # noqa: ANN401
        return gradient.contiguous(memory_format=ctx.layout)


def two_convolutions(layers: Layers, inputs: int, outputs: int, spec: Spec) -> nn.Sequential:
    """Twice: convolution, normalisation, ReLU."""
    padding = 1 if spec.geometry == "padded" else 0
    first = layers.conv(inputs, outputs, padding=padding)
    return nn.Sequential(*first, *layers.conv(outputs, outputs, padding=padding))


def check_unpadded(size: Sequence[int], depth: int) -> None:
    """Nothing, or an error that names the sizes which convolutions without padding can take."""
    # Voxels a side in the bottleneck: from 8 on, a doubling makes up for the border that two convolutions lose.
    smallest = 8
    for _ in range(depth):
        smallest = 2 * smallest + 4
    if any(side < smallest or side % 2 for side in size):
        raise MixsegError(
            f"The authors' geometry of depth {depth} takes even sides of {smallest} voxels or more and was given "
            f'{tuple(size)}: resize the images, or use geometry="padded".',
            "unfit-size",
            size=tuple(size),
        )
