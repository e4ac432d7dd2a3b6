"""SSCO: several students that agree with each other at their own pace, each with a teacher that follows it.

    L = full * mean_k CE(student_k)                                  on the fully labelled scans
      + self-paced(t) * mean_v [ H(sum_k pi_k p_k) - (1 - alpha(t)) / K sum_k w_k H(p_k) ]
      + consistency(t) * mean_k mean (p_k - teacher_k)^2             on all other scans, their labels unread

    p_k: student k on images turned by multiples of 90 degrees (flipped and turned by 180 where the sides differ), its
    answer turned back; teacher_k sees them unturned
    w_k = 1 - KL_k / gamma(t), at least 1e-5;  pi_k = w_k / sum_j w_j;  neither has gradients
    KL_k = -sum_c q_c log p_k,c, exact zeros made 1e-3;  q_c = [mean_k p_k,c > 0.8]
    self-paced(t), consistency(t) = weight * ramp(t; .05, .5);  alpha(t) = 1e-5 ramp(t; .1, .6)
    gamma(t) = 0.2 + 7.8 ramp(t; .05, .5)

Wang et al., "Self-paced and self-consistent co-training for semi-supervised image segmentation", Medical Image Analysis
2021. After each step a teacher follows its student with a decay of min(1 - 1/(epoch + 1), 0.999), where an epoch is 1 %
of training.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch
from torch import Tensor, nn

from mixseg.core.types import Batch
from mixseg.methods.base import (
    BuildNetwork,
    Method,
    MethodOptions,
    Number,
    Term,
    ramp_up,
    supervised_on,
    unlabeled_images,
)
from mixseg.methods.ema import EMATeacher
from mixseg.methods.losses import entropy
from mixseg.methods.losses.terms import at_least_float32

# Note: the published schedules count epochs of 200 steps out of 100; these are the same shares of training.
# See docs/concepts/deviations.md.
GROWTH = (0.05, 0.5)
ALPHA, ALPHA_GROWTH = 1e-5, (0.1, 0.6)
GAMMA = (0.2, 8.0)
EPOCHS, DECAY = 100, 0.999
CONFIDENT = 0.8


class SSCO(Method):
    """Self-paced and self-consistent co-training. The answer is the mean of the teachers.

    Args:
        build: Makes a network with a fresh initialisation: all that the students differ in.
        weights: Of the terms.
        options: None of them concerns this method.
        students: How many; each has a teacher. 4 is the count of the paper's complexity table.
    """

    outputs = ("teachers",)
    replays = True

    def __init__(
        self, build: BuildNetwork, weights: Mapping[str, float], options: MethodOptions, *, students: int = 2
    ) -> None:
        super().__init__()
        networks = [build(1) for _ in range(students)]
        self.students = nn.ModuleList(networks)
        self.teachers = nn.ModuleList(EMATeacher(network) for network in networks)
        self.weights = {name: weight for name, weight in weights.items() if weight}

    def forward(self, batch: Batch, progress: Number) -> dict[str, Term]:
        """The supervised term if there are full masks, the others if there are other scans."""
        values: dict[str, Tensor] = {}
        if batch.full.rows:
            found = [supervised_on(net, batch.full, self.weights) for net in self.students]  # type: ignore[arg-type]
            # Note: per voxel; the released code divides by the classes as well. See docs/concepts/deviations.md.
            values |= {name: torch.stack([of_one[name] for of_one in found]).mean() for name in found[0]}
        images = unlabeled_images(batch)
        if images is not None:
            values |= self._unsupervised(images, progress)
        if "consistency" not in values:  # the normalisation of the teachers needs to see scans all the same
            self._teach(batch.full.image if images is None else images)
        return {name: Term(value, self._weight(name, progress)) for name, value in values.items()}

    def predict(self, image: Tensor, outputs: Collection[str] = ()) -> dict[str, Tensor]:
        """The mean of the teachers' probabilities."""
        return {"teachers": self._teach(image).mean(dim=0)}

    def after_step(self, step: int, progress: float) -> None:
        """Each teacher follows its own student."""
        for teacher, student in zip(self.teachers, self.students, strict=True):
            teacher.follow(student, decay(progress))  # type: ignore[operator]

    def _teach(self, image: Tensor) -> Tensor:
        """Probabilities ``(K, B, classes, *S)`` of the teachers."""
        return torch.stack([teacher(image) for teacher in self.teachers])

    def _unsupervised(self, images: Tensor, progress: Number) -> dict[str, Tensor]:
        values: dict[str, Tensor] = {}
        turns = torch.randint(4, (len(images),), device=images.device)
        turned = turn(images, turns)
        logits = torch.stack([turn(at_least_float32(net(turned)[0]), -turns) for net in self.students])
        if "consistency" in self.weights:
            values["consistency"] = (logits.softmax(dim=2) - self._teach(images)).square().mean()
        if "self-paced" in self.weights:
            pace = paces(logits.detach().softmax(dim=2), gamma=gamma(progress))
            values["self-paced"] = disagreement(logits, pace, alpha=ALPHA * ramp_up(progress, *ALPHA_GROWTH))
        return values

    def _weight(self, name: str, progress: Number) -> Number:
        return self.weights[name] * (1.0 if name in ("full", "dice") else ramp_up(progress, *GROWTH))


