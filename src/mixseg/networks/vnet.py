"""V-Net with one encoder and several decoders: strided convolutions and additive skips."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from mixseg.core.errors import MixsegError
from mixseg.networks.base import Decoder, Encoder, Network, Spec, check_multiple
from mixseg.networks.layers import Layers


def vnet(spec: Spec) -> Network:
    """A V-Net of 1-2-3-3-3 convolutions per level whose branches share everything up to the first up-convolution."""
    if spec.geometry != "padded":
        raise MixsegError(
            'V-Net has one geometry: use geometry="padded", or the network "unet".',
            "settings-contradict",
            key="geometry",
            value=spec.geometry,
        )
    return Network(spec, VNetEncoder(spec), [VNetDecoder(spec) for _ in range(spec.branches)], check_multiple)


class VNetEncoder(Encoder):
    """Convolutions and a strided convolution per level, the bottleneck with dropout, and the first up-convolution."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        layers = Layers(spec.dims, spec.norm)
        channels = spec.channels
        inputs = (spec.in_channels, *channels[1:])
        self.blocks = nn.ModuleList(
            convolutions(layers, level, inputs[level], channels[level]) for level in range(spec.depth)
        )
        self.downs = nn.ModuleList(
            nn.Sequential(*layers.down(channels[level], channels[level + 1])) for level in range(spec.depth)
        )
        self.bottleneck = convolutions(layers, spec.depth, channels[-1], channels[-1])
        self.dropout = layers.channel_dropout(spec.dropout)
        self.up = nn.Sequential(*layers.activated_up(channels[-1], channels[-2]))

    def forward(self, image: Tensor) -> list[Tensor]:
        """``[*skips, bottleneck, raised]`` of ``(B, channels, *S)`` images."""
        skips = []
        feature = image
        for block, down in zip(self.blocks, self.downs, strict=True):
            skips.append(block(feature))
            feature = down(skips[-1])
        bottleneck = self.dropout(self.bottleneck(feature))
        return [*skips, bottleneck, self.up(bottleneck)]


class VNetDecoder(Decoder):
    """Per level an added skip and convolutions; up-convolutions between the levels; dropout and a 1x1 head."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        layers = Layers(spec.dims, spec.norm)
        levels = tuple(reversed(range(spec.depth)))  # coarse to fine
        widths = [spec.channels[level] for level in levels]
        self.blocks = nn.ModuleList(
            convolutions(layers, level, width, width) for level, width in zip(levels, widths, strict=True)
        )
        ups = [nn.Sequential(*layers.activated_up(width, width // 2)) for width in widths[:-1]]
        self.ups = nn.ModuleList([*ups, nn.Identity()])  # nothing lies above the finest level
        self.dropout = layers.channel_dropout(spec.dropout)
        self.head = layers.head(widths[-1], spec.classes)
        self.deep_heads = layers.deep_heads(spec)

    def forward(self, features: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Logits at the image's size, and the map of each level, coarse to fine."""
        *skips, _, raised = features
        maps = []
        for block, up, skip in zip(self.blocks, self.ups, reversed(skips), strict=True):
            maps.append(block(raised + skip))
            raised = up(maps[-1])
        return self.head(self.dropout(maps[-1])), maps


def convolutions(layers: Layers, level: int, inputs: int, outputs: int) -> nn.Sequential:
    """One convolution with normalisation and ReLU at the finest level, two at the next, three further down."""
    first = layers.conv(inputs, outputs)
    rest = [layer for _ in range(min(level, 2)) for layer in layers.conv(outputs, outputs)]
    return nn.Sequential(*first, *rest)
