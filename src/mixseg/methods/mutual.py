"""Two branches that teach each other: both learn every label, and the masks that their averaged mean proposes.

    L = mean over the branches of
        full * CE(branch; full masks)             on the fully annotated scans
      + weak * CE(branch; partial labels)         on all scans that have any
      + cutmix * CE(branch; mixed targets)           on the scans without full masks, cut into each other (cutmix.py)

The answer is the mean of both. Not in the paper, whose teacher sees full masks alone: published dual-decoder methods
let the branches answer for each other where there is no label, and so does this one, through the moving average of
both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mixseg.core.types import Batch
from mixseg.methods.base import BuildNetwork, MethodOptions, Number, Term, mean_of_labelled, supervised
from mixseg.methods.dual_branch import DualBranch
from mixseg.methods.losses import cross_entropy

KEPT = 0.5
"""Share of the channels that feature dropout leaves to the first branch; the other one has the rest."""


class Mutual(DualBranch):
    """Two decoders that differ in where they began and, with ``feature_dropout``, in the channels that they see."""

    def __init__(self, build: BuildNetwork, weights: Mapping[str, float], options: MethodOptions) -> None:
        super().__init__(build, weights, options, branches=2)
        self.outputs = ("ensemble", "bottom", "top")

    def forward(self, batch: Batch, progress: Number) -> dict[str, Term]:
        """The terms that the batch and the weights allow, each the mean over the branches."""
        batch, target = self.mixed(batch)
        of_branches = [self._terms_of(answers, batch, target) for answers in self._all_answers(batch)]
        return {
            name: Term(
                torch.stack([values[name] for values in of_branches]).mean(), self._weight(name, progress, batch)
            )
            for name in self.weights
            if name in of_branches[0]
        }

    def _terms_of(self, answers: Sequence[Tensor], batch: Batch, target: Tensor | None) -> dict[str, Tensor]:
        """What one branch learns; ``answers`` are its logits by resolution, in the order of ``batch.parts``."""
        full = batch.full.rows
        values: dict[str, Tensor] = {}
        if target is not None:
            values["cutmix"] = self._cutmix_loss([level[full:] for level in answers], target)
        if full:
            values |= supervised([level[:full] for level in answers], batch.full.full, self.weights)
        if "weak" in self.weights:
            labels = torch.cat([part.partial for part in batch.parts])
            values["weak"] = mean_of_labelled(cross_entropy(answers[0], labels), labels)
        return values

    def _all_answers(self, batch: Batch) -> list[list[Tensor]]:
        """For each branch its logits on all rows, by resolution. Each kind of supervision passes by itself."""
        found: list[list[list[Tensor]]] = [[], []]
        for part in batch.parts:
            features = self.network.encode(part.image)
            for branch, seen in enumerate(self._shared_out(features, hidden=part is not batch.full)):
                found[branch].append(self.network.decode_deep(seen, branch))
        return [[torch.cat(level) for level in zip(*passes, strict=True)] for passes in found]

    def _shared_out(self, features: list[Tensor], *, hidden: bool) -> tuple[list[Tensor], list[Tensor]]:
        """The features that each branch sees: all, or complementary channels of those images that are drawn for it."""
        share = self.options.ablation.feature_dropout
        if not (hidden and share and self.training):
            return features, features
        drawn = torch.rand(len(features[0]), device=features[0].device) < share
        first, second = [], []
        for feature in features:
            shape = (*feature.shape[:2], *(1,) * (feature.ndim - 2))
            kept = torch.rand(shape, device=feature.device) < KEPT
            whole = ~drawn.view(-1, *(1,) * (feature.ndim - 1))
            first.append(feature * (whole + ~whole * kept / KEPT))
            second.append(feature * (whole + ~whole * ~kept / (1 - KEPT)))
        return first, second
