"""Notices a student that runs away: confidence has trivial solutions, all foreground or none."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mixseg.core.errors import enumerated

TOO_MUCH = 3.0, 0.03
"""A class has run away when its share exceeds ``3 x expected + 0.03``."""
TOO_LITTLE = 0.05
"""A class has died out when its share falls below a twentieth of what is expected."""
GRACE = 0.1, 0.3
"""The share of training before which nothing is judged to have run away, or died out: a rare class is found late."""
APART = 0.5
"""Teacher and student contradict each other when their divergence exceeds so many nats per voxel; 0.01 is usual."""
UNDECIDED = 0.9
"""The student decides nothing when its entropy exceeds so much of the largest possible."""
ANCHORED = frozenset({"full", "dice", "weak", "distill", "mix"})
"""Terms that hold a model to labels or to a teacher. The others make it sure or consistent, of whatever it says."""


@dataclass
class Guard:
    """Compares what the model marks on the partly labelled scans with what the full masks lead to expect.

    Attributes:
        classes: Names by class index.
        expected: Share of the voxels of each class in the full masks that the run sees.
        weights: Of the terms that the run's method has: what is advised is what they allow.
        joint: Whether all kinds of scan pass the network in one batch.
    """

    classes: Sequence[str]
    expected: Sequence[float]
    weights: Mapping[str, float]
    joint: bool = False
    collapsed: bool = False

    def judge(
        self,
        shares: Sequence[float],
        progress: float,
        *,
        entropy: float = 0.0,
        divergence: float = 0.0,
        weak: float = 0.0,
    ) -> str:
        """A sentence when the model starts to run away, one when it is back, and "" in between.

        Args:
            shares: Of the voxels of the watched scans, by class.
            progress: From 0 to 1 through training.
            entropy: Mean of the answer there, in nats.
            divergence: Mean of the answer from the teacher there, in nats.
            weak: Mean cross-entropy of the partial labels that were trained on, in nats.
        """
        found = (
            self._shares(shares, progress)
            or self._branches(entropy, divergence, progress)
            or self._labels(weak, progress)
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
                choices = ("train longer", self._raise("distill"), self._lower(), self._ramp())
                how, remedy = "far too much", _either(*choices, last=" or ")
            elif progress >= GRACE[1] and share < TOO_LITTLE * expected:
                how, remedy = "next to nothing", _either("train longer", self._raise("weak"), self._lower())
            else:
                continue
            apart = ", and set passes=separate" if self.joint else ""
            return (
                f"the model marks {how} as {name} ({share:.1%} of the voxels; the full masks have {expected:.1%}). "
                f"{remedy}{apart}."
            )
        return ""

    def _branches(self, entropy: float, divergence: float, progress: float) -> str:
        if progress >= GRACE[0] and divergence > APART:
            remedy = _either(self._raise("distill"), self._lower()) or "Train longer"
            return f"student and teacher contradict each other ({divergence:.2g} nats apart per voxel). {remedy}."
        if progress >= GRACE[1] and entropy > UNDECIDED * math.log(len(self.classes)):
            sure = "raise weights.entropy or the lr" if "entropy" in self.weights else "raise the lr"
            remedy = _either(sure, "train longer")
            return f"the model decides nothing (an entropy of {entropy:.2g} nats per voxel). {remedy}."
        return ""

    def _labels(self, weak: float, progress: float) -> str:
        """A class may have died out on some of the scans alone: their labels know it, the shares do not."""
        guessing = math.log(len(self.classes))
        if progress >= GRACE[1] and weak > guessing:
            calm = " or ".join(filter(None, (self._lower(), self._ramp())))
            return (
                f"the model contradicts the labels that they have ({weak:.2g} nats per labelled voxel; guessing would "
                f"have {guessing:.2g}). {_either(self._raise('weak'), calm)}."
            )
        return ""

    def _raise(self, term: str) -> str:
        return f"raise weights.{term}" if term in self.weights else ""

    def _lower(self) -> str:
        """What the method has that can run away, and is not off already."""
        loose = [f"weights.{term}" for term, weight in self.weights.items() if weight > 0 and term not in ANCHORED]
        return f"lower {enumerated(loose, ' or ')}" if loose else ""

    def _ramp(self) -> str:
        return "use ramp=0.3" if self.weights.get("entropy", 0.0) > 0 else ""


def _either(*choices: str, last: str = ", or ") -> str:
    """The choices that there are, as the beginning of a sentence."""
    text = enumerated([choice for choice in choices if choice], last)
    return text[:1].upper() + text[1:]
