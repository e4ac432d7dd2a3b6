"""GLMI: features that an image and its flipped copy can be recognised by, globally and voxel by voxel.

    L = full * CE                                                    on the fully labelled scans
      - global * MI(head(f5(x)), head(f5(gx)))                       on all other scans x, their labels unread
      - local * mean over two decoder maps f of MI(head(g f(x)), head(f(gx)))
      + consistency * mean (softmax z(gx) - stopgrad softmax g z(x))^2

    g flips each image at random; MI is the mutual information of soft assignments to 20 clusters, the mean of 5 heads.
    f5 is the bottleneck, averaged over the image; the maps are the decoder's at half and at full resolution, where MI
    is the mean over displacements of up to 1 and 3 voxels.

Peng, Pedersoli, Desrosiers, "Boosting semi-supervised image segmentation with global and local mutual information
regularization", MELBA 2021.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import grad

from mixseg.core.errors import MixsegError
from mixseg.core.types import Batch
from mixseg.methods.base import BuildNetwork, Method, MethodOptions, Number, Term, supervised_on, unlabeled_images
from mixseg.methods.ema import probabilities
from mixseg.methods.losses.terms import at_least_float32

CLUSTERS = 20
HEADS = 5
FLIPPED = 0.8
"""How often each of the first two axes is flipped."""

# Note: in 3D, 27 displacements at full resolution in place of 343. See docs/concepts/deviations.md.
DISPLACEMENT = {2: {"coarse": 1, "fine": 3}, 3: {"coarse": 1, "fine": 1}}
"""The largest displacement on the decoder maps at half (coarse) and at full (fine) resolution, by spatial axes."""


class ClusterHeads(nn.Module):
    """Features ``(B, channels, *S)`` -> assignments ``(B, heads, clusters, *S)``; S may be empty."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.linear = nn.Linear(channels, HEADS * CLUSTERS)

    def forward(self, features: Tensor) -> Tensor:
        """Probabilities over the clusters of each head, in float32 or better."""
        scores = self.linear(features.movedim(1, -1)).movedim(-1, 1)
        split = at_least_float32(scores).reshape(len(scores), HEADS, CLUSTERS, *scores.shape[2:])
        return split.softmax(dim=2)


class GLMI(Method):
    """Global and local mutual information. ``predict`` uses the network alone; the heads only help to train it."""

    outputs = ("top",)
    replays = True

    def __init__(self, build: BuildNetwork, weights: Mapping[str, float], options: MethodOptions) -> None:
        super().__init__()
        self.network = build(1)
        spec = self.network.spec
        if spec.depth < 2:
            raise MixsegError(
                "The method glmi reads features at half resolution: use a network of depth 2 or more.",
                "invalid-value",
                key="depth",
                value=spec.depth,
            )
        channels = {"bottleneck": spec.channels[-1], "coarse": spec.channels[1], "fine": spec.channels[0]}
        self.heads = nn.ModuleDict({name: ClusterHeads(count) for name, count in channels.items()})
        self.displacement = DISPLACEMENT[spec.dims]
        self.weights = {name: weight for name, weight in weights.items() if weight}

    def forward(self, batch: Batch, progress: Number) -> dict[str, Term]:
        """The supervised term if there are full masks, the others if there are other scans."""
        values: dict[str, Tensor] = {}
        if batch.full.rows:
            values |= supervised_on(self.network, batch.full, self.weights)
        images = unlabeled_images(batch)
        if images is not None:
            values |= self._unsupervised(images)
        return {name: Term(value, self.weights[name]) for name, value in values.items() if name in self.weights}

    def predict(self, image: Tensor, outputs: Collection[str] = ()) -> dict[str, Tensor]:
        """Probabilities of the network."""
        return {"top": probabilities(self.network, image)}

    def _unsupervised(self, images: Tensor) -> dict[str, Tensor]:
        """Both views of the images pass together, they are of one kind; terms without a weight are left out."""
        flips = torch.rand(2, len(images), device=images.device) < FLIPPED
        features = self.network.encode(torch.cat([images, flip(images, flips)]))
        logits, maps = self.network.decode_features(features, 0)
        values: dict[str, Tensor] = {}
        if "consistency" in self.weights:
            plain, flipped = at_least_float32(logits).softmax(dim=1).chunk(2)
            values["consistency"] = (flipped - flip(plain.detach(), flips)).square().mean()
        if "global" in self.weights:
            values["global"] = self._global(features[-2])
        if "local" in self.weights:
            losses = [self._local("coarse", maps[-2], flips), self._local("fine", maps[-1], flips)]
            values["local"] = torch.stack(losses).mean()
        return values

    def _global(self, bottleneck: Tensor) -> Tensor:
        """Minus the information between the averaged features of both views: no flip is left to undo."""
        plain, flipped = self.heads["bottleneck"](bottleneck.flatten(2).mean(dim=2)).chunk(2)
        with torch.autocast(plain.device.type, enabled=False):
            return -global_information(plain, flipped).mean()

    def _local(self, name: str, features: Tensor, flips: Tensor) -> Tensor:
        """Minus the information between neighbouring voxels of both views."""
        plain, flipped = features.chunk(2)
        head = self.heads[name]
        # The joints are sums over all voxels of the step, which half precision cannot hold.
        with torch.autocast(features.device.type, enabled=False):
            first, second = (head(at_least_float32(view)) for view in (flip(plain, flips), flipped))
            return -local_information(first, second, pad=self.displacement[name]).mean()


