"""What is looked at between training steps: volume DSC on the validation scans, and signs of a collapse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mixseg.collapse import Guard
from mixseg.config import Config
from mixseg.data.batches import Scan, normalise
from mixseg.inference import predict_slices, predict_volume
from mixseg.losses import DIVERGENCES
from mixseg.methods import Method
from mixseg.types import IGNORE

WATCHED_SLICES = 64
WATCHED_VOLUMES = 2


class Held:
    """Scans that stay on the device, so that a look costs little more than its forward passes."""

    def __init__(self, scans: Sequence[Scan], config: Config, device: torch.device) -> None:
        self.config = config
        lengths = [len(scan.image) if config.dims == 2 else 1 for scan in scans]
        self.images = [torch.from_numpy(scan.image).to(device) for scan in scans]
        self.mean, self.std = (
            torch.tensor([getattr(scan, which) for scan in scans], device=device) for which in ("mean", "std")
        )
        self.owner = torch.arange(len(scans), device=device).repeat_interleave(
            torch.tensor(lengths, dtype=torch.long, device=device)
        )
        self.stack = torch.cat(self.images) if config.dims == 2 and self.images else None

    def __call__(self, method: Method) -> Iterator[tuple[Tensor, dict[str, Tensor]]]:
        """Some rows at a time: the scan that each belongs to, and its probabilities ``(n, classes, *S)``."""
        kind = self.config.intensity
        if self.stack is not None:
            mean, std = self.mean[self.owner], self.std[self.owner]
            for some, found in predict_slices(method, self.stack, mean, std, intensity=kind):
                yield self.owner[some], found
            return
        for at, image in enumerate(self.images):
            volume = normalise(image[None], self.mean[at : at + 1], self.std[at : at + 1], kind)[0]
            found = predict_volume(method, volume, patch=self.config.patch)
            yield self.owner[at : at + 1], {name: probs[None] for name, probs in found.items()}


class Look:
    """``look(method, progress, before)`` is an entry of the log: DSC of every output and class, what the guard saw.

    Args:
        val: Scans with full masks that training never sees.
        watched: Partly labelled scans of the training set, for the guard.
        seen: The full masks that training sees: what class shares to expect.
        classes: Names by class index.
        config: Of the run.
        device: Where the model is.
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
    ) -> None:
        self.classes = classes
        self.val = Held(val, config, device)
        truths = [torch.from_numpy(scan.full).to(device) for scan in val if scan.full is not None]
        self.truth = torch.cat(truths) if config.dims == 2 and truths else None
        self.truths = truths
        self.lost = torch.stack([_lost(scan, len(classes)) for scan in val]).to(device) if val else torch.empty(0)
        self.watched = Held(_few(watched, config.dims), config, device)
        self.guard = Guard(classes, _shares(seen, len(classes)))

    def __call__(self, method: Method, progress: float, before: Mapping[str, Any]) -> dict[str, Any]:
        """The entry after ``before``; "score" is the mean DSC of the method's answer over the validation scans."""
        entry: dict[str, Any] = {"score": float("nan"), "told": ""}
        if self.val.images:
            dsc = self._dsc(method)
            entry["dsc"] = dsc
            means = {name: float(torch.tensor(list(values.values())).nanmean()) for name, values in dsc.items()}
            entry["score"] = means[method.outputs[0]]
            entry["told"] = "DSC on val " + " ".join(f"{name} {value:.1%}" for name, value in means.items())
        if self.watched.images:
            entry["watch"] = watch = self._watch(method)
            # From the log, so that a run which was killed says what one which was not would have said.
            self.guard.collapsed = bool(before.get("collapsed"))
            apart = {key: watch[key] for key in ("entropy", "divergence")}
            entry["warning"] = self.guard.judge(watch["shares"], progress, **apart)
            entry["collapsed"] = self.guard.collapsed
        return entry

    def _dsc(self, method: Method) -> dict[str, dict[str, float]]:
        """Mean volume DSC by output and class; a class absent from truth and prediction is left out."""
        scans, kinds = len(self.val.images), len(self.classes)
        device = self.val.owner.device
        overlap = {name: torch.zeros((scans, kinds), dtype=torch.float32, device=device) for name in method.outputs}
        sizes = {name: self.lost.clone() for name in method.outputs}
        start = 0
        for owner, found in self.val(method):
            truth = self.truth[start : start + len(owner)] if self.truth is not None else self.truths[start][None]
            start += len(owner)
            labelled = truth != IGNORE
            for name, probs in found.items():
                guess = probs.argmax(dim=1)
                for index in range(1, kinds):
                    ours, theirs = (guess == index) & labelled, truth == index
                    overlap[name][:, index].index_add_(0, owner, (ours & theirs).flatten(1).sum(1).float())
                    sizes[name][:, index].index_add_(
                        0, owner, (ours.flatten(1).sum(1) + theirs.flatten(1).sum(1)).float()
                    )
        dsc = {name: (2 * overlap[name] / sizes[name]).nanmean(dim=0).tolist() for name in method.outputs}
        return {name: dict(zip(self.classes[1:], values[1:], strict=True)) for name, values in dsc.items()}

    def _watch(self, method: Method) -> dict[str, Any]:
        """Class shares, entropy and distance from the teacher of the answer on the watched scans."""
        shares, unsure, apart = [], [], []
        for _, found in self.watched(method):
            answer = found[method.outputs[0]]
            guess = answer.argmax(dim=1)
            shares.append(torch.stack([(guess == index).float().mean() for index in range(len(self.classes))]))
            unsure.append(torch.special.entr(answer).sum(dim=1).mean())
            apart.append(DIVERGENCES["kl"](answer, found.get("top", answer)).mean())
        return {
            "shares": torch.stack(shares).mean(dim=0).tolist(),
            "expected": list(self.guard.expected),
            "entropy": float(torch.stack(unsure).mean()),
            "divergence": float(torch.stack(apart).mean()),
        }


def _few(scans: Sequence[Scan], dims: int) -> list[Scan]:
    """Enough of the scans to see a collapse, spread evenly."""
    if dims == 3:
        return list(scans[:WATCHED_VOLUMES])
    total = sum(len(scan.image) for scan in scans)
    every = max(1, total // WATCHED_SLICES)
    return [Scan(scan.name, scan.image[::every], mean=scan.mean, std=scan.std) for scan in scans]


def _lost(scan: Scan, classes: int) -> Tensor:
    """How many voxels of each class lie beyond the grid: no answer has them, so they count as missed."""
    if scan.beyond is None:
        return torch.zeros(classes)
    return torch.from_numpy(np.bincount(scan.beyond[:, 0], minlength=classes)).float()


def _shares(scans: Sequence[Scan], classes: int) -> list[float]:
    """The share of the labelled voxels that each class has in the full masks."""
    counts = np.zeros(classes)
    for scan in scans:
        if scan.full is not None:
            counts += np.bincount(scan.full.ravel(), minlength=IGNORE + 1)[:classes]
    return [float(count) for count in counts / max(1, counts.sum())]
