"""UA-MT: a student that agrees with its moving average wherever that average is sure.

    L = full * CE + dice * Dice                                      on the fully labelled scans
      + consistency(t) * sum_v M (p - p')^2 / (C sum_v M)            on all other scans, their labels unread

    p' = teacher(image + noise), p = student(image), C classes, voxels v
    M  = [H(mu) < tau(t)],  mu = mean of 8 further noisy passes of the teacher,  H its entropy
    tau(t) = (3/4 + 1/4 ramp(t; 0, 1)) log C,  consistency(t) = weight * ramp(t; 0, 0.2)

After each step the teacher follows its student with a decay of min(1 - 1/(step + 1), 0.99).

Yu et al., "Uncertainty-aware self-ensembling model for semi-supervised 3D left atrium segmentation", MICCAI 2019.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from mixseg.core.types import Batch
from mixseg.methods.base import (
    BuildNetwork,
    Method,
    MethodOptions,
    Number,
    Term,
    mean_where,
    ramp_up,
    supervised_on,
    unlabeled_images,
)
from mixseg.methods.ema import EMATeacher, probabilities
from mixseg.methods.losses.terms import at_least_float32

PASSES = 8
COPIES = 2
"""The 8 stochastic passes are 4 of the batch repeated twice, as published."""

NOISE, NOISE_LIMIT = 0.1, 0.2
"""Standard deviation and bound of the noise, in standard deviations of the image."""

DECAY = 0.99
RAMP = 0.2
"""The consistency grows over the first 100 of the paper's 500 epochs."""


class UAMT(Method):
    """Uncertainty-aware mean teacher. The student answers; the teacher is stored with it to go on training."""

    outputs = ("student",)
    replays = True

    def __init__(self, build: BuildNetwork, weights: Mapping[str, float], options: MethodOptions) -> None:
        super().__init__()
        self.student = build(1)
        self.teacher = EMATeacher(self.student)
        self.weights = {name: weight for name, weight in weights.items() if weight}

    def forward(self, batch: Batch, progress: Number) -> dict[str, Term]:
        """The supervised term if there are full masks, the consistency if there are other scans."""
        values: dict[str, Tensor] = {}
        if batch.full.rows:
            values |= supervised_on(self.student, batch.full, self.weights)
        images = unlabeled_images(batch)
        if images is not None and "consistency" in self.weights:
            values["consistency"] = self._consistency(images, progress)
        return {name: Term(value, self._weight(name, progress)) for name, value in values.items()}

    def predict(self, image: Tensor, outputs: Collection[str] = ()) -> dict[str, Tensor]:
        """Probabilities of the student."""
        return {"student": probabilities(self.student, image)}

    def after_step(self, step: int, progress: float) -> None:
        """The teacher becomes its student after step 0 and follows it ever more slowly."""
        self.teacher.follow(self.student, min(1 - 1 / (step + 1), DECAY))

    def _consistency(self, images: Tensor, progress: Number) -> Tensor:
        """The squared difference of student and teacher, per class, where the teacher is sure."""
        student = probabilities(self.student, images)
        teacher = self.teacher(images + noise_like(images))
        sure = self._uncertainty(images) < threshold(progress, classes=student.shape[1])
        return mean_where((student - teacher).square().mean(dim=1), sure)

    @torch.no_grad()
    def _uncertainty(self, images: Tensor) -> Tensor:
        """The entropy ``(B, *S)`` of the mean over the teacher's stochastic passes."""
        copies = torch.cat([images] * COPIES)
        total = torch.stack([self.teacher(copies + noise_like(copies)) for _ in range(PASSES // COPIES)]).sum(dim=0)
        mean = total.reshape(COPIES, *images.shape[:1], *total.shape[1:]).sum(dim=0) / PASSES
        return -(mean * (mean + 1e-6).log()).sum(dim=1)

    def _weight(self, name: str, progress: Number) -> Number:
        return self.weights[name] * (ramp_up(progress, 0.0, RAMP) if name == "consistency" else 1.0)


def threshold(progress: Number, *, classes: int) -> Number:
    """The entropy below which the teacher counts as sure: from 3/4 of the highest to the highest.

    Note: ``log C`` in place of the published ``log 2``, which is the same for two classes. See
    docs/concepts/deviations.md.
    """
    return (0.75 + 0.25 * ramp_up(progress, 0.0, 1.0)) * math.log(classes)


def noise_like(images: Tensor) -> Tensor:
    """Clipped Gaussian noise of a tenth of each image's and channel's standard deviation.

    Note: the published noise has an absolute size that suits images of standard deviation 1. See
    docs/concepts/deviations.md.
    """
    spread = at_least_float32(images).flatten(2).std(dim=2, correction=0)
    noise = (NOISE * torch.randn_like(images)).clamp(-NOISE_LIMIT, NOISE_LIMIT)
    return noise * spread.reshape(*spread.shape, *[1] * (images.ndim - 2)).to(images.dtype)
