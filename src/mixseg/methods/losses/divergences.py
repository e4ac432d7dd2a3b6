"""How far the student's probabilities are from the teacher's: one function per divergence, a value per voxel.

Each takes ``(student, teacher)`` probabilities ``(B, C, *S)`` and gives ``(B, *S)``, with gradients for both:
whether the teacher is detached, and whether both are smoothed first, is the method's choice. On probabilities of
exactly 0 a divergence can be infinite: a floor near the rounding error keeps the value finite and makes the gradient 0
below it. Above the floor nothing is changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from mixseg.core.errors import MixsegError, did_you_mean
from mixseg.methods.losses.terms import at_least_float32

Divergence = Callable[[Tensor, Tensor], Tensor]
"""(student, teacher) probabilities ``(B, C, *S)`` -> a value per voxel ``(B, *S)``."""


def smooth(probs: Tensor, temperature: float = 1.0) -> Tensor:
    """``softmax(probs / temperature)`` over the classes: the paper's softmax over softmax, from probabilities.

    For two classes it maps [0, 1] to [0.2689, 0.7311], so that a divergence becomes a bounded, nearly squared error.
    """
    return (at_least_float32(probs) / temperature).softmax(dim=1)


def kl(student: Tensor, teacher: Tensor) -> Tensor:
    """``KL(teacher || student) = sum_c t_c log(t_c / s_c)``: equation 3 of the paper, from top to bottom."""
    return (at_least_float32(teacher) * _log_ratio(teacher, student)).sum(dim=1)


def reverse_kl(student: Tensor, teacher: Tensor) -> Tensor:
    """``KL(student || teacher) = sum_c s_c log(s_c / t_c)``."""
    return kl(teacher, student)


def bhattacharyya(student: Tensor, teacher: Tensor) -> Tensor:
    """``-log sum_c sqrt(s_c t_c)``: the Bhattacharyya distance, the same in both directions."""
    product = at_least_float32(student) * at_least_float32(teacher)
    # The root of this floor is lost in a sum near 1, so that equal one-hot inputs still give exactly 0.
    floor = torch.finfo(product.dtype).eps ** 3
    return -product.clamp_min(floor).sqrt().sum(dim=1).log()


def alpha_divergence(student: Tensor, teacher: Tensor, *, alpha: float) -> Tensor:
    """Tsallis' ``(1 - sum_c t_c^alpha s_c^(1-alpha)) / (1 - alpha)``; ``KL(teacher || student)`` as alpha -> 1.

    Computed as ``sum_c t_c ((t_c / s_c)^(alpha-1) - 1) / (alpha - 1)``, which is the same because ``sum_c t_c = 1``
    and loses no digits where the two are close or alpha is close to 1.

    Args:
        student: ``(B, C, *S)`` probabilities.
        teacher: ``(B, C, *S)`` probabilities.
        alpha: Above 0. For large ones the student pays steeply for missing what the teacher sees.
    """
    if alpha == 1:
        return kl(student, teacher)
    # The gradient grows as floor^-alpha. The exponent leaves room for a sum over a batch's voxels.
    floor = torch.finfo(at_least_float32(student).dtype).max ** (-0.8 / alpha)
    power = (alpha - 1) * _log_ratio(teacher, student, floor)
    return (at_least_float32(teacher) * torch.expm1(power) / (alpha - 1)).sum(dim=1)


DIVERGENCES: dict[str, Divergence] = {
    "kl": kl,
    "reverse-kl": reverse_kl,
    "bhattacharyya": bhattacharyya,
    "alpha-2": partial(alpha_divergence, alpha=2.0),
    "alpha-3": partial(alpha_divergence, alpha=3.0),
    "alpha-5": partial(alpha_divergence, alpha=5.0),
}


def divergence(name: str, where: str = "") -> Divergence:
    """The divergence of that name: one of ``DIVERGENCES``, or ``alpha-X`` for any X above 0; ``where`` it was named."""
    if name in DIVERGENCES:
        return DIVERGENCES[name]
    number = re.fullmatch(r"alpha-(\d+\.?\d*|\.\d+)", name)
    if number and float(number[1]) > 0:
        return partial(alpha_divergence, alpha=float(number[1]))
    hint, place = did_you_mean(name, DIVERGENCES), f" in {where}" if where else ""
    raise MixsegError(
        f"Unknown divergence {name!r}{place}: {hint} Any alpha-X with X above 0 will do as well.",
        "unknown-name",
        kind="divergence",
        where=where,
        name=name,
    )


def _log_ratio(numerator: Tensor, denominator: Tensor, floor: float = 0.0) -> Tensor:
    """``log(numerator / denominator)`` with both kept above ``floor`` and above the rounding error of 1."""
    above, below = at_least_float32(numerator), at_least_float32(denominator)
    floor = max(floor, torch.finfo(above.dtype).eps)
    return above.clamp_min(floor).log() - below.clamp_min(floor).log()
