"""One encoder, a teacher and a student: the paper's method, its ablations and its bounds in one class.

    L = full * CE(top; full masks)                 on the fully labelled scans
      + weak * CE(bottom; partial labels)          on all scans that have any
      + distill * D(bottom, top)                   on the fully labelled scans, softmax over softmax
      + entropy * H(bottom)                        on the partly labelled and the unlabeled scans
      + cutmix * CE(bottom; mixed targets)            on the same, cut into each other (cutmix.py); not in the paper

A term whose weight is 0 or absent is off. With one branch, top and bottom are the same and nothing is distilled.
Equations 1 to 5 of "Segmentation with mixed supervision: confidence maximization helps knowledge distillation".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Self

import torch
from torch import Tensor

from mixseg.core.types import IGNORE, Batch
from mixseg.methods.base import (
    BuildNetwork,
    Method,
    MethodOptions,
    Number,
    Term,
    average_count,
    mean_of_labelled,
    ramp_up,
    supervised,
    unlabeled_images,
)
from mixseg.methods.cutmix import cutmix, strong_view
from mixseg.methods.ema import EMATeacher
from mixseg.methods.losses import cross_entropy, divergence, entropy, min_entropy, smooth

TOP = 0
EMA_DECAY = 0.99
CUTMIX_RAMP = 0.2
"""The share of training over which proposals of the moving average come to count."""
CONFIDENCE = {"entropy": entropy, "min-entropy": min_entropy}


class DualBranch(Method):
    """The family lower-bound, single, single-ent, decoupled, kl, kl-ent and the upper bounds, told apart by weights."""

    replays = True

    def __init__(
        self, build: BuildNetwork, weights: Mapping[str, float], options: MethodOptions, *, branches: int
    ) -> None:
        super().__init__()
        self.network = build(branches)
        self.weights = {name: weight for name, weight in weights.items() if weight}
        self.options = options
        self.bottom = branches - 1
        self.outputs = ("bottom", "top", "ensemble") if branches == 2 else ("top",)
        self.compare = divergence(options.terms.divergence)
        self.unsure = CONFIDENCE[options.ablation.confidence]
        self.ema = EMATeacher(self.network).eval() if "cutmix" in self.weights else None

    def forward(self, batch: Batch, progress: Number) -> dict[str, Term]:
        """The terms that the batch and the weights allow."""
        values: dict[str, Tensor] = {}
        batch, target = self.mixed(batch)
        tops, bottoms = self._answers(batch)
        top, bottom = tops[0], bottoms[0]
        if target is not None:
            values["cutmix"] = self._cutmix_loss([level[batch.full.rows :] for level in bottoms], target)
        if batch.full.rows:
            values |= supervised(tops, batch.full.full, self.weights)
            if self.bottom != TOP and "distill" in self.weights:
                values["distill"] = self._distill(student=bottom[: batch.full.rows], teacher=top).mean()
        if "weak" in self.weights:
            labels = torch.cat([part.partial for part in batch.parts])
            values["weak"] = mean_of_labelled(cross_entropy(bottom, labels), labels)
        unsure = bottom if self.options.ablation.entropy_on == "all" else bottom[batch.full.rows :]
        if len(unsure) and "entropy" in self.weights:
            values["entropy"] = self.unsure(unsure).mean()
        return {
            name: Term(values[name], self._weight(name, progress, batch)) for name in self.weights if name in values
        }

    def mixed(self, batch: Batch) -> tuple[Batch, Tensor | None]:
        """The batch with its rows without full masks cut into each other, and what they are to answer, if it is on."""
        others = None if self.ema is None else unlabeled_images(batch)
        if self.ema is None or others is None:
            return batch, None
        batch, target = cutmix(batch, self.ema.ensemble(others))
        if self.options.ablation.view == "strong":
            rest = (part._replace(image=strong_view(part.image)) for part in (batch.partial, batch.unlabeled))
            batch = Batch(batch.full, *rest)
        return batch, target

    def predict(self, image: Tensor, outputs: Collection[str] = ()) -> dict[str, Tensor]:
        """Probabilities of each branch, and their mean. A branch that nobody asks for is not computed."""
        network = self.network if self.ema is None else self.ema.network
        wanted = [name for name in self.outputs if not outputs or name in outputs]
        features = network.encode(image)
        probs = {
            name: network.decode(features, branch).float().softmax(dim=1)
            for name, branch in {"top": TOP, "bottom": self.bottom}.items()
            if name in wanted or "ensemble" in wanted
        }
        if "ensemble" in wanted:
            probs["ensemble"] = (probs["top"] + probs["bottom"]) / 2
        return {name: probs[name] for name in wanted}

    def after_step(self, step: int, progress: float) -> None:
        """The moving average follows, at first closely."""
        if self.ema is not None:
            self.ema.follow(self.network, min(1 - 1 / (step + 1), EMA_DECAY))
            self.ema.take_statistics(self.network)

    def train(self, mode: bool = True) -> Self:
        """The moving average proposes what it would answer: it is never in training mode."""
        super().train(mode)
        if self.ema is not None:
            self.ema.eval()
        return self

    def _answers(self, batch: Batch) -> tuple[list[Tensor], list[Tensor]]:
        """Logits of top on the full rows and of bottom on all rows, in the order of ``batch.parts``, by resolution.

        Each kind of supervision passes by itself: BatchNorm over mixed rows turns the labelled rows' push towards
        background into a push towards foreground for the others. See docs/concepts/deviations.md.
        """
        images = [part.image for part in batch.parts]
        joint = self.options.ablation.passes == "joint"
        if joint:
            images = [torch.cat(images)]
        bottom: list[list[Tensor]] = []
        top = None
        for image in images:
            features = self.network.encode(image)
            bottom.append(self.network.decode_deep(features, self.bottom))
            if top is None:  # the full rows come first, in the first pass
                seen = features if joint else [level[: batch.full.rows] for level in features]
                top = bottom[0] if self.bottom == TOP else self.network.decode_deep(seen, TOP)
        assert top is not None, "a batch has at least one row"
        return [level[: batch.full.rows] for level in top], [torch.cat(level) for level in zip(*bottom, strict=True)]

    def _distill(self, *, student: Tensor, teacher: Tensor) -> Tensor:
        """The divergence per voxel between the branches' softmax over softmax."""
        teacher = teacher.detach() if self.options.ablation.detach else teacher
        tau = self.options.ablation.temperature
        return self.compare(smooth(student.softmax(dim=1), tau), smooth(teacher.softmax(dim=1), tau))

    def _cutmix_loss(self, answers: Sequence[Tensor], target: Tensor) -> Tensor:
        """Cross-entropy and, as it weighs for the teacher, Dice."""
        found = supervised(answers, target, {**self.weights, "full": 1.0})
        return found["full"] + self.weights["dice"] * found["dice"] if "dice" in found else found["full"]

    def _weight(self, name: str, progress: Number, batch: Batch) -> Number:
        if name == "weak" and self.options.ablation.weak_over == "images":
            # The term itself stays a mean over voxels, which the guard can read whatever it weighs.
            labels = torch.cat([part.partial for part in batch.parts])
            return self.weights[name] * average_count(labels != IGNORE) / len(labels)
        if name == "entropy" and self.options.terms.ramp:
            return self.weights[name] * ramp_up(progress, 0.0, self.options.terms.ramp)
        if name == "cutmix":
            return self.weights[name] * ramp_up(progress, 0.0, CUTMIX_RAMP)
        return self.weights[name]