def flip(images: Tensor, flips: Tensor) -> Tensor:
    """Images ``(B, C, *S)`` with the first two spatial axes reversed where ``flips`` ``(2, B)`` say so."""
    for axis, chosen in zip((2, 3), flips, strict=True):
        images = torch.where(chosen.reshape(-1, *[1] * (images.ndim - 1)), images.flip(axis), images)
    return images


CONV = {2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {2: F.conv_transpose2d, 3: F.conv_transpose3d}
WEIGHT_GRADIENT = {2: grad.conv2d_weight, 3: grad.conv3d_weight}


def mutual_information(joint: Tensor) -> Tensor:
    """``sum P log(P / (P_row P_column))`` of each ``(..., K, K)`` joint, after scaling to 1 and symmetrising.

    From 0 (independent) to ``log K`` (equal, and spread evenly over the clusters).
    """
    joint = joint / joint.sum(dim=(-2, -1), keepdim=True)
    joint = (joint + joint.mT) / 2
    rows, columns = joint.sum(dim=-1, keepdim=True), joint.sum(dim=-2, keepdim=True)
    ratio = _safe_log(joint) - _safe_log(rows) - _safe_log(columns)
    return (joint * ratio).sum(dim=(-2, -1))


def global_information(first: Tensor, second: Tensor) -> Tensor:
    """The information ``(heads,)`` between assignments ``(B, heads, K)`` of the same images."""
    return mutual_information(torch.einsum("bhk,bhl->hkl", first, second))


def local_information(first: Tensor, second: Tensor, *, pad: int) -> Tensor:
    """The information ``(heads,)`` between assignments ``(B, heads, K, *S)`` of voxels up to ``pad`` apart.

    It is the mean over all displacements ``|u| <= pad`` along each axis. The smallest entry of a head's joints is taken
    off all of them, as published: what remains is what the displacements tell beyond what they all share.
    """
    found = []
    for one, other in zip(first.unbind(dim=1), second.unbind(dim=1), strict=True):
        joint = displaced_joint(one, other, pad=pad).flatten(2).movedim(2, 0)
        found.append(mutual_information(joint - joint.detach().amin() + 1e-16).mean())
    return torch.stack(found)


def displaced_joint(first: Tensor, second: Tensor, *, pad: int) -> Tensor:
    """``P[k, l, u] = sum over images and voxels v of first[k, v + u] second[l, v]``, zero outside the image.

    Args:
        first: ``(B, K, *S)``.
        second: ``(B, K, *S)``.
        pad: The largest displacement; the result is ``(K, K, *(2 pad + 1))`` with ``u = 0`` in the middle.
    """
    joint: Tensor = _DisplacedJoint.apply(first.contiguous(), second.contiguous(), pad)  # type: ignore[no-untyped-call]
    return joint.transpose(0, 1)


class _DisplacedJoint(torch.autograd.Function):
    """The sums over all displacements at once: they are the weight gradient of a convolution of that size.

    As a convolution of ``first`` with ``second`` as its kernel it would have a kernel of the image's size. As a weight
    gradient it is what libraries are fastest at, and its own gradients are two ordinary small convolutions.
    """

    @staticmethod
    def forward(ctx: Any, first: Tensor, second: Tensor, pad: int) -> Tensor:  # noqa: ANN401 - torch's own type
        ctx.save_for_backward(first, second)
        ctx.pad = pad
        dims = first.ndim - 2
        size = (second.shape[1], first.shape[1], *[2 * pad + 1] * dims)
        joint: Tensor = WEIGHT_GRADIENT[dims](first, size, second, padding=pad)  # type: ignore[no-untyped-call]
        return joint

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, Tensor, None]:  # noqa: ANN401
        first, second = ctx.saved_tensors
        dims = first.ndim - 2
        with torch.autocast(first.device.type, enabled=False):
            to_first = TRANSPOSED[dims](second, outer, padding=ctx.pad)
            to_second = CONV[dims](first, outer, padding=ctx.pad)
        return to_first, to_second, None


def _safe_log(values: Tensor) -> Tensor:
    return values.clamp_min(1e-10).log()
