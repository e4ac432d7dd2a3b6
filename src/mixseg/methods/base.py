"""What the training loop knows about a method, and what methods share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, overload

import torch
from torch import Tensor, distributed, nn

from mixseg.core.types import IGNORE, Batch, Part, Sees
from mixseg.methods.losses import cross_entropy, dice_of_sums, dice_sums, labelled_mean
from mixseg.methods.losses.terms import at_least_float32
from mixseg.networks import Network

Number = float | Tensor
"""A number, or a tensor without axes: on the device, where a recorded step can be told another one."""


class Term(NamedTuple):
    """One summand of the loss. The loop minimises ``weight * value`` and logs both."""

    value: Tensor
    weight: Number = 1.0


class Method(nn.Module, ABC):
    """Batches -> named loss terms; image -> named probabilities.

    ``outputs`` names what ``predict`` returns; the first one is the method's answer. ``replays`` says whether
    ``forward`` can be recorded once: it takes ``progress`` as a tensor and asks no tensor's value.
    """

    outputs: tuple[str, ...]
    replays = False

    @abstractmethod
    def forward(self, batch: Batch, progress: Number) -> dict[str, Term]:
        """The terms of the loss on ``batch``; ``progress`` runs from 0 to 1 through training."""

    @abstractmethod
    def predict(self, image: Tensor, outputs: Collection[str] = ()) -> dict[str, Tensor]:
        """Class probabilities ``(B, C, *S)`` of each output for ``(B, channels, *S)`` images, the answer first.

        Of ``outputs`` alone, in the method's own order, if any are named.
        """

    def after_step(self, step: int, progress: float) -> None:
        """Called after optimiser step ``step`` (the first is 0): the place for moving averages."""
        return None


@dataclass(frozen=True)
class TermOptions:
    """What a user may want to choose of the loss, beside the weights of its terms.

    Attributes:
        divergence: How the student is compared with the teacher: a name of ``losses.DIVERGENCES``.
        ramp: The share of training over which the confidence term grows to its weight; 0 is at once.
    """

    divergence: str = "kl"
    ramp: float = 0.0


@dataclass(frozen=True)
class AblationOptions:
    """What the paper leaves open or compares.

    Attributes:
        temperature: Divides the probabilities in the softmax over softmax before the divergence.
        detach: Whether the divergence teaches the student alone (True) or moves the teacher too.
        confidence: What makes the student confident: "entropy" (Shannon) or "min-entropy" (pseudo-labels as a loss).
        weak_over: What the partial cross-entropy is a mean over: the labelled "voxels" of a step, or its "images", each
            with the sum over its labelled voxels.
        entropy_on: The scans that the confidence term sees: "partial" (with the unlabeled ones) or "all".
        passes: "separate" gives each kind of supervision its own batch statistics; "joint" mixes them, and collapses.
        view: Whether the scans that are cut into each other are seen as the moving average saw them ("same"), or with
            other grey values ("strong").
        feature_dropout: Of mutual: the share of the scans without full masks of which each branch sees one half of the
            channels, the other branch the other half.
    """

    temperature: float = 1.0
    detach: bool = True
    confidence: Literal["entropy", "min-entropy"] = "entropy"
    weak_over: Literal["voxels", "images"] = "voxels"
    entropy_on: Literal["partial", "all"] = "partial"
    passes: Literal["separate", "joint"] = "separate"
    view: Literal["same", "strong"] = "same"
    feature_dropout: float = 0.0


@dataclass(frozen=True)
class MethodOptions:
    """What the methods leave to the user: two groups of a config. Each method reads the ones that concern it."""

    terms: TermOptions = field(default_factory=TermOptions)
    ablation: AblationOptions = field(default_factory=AblationOptions)


BuildNetwork = Callable[[int], Network]
"""Makes a freshly initialised network with so many branches."""


Role = Literal["masks", "partial labels", "distillation", "proposals", "confidence", "consistency"]
"""What a term of a loss learns from. The last two make a network sure or consistent of whatever it says: they alone
can run away from the labels."""

ROLES: dict[str, Role] = {
    "full": "masks",
    "dice": "masks",
    "weak": "partial labels",
    "distill": "distillation",
    "cutmix": "proposals",
    "entropy": "confidence",
}
"""Of the terms that several methods have; any other term is a consistency, unless its method's row says otherwise."""

NEEDS_FULL: tuple[Role, ...] = ("masks", "distillation")
"""The terms of these roles learn on fully annotated scans."""

LOOSE: tuple[Role, ...] = ("confidence", "consistency")
"""The terms of these roles hold a model neither to labels nor to a teacher."""


def usual_role(term: str) -> Role:
    """What a term of this name learns from, in any method that says nothing else."""
    return ROLES.get(term, "consistency")