def decay(progress: float) -> float:
    """How much of itself a teacher keeps: 0, 1/2, 9/10, 99/100 at 0, 1, 9 and 99 % of training."""
    epoch = int(EPOCHS * progress + 1e-6)  # 0.29 * 100 is below 29 in floating point
    return min(1 - 1 / (epoch + 1), DECAY)


def gamma(progress: Number) -> Number:
    """The divergence from the common answer at which a voxel of a student stops counting."""
    first, last = GAMMA
    return first + (last - first) * ramp_up(progress, *GROWTH)


def paces(probs: Tensor, *, gamma: Number) -> Tensor:
    """How much each student's voxels count, ``(K, B, *S)``, for probabilities ``(K, B, C, *S)``.

    A voxel without a confident class counts almost fully: there is no common answer to be far from.
    """
    common = (probs.mean(dim=0) > CONFIDENT).to(probs.dtype)
    divergence = -(common * (probs + 1e-16).log()).sum(dim=2)
    divergence = torch.where(divergence == 0, 1e-3, divergence)
    pace = 1 - divergence / gamma
    return torch.where(pace < 0, 1e-5, pace)


def disagreement(logits: Tensor, pace: Tensor, *, alpha: Number) -> Tensor:
    """The self-paced generalised Jensen-Shannon term of students' logits ``(K, B, C, *S)``; alpha adds confidence."""
    share = (pace / pace.sum(dim=0)).unsqueeze(2)
    mixture = (share * logits.softmax(dim=2)).sum(dim=0)
    of_mixture = -(mixture * mixture.clamp_min(1e-16).log()).sum(dim=1)
    of_each = entropy(logits.flatten(0, 1)).reshape(pace.shape)
    return of_mixture.mean() - (1 - alpha) * (pace * of_each).mean()


def turn(images: Tensor, turns: Tensor) -> Tensor:
    """Each of ``(B, C, *S)`` images turned by so many quarters ``(B,)`` in the plane of its first two axes.

    Where these differ in size, 1 and 2 flip one of them each, and 3 both, which is half a turn: what keeps the size.
    ``-turns`` turns back.
    """
    square = images.shape[2] == images.shape[3]
    code = turns % 4 if square else turns.abs()  # a flip is undone by itself
    for bit in (1, 2):
        still = (code // bit % 2 == 0).reshape(-1, *[1] * (images.ndim - 1))
        moved = torch.rot90(images, bit, dims=(2, 3)) if square else images.flip(1 + bit)
        images = torch.where(still, images, moved)  # with the strides of images
    return images
