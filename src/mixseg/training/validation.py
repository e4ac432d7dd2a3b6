"""What is measured between training steps: volume DSC on the validation scans, and signs of a collapse.

Confidence has trivial solutions, all foreground or none: ``Guard`` notices a student that runs away.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from mixseg.core.errors import enumerated
from mixseg.core.types import IGNORE
from mixseg.data.batches import Feed
from mixseg.data.scan import Scan
from mixseg.evaluation.statistics import estimate
from mixseg.inference.predictor import argmax
from mixseg.inference.sliding_window import Forward, Grey, Windows, predict_slabs, predict_slices
from mixseg.methods import METHODS, Method
from mixseg.methods.base import LOOSE, Role, usual_role
from mixseg.methods.losses import DIVERGENCES
from mixseg.methods.outputs import TEACHER, short_name
from mixseg.runs.config import Config

TOO_MUCH = 3.0, 0.03
"""A class has run away when its share exceeds ``3 x expected + 0.03``."""
TOO_LITTLE = 0.05
"""A class has died out when its share falls below a twentieth of what is expected."""
GRACE = 0.1, 0.3
"""The share of training before which nothing is judged to have run away, or died out: a rare class is found late."""
CONTRADICTION = 0.5
"""Teacher and student contradict each other when their divergence exceeds so many nats per voxel; 0.01 is usual."""
UNDECIDED = 0.9
"""The student decides nothing when its entropy exceeds so much of the largest possible."""


@dataclass
class Guard:
    """Compares what the model marks on the partly labelled scans with what the full masks lead to expect.

    Attributes:
        classes: Names by class index.
        expected: Share of the voxels of each class in the full masks that the run sees.
        weights: Of the terms that the run's method has: what is advised is what they allow.
        joint: Whether all kinds of scan pass the network in one batch.
        role: What each of the terms learns from.
    """

    classes: Sequence[str]
    expected: Sequence[float]
    weights: Mapping[str, float]
    joint: bool = False
    role: Callable[[str], Role] = usual_role
    collapsed: bool = False

    def judge(
        self,
        shares: Sequence[float],
        progress: float,
        *,
        entropy: float = 0.0,
        divergence: float = 0.0,
        partial: float = 0.0,
    ) -> str:
        """A sentence when the model starts to run away, one when it is back, and "" in between.

        Args:
            shares: Of the voxels of the watched scans, by class.
            progress: From 0 to 1 through training.
            entropy: Mean of the answer there, in nats.
            divergence: Mean of the answer from the teacher there, in nats.
            partial: Mean cross-entropy of the partial labels that were trained on, in nats.
        """
        found = (
            self._shares(shares, progress)
            or self._branches(entropy, divergence, progress)
            or self._labels(partial, progress)
        )
        before, self.collapsed = self.collapsed, bool(found)
        if self.collapsed and not before:
            return f"Collapse: on the partly labelled scans {found}"
        if before and not self.collapsed:
            return "The student has come back from its collapse."
        return ""

    def _shares(self, shares: Sequence[float], progress: float) -> str:
        for name, share, expected in list(zip(self.classes, shares, self.expected, strict=True))[1:]:
            if progress >= GRACE[0] and share > TOO_MUCH[0] * expected + TOO_MUCH[1]:
                choices = ("train longer", self._raise("distillation"), self._lower(), self._ramp())
                how, remedy = "far too much", _either(*choices, last=" or ")
            elif progress >= GRACE[1] and share < TOO_LITTLE * expected:
                how, remedy = "next to nothing", _either("train longer", self._raise("partial labels"), self._lower())
            else:
                continue
            apart = ", and set passes=separate" if self.joint else ""
            return (
                f"the model marks {how} as {name} ({share:.1%} of the voxels; the full masks have {expected:.1%}). "
                f"{remedy}{apart}."
            )
        return ""

    def _branches(self, entropy: float, divergence: float, progress: float) -> str:
        if progress >= GRACE[0] and divergence > CONTRADICTION:
            remedy = _either(self._raise("distillation"), self._lower()) or "Train longer"
            return f"student and teacher contradict each other ({divergence:.2g} nats apart per voxel). {remedy}."
        if progress >= GRACE[1] and entropy > UNDECIDED * math.log(len(self.classes)):
            sure = self._raise("confidence")
            remedy = _either(f"{sure} or the lr" if sure else "raise the lr", "train longer")
            return f"the model decides nothing (an entropy of {entropy:.2g} nats per voxel). {remedy}."
        return ""

    def _labels(self, partial: float, progress: float) -> str:
        """A class may have died out on some of the scans alone: their labels know it, the shares do not."""
        guessing = math.log(len(self.classes))
        if progress >= GRACE[1] and partial > guessing:
            calm = " or ".join(filter(None, (self._lower(), self._ramp())))
            return (
                f"the model contradicts the labels that they have ({partial:.2g} nats per labelled voxel; guessing "
                f"would have {guessing:.2g}). {_either(self._raise('partial labels'), calm)}."
            )
        return ""

    def _of(self, *roles: Role, on: bool = False) -> list[str]:
        """The keys of the terms that the method has of these roles; with ``on`` those alone that are not off."""
        return [
            f"weights.{term}"
            for term, weight in self.weights.items()
            if self.role(term) in roles and (weight > 0 or not on)
        ]

    def _raise(self, role: Role) -> str:
        found = self._of(role)
        return f"raise {enumerated(found, ' or ')}" if found else ""

    def _lower(self) -> str:
        """What the method has that can run away, and is not off already."""
        loose = self._of(*LOOSE, on=True)
        return f"lower {enumerated(loose, ' or ')}" if loose else ""

    def _ramp(self) -> str:
        return "use ramp=0.3" if self._of("confidence", on=True) else ""


def _either(*choices: str, last: str = ", or ") -> str:
    """The choices that there are, as the beginning of a sentence."""
    text = enumerated([choice for choice in choices if choice], last)
    return text[:1].upper() + text[1:]


WATCHED_SLICES = 32
WATCHED_VOLUMES = 2


class Answers(NamedTuple):
    """Some rows at a time of what is held: slices, or a slab of a volume.

    Attributes:
        owner: ``(n,)``, the scan that each row belongs to.
        truth: ``(n, *S)``; None where the scans have no full masks.
        probs: ``(n, classes, *S)`` of each output; overwritten when the next rows are asked for.
    """

    owner: Tensor
    truth: Tensor | None
    probs: dict[str, Tensor]


class ScansOnDevice:
    """Scans that stay on the device, so that a validation costs little more than its forward passes."""

    def __init__(self, scans: Sequence[Scan], config: Config, device: torch.device) -> None:
        self.config = config
        lengths = [len(scan.image) if config.data.dims == 2 else 1 for scan in scans]
        self.images = [torch.from_numpy(scan.image).to(device) for scan in scans]
        self.truths = [torch.from_numpy(scan.full).to(device) for scan in scans if scan.full is not None]
        self.mean, self.std = (
            torch.tensor([getattr(scan, which) for scan in scans], device=device) for which in ("mean", "std")
        )
        self.owner = torch.arange(len(scans), device=device).repeat_interleave(
            torch.tensor(lengths, dtype=torch.long, device=device)
        )
        self.stack, self.truth = (
            torch.cat(volumes) if config.data.dims == 2 and volumes else None for volumes in (self.images, self.truths)
        )
        self.voxels = sum(scan.image.size // scan.channels for scan in scans)

    def __call__(self, method: Method) -> Iterator[Answers]:
        """All of it, as the network answers it. Windows of volumes are half a patch apart, whatever the config says."""
        forward = Forward(method, self.config.data.intensity)
        if self.stack is not None:
            slices = Grey(self.stack, self.mean[self.owner], self.std[self.owner])
            for some, found in predict_slices(forward, slices):
                yield Answers(self.owner[some], None if self.truth is None else self.truth[some], found)
            return
        windows = Windows(self.config.data.patch, weights=self.config.inference.window)
        for at, image in enumerate(self.images):
            for place, found in predict_slabs(forward, Grey(image, self.mean[at], self.std[at]), windows):
                truth = self.truths[at][place][None] if self.truths else None
                yield Answers(self.owner[at : at + 1], truth, {name: probs[None] for name, probs in found.items()})


class Validation:
    """``validation(method, progress, before, terms)`` is an entry of the log: DSC of every output and class, a warning.

    Args:
        val: Scans with full masks that training never sees. If none of them shows a structure they are not looked at:
            the first crumb would score 0, and an answer without one nothing.
        watched: Partly labelled scans of the training set, for the guard.
        seen: The full masks that training sees: what class shares to expect.
        classes: Names by class index.
        config: Of the run.
        device: Where the model is.
        feed: What is trained on: in 3D, how many patches held a partial label is told too.
    """

    def __init__(
        self,
        val: Sequence[Scan],
        watched: Sequence[Scan],
        seen: Sequence[Scan],
        *,
        classes: Sequence[str],
        config: Config,
        device: torch.device,
        feed: Feed | None = None,
    ) -> None:
        self.classes, self.steps, self.feed = classes, config.training.steps, feed
        val = val if any(scan.shows_foreground for scan in val) else ()
        self.val = ScansOnDevice(val, config, device)
        self.patients = [scan.case.patient if scan.case else scan.name for scan in val]
        self.cropped = (
            torch.stack([_cropped_voxels(scan, len(classes)) for scan in val]).to(device) if val else torch.empty(0)
        )
        self.watched = ScansOnDevice(_few(watched, config.data.dims), config, device)
        row, weights = METHODS[config.method.name], config.method.all_weights
        self.on_partial = row.terms("partial labels")
        # The methods that learn from partial labels are those that can pass their rows jointly.
        joint = config.ablation.passes == "joint" and any(term in weights for term in self.on_partial)
        self.guard = Guard(classes, _shares(seen, len(classes)), weights, joint, row.role)

    def __call__(
        self, method: Method, progress: float, before: Mapping[str, Any], terms: Mapping[str, float]
    ) -> dict[str, Any]:
        """The entry after ``before``; "score" is the mean DSC of the method's answer over the validation scans.

        ``terms`` are those of the loss, unweighted, since then.
        """
        entry: dict[str, Any] = {"score": float("nan"), "message": ""}
        if self.val.images:
            dsc, each = self._dsc(method)
            entry["dsc"] = dsc
            means = {name: float(torch.tensor(list(values.values())).nanmean()) for name, values in dsc.items()}
            entry["score"] = means[method.outputs[0]]
            shares_text = [f"{short_name(name, method.outputs)} {value:.1%}" for name, value in means.items()]
            shares_text[0] += self._within(each)
            scans = len(self.patients)
            entry["message"] = f"DSC on {scans} val scan{'s' * (scans > 1)}: {', '.join(shares_text)}"
        if self.watched.images:
            entry["watch"] = watch = self._watch(method)
            # From the log, so that a run which was killed says what one which was not would have said.
            self.guard.collapsed = bool(before.get("collapsed"))
            apart = {key: watch[key] for key in ("entropy", "divergence")}
            partial = max((terms.get(term, 0.0) for term in self.on_partial), default=0.0)
            entry["warning"] = self.guard.judge(watch["shares"], progress, **apart, partial=partial)
            entry["collapsed"] = self.guard.collapsed
        steps = range(before.get("step", 0), round(progress * self.steps))
        share = self.feed.labelled_share(steps) if self.feed else None
        return entry if share is None else {**entry, "labelled": share}

    def _within(self, dsc: Tensor) -> str:
        """The 95 % interval of the mean of ``(scans, classes)``, in brackets; nothing with one patient."""
        scores = zip(self.patients, dsc.tolist(), strict=True)
        values = [
            (patient, name, score)
            for patient, of_scan in scores
            for name, score in zip(self.classes[1:], of_scan, strict=True)
        ]
        found = estimate([values], bounds=(0.0, 1.0))
        return f" ({100 * found.low:.0f} to {100 * found.high:.0f})" if found.known else ""

    def _dsc(self, method: Method) -> tuple[dict[str, dict[str, float]], Tensor]:
        """Mean volume DSC by output and class; a class absent from truth and prediction is left out.

        And that of the answer, ``(scans, classes)`` above the background.
        """
        scans, kinds = len(self.val.images), len(self.classes)
        device = self.val.owner.device
        overlap = {name: torch.zeros((scans, kinds), dtype=torch.float32, device=device) for name in method.outputs}
        sizes = {name: self.cropped.clone() for name in method.outputs}
        for owner, truth, found in self.val(method):
            assert truth is not None, "validation scans have full masks"
            labelled = truth != IGNORE
            for name, probs in found.items():
                guess = argmax(probs, dim=1)
                for index in range(1, kinds):
                    ours, theirs = (guess == index) & labelled, truth == index
                    overlap[name][:, index].index_add_(0, owner, (ours & theirs).flatten(1).sum(1).float())
                    sizes[name][:, index].index_add_(
                        0, owner, (ours.flatten(1).sum(1) + theirs.flatten(1).sum(1)).float()
                    )
        each = torch.stack([2 * overlap[name] / sizes[name] for name in method.outputs])
        means = {
            name: dict(zip(self.classes[1:], values[1:], strict=True))
            for name, values in zip(method.outputs, each.nanmean(dim=1).tolist(), strict=True)
        }
        return means, each[0, :, 1:]

    def _watch(self, method: Method) -> dict[str, Any]:
        """Class shares, entropy and distance from the teacher of the answer on the watched scans."""
        seen = []
        for _, _, found in self.watched(method):
            answer = found[method.outputs[0]]
            guess = argmax(answer, dim=1)
            shares = [(guess == index).float().mean() for index in range(len(self.classes))]
            unsure = torch.special.entr(answer).sum(dim=1).mean()
            apart = DIVERGENCES["kl"](answer, found.get(TEACHER, answer)).mean()
            seen.append(torch.stack([*shares, unsure, apart]) * guess.numel())
        *shares, entropy, divergence = (torch.stack(seen).sum(dim=0) / self.watched.voxels).tolist()
        return {
            "shares": shares,
            "expected": list(self.guard.expected),
            "entropy": entropy,
            "divergence": divergence,
        }


def _few(scans: Sequence[Scan], dims: int) -> list[Scan]:
    """Enough of the scans to see a collapse, spread evenly, and no more: they cost as much as validation slices do."""
    if dims == 3:
        return list(scans[:WATCHED_VOLUMES])
    lengths = [len(scan.image) for scan in scans]
    total = sum(lengths)
    chosen = np.zeros(total, bool)
    chosen[np.linspace(0, total - 1, min(total, WATCHED_SLICES)).round().astype(int)] = True
    watched = []
    for scan, end in zip(scans, np.cumsum(lengths), strict=True):
        shown = chosen[end - len(scan.image) : end]
        if shown.any():
            watched.append(Scan(scan.name, scan.image[shown], mean=scan.mean, std=scan.std))
    return watched


def _cropped_voxels(scan: Scan, classes: int) -> Tensor:
    """How many voxels of each class lie beyond the grid: no answer has them, so they count as missed."""
    if scan.cropped is None:
        return torch.zeros(classes)
    return torch.from_numpy(np.bincount(scan.cropped[:, 0], minlength=classes)).float()


def _shares(scans: Sequence[Scan], classes: int) -> list[float]:
    """The share of the labelled voxels that each class has in the full masks."""
    counts = np.zeros(classes)
    for scan in scans:
        if scan.full is not None:
            counts += np.bincount(scan.full.ravel(), minlength=IGNORE + 1)[:classes]
    return [float(count) for count in counts / max(1, counts.sum())]