@dataclass(frozen=True)
class MethodRow:
    """One row of METHODS: how a method is made, and what others need to know of it.

    Attributes:
        make: ``(build, weights, options) -> Method``.
        about: One line for ``--help`` and the docs.
        sees: Which labels a run of this method may look at.
        weights: The terms of its loss with the weights of the paper.
        batch: Images per step ``(full, partial, unlabeled)`` by number of spatial axes.
        held: Numbers that a step holds at most, per voxel of an image and channel of the finest level, by number of
            spatial axes: what the backward pass needs, and the passes of teachers beside it. A test counts them; where
            it is None they are counted when a run is planned (``methods.memory``).
        outputs: What ``predict`` returns, the method's answer first.
        roles: Of its terms, where they differ from ``ROLES``.
        ignores_set: Whether it takes every train patient, whatever Set-N is asked for.
    """

    make: Callable[[BuildNetwork, Mapping[str, float], MethodOptions], Method]
    about: str
    sees: Sees
    weights: Mapping[str, float]
    batch: Mapping[int, tuple[int, int, int]]
    held: Mapping[int, int] | None = None
    outputs: tuple[str, ...] = ("top",)
    roles: Mapping[str, Role] = field(default_factory=dict)
    ignores_set: bool = False

    def role(self, term: str) -> Role:
        """What a term of its loss learns from."""
        return self.roles.get(term) or usual_role(term)

    def terms(self, *roles: Role) -> tuple[str, ...]:
        """The terms of its loss, and those that can be added to any, of these roles."""
        return tuple(term for term in dict.fromkeys((*self.weights, *ROLES)) if self.role(term) in roles)


@overload
def ramp_up(position: float, start: float, end: float) -> float: ...
@overload
def ramp_up(position: Number, start: float, end: float) -> Number: ...
def ramp_up(position: Number, start: float, end: float) -> Number:
    """The Gaussian ramp ``exp(-5 (1 - x)^2)``: 0 before ``start``, e^-5 at it, 1 from ``end`` on."""
    if isinstance(position, Tensor):
        rising = torch.exp(-5 * (1 - (position - start) / (end - start)) ** 2)
        return torch.where(position < start, 0.0, torch.where(position < end, rising, 1.0))
    if position < start:
        return 0.0
    if position >= end:
        return 1.0
    return math.exp(-5 * (1 - (position - start) / (end - start)) ** 2)


def mean_of_labelled(values: Tensor, label: Tensor) -> Tensor:
    """The mean of a loss over the labelled voxels, counted over all processes that train together."""
    return mean_where(values, label != IGNORE)


def mean_where(values: Tensor, mask: Tensor) -> Tensor:
    """The mean of a loss where ``mask`` is true, counted over all processes that train together.

    DDP averages gradients over processes; dividing by the average count makes that the gradient of the mean over all
    true voxels of the step, wherever they lie.
    """
    return labelled_mean(values, mask, count=average_count(mask) if _together() else None)


def average_count(mask: Tensor) -> Tensor:
    """How often ``mask`` is true, on average over the processes that train together."""
    count = mask.sum()
    if not _together():
        return count
    distributed.all_reduce(count)
    return count / distributed.get_world_size()


def foreground_dice(logits: Tensor, label: Tensor) -> Tensor:
    """The soft Dice loss of the whole step, of all processes, averaged over all classes but the background."""
    sums = torch.stack(dice_sums(at_least_float32(logits).softmax(dim=1), label))
    if _together():
        # The sums of all processes. The gradient is that of this one's share times their number: DDP averages it.
        total = sums.detach().clone()
        distributed.all_reduce(total)
        sums = total + distributed.get_world_size() * (sums - sums.detach())
    return dice_of_sums(sums[0], sums[1])[1:].mean()


def unlabeled_images(batch: Batch) -> Tensor | None:
    """The images ``(B, channels, *S)`` of the partly labelled and the unlabeled scans, or None; no label is read."""
    images = [part.image for part in (batch.partial, batch.unlabeled) if part.rows]
    return torch.cat(images) if images else None


def supervised_on(network: Network, part: Part, weights: Mapping[str, float]) -> dict[str, Tensor]:
    """The terms of ``supervised`` for a network of one branch, on scans with full masks."""
    return supervised(network.decode_deep(network.encode(part.image), 0), part.full, weights)


def supervised(answers: Sequence[Tensor], label: Tensor, weights: Mapping[str, float]) -> dict[str, Tensor]:
    """The cross-entropy "full" and, where it has a weight, the soft "dice" of the foreground classes.

    Args:
        answers: Logits at the label's resolution, at half of it, a quarter, ...: each counts half of the one before.
        label: ``(B, *S)``.
        weights: Of the terms that are wanted.
    """
    values: dict[str, list[Tensor]] = {"full": [], "dice": []}
    for level, logits in enumerate(answers):
        every = slice(None, None, 2**level)
        seen, share = label[:, *(every,) * (label.ndim - 1)], 0.5**level
        values["full"].append(share * mean_of_labelled(cross_entropy(logits, seen), seen))
        if "dice" in weights:
            values["dice"].append(share * foreground_dice(logits, seen))
    return {name: torch.stack(of_levels).sum() for name, of_levels in values.items() if name in weights}


def _together() -> bool:
    """Whether several processes train one model."""
    return distributed.is_available() and distributed.is_initialized()
