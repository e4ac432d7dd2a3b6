"""Notices a student that runs away: confidence has trivial solutions, all foreground or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

TOO_MUCH = 3.0, 0.03
"""A class has run away when its share exceeds ``3 x expected + 0.03``."""
TOO_LITTLE = 0.05
"""A class has died out when its share falls below a twentieth of what is expected."""
GRACE = 0.1, 0.3
"""The share of training before which nothing is judged to have run away, or died out: a rare class is found late."""


@dataclass
class Guard:
    """Compares what the model marks on the partly labelled scans with what the full masks lead to expect.

    Attributes:
        classes: Names by class index.
        expected: Share of the voxels of each class in the full masks that the run sees.
    """

    classes: Sequence[str]
    expected: Sequence[float]
    collapsed: bool = False

    def judge(self, shares: Sequence[float], progress: float) -> str:
        """A sentence when the model starts to run away, one when it is back, and "" in between."""
        sentence = self._verdict(shares, progress)
        before, self.collapsed = self.collapsed, bool(sentence)
        if self.collapsed and not before:
            return sentence
        if before and not self.collapsed:
            return "The student has come back from its collapse."
        return ""

    def _verdict(self, shares: Sequence[float], progress: float) -> str:
        for name, share, expected in list(zip(self.classes, shares, self.expected, strict=True))[1:]:
            if progress >= GRACE[0] and share > TOO_MUCH[0] * expected + TOO_MUCH[1]:
                how = "far too much"
            elif progress >= GRACE[1] and share < TOO_LITTLE * expected:
                how = "next to nothing"
            else:
                continue
            return (
                f"Collapse: on the partly labelled scans the model marks {how} as {name} ({share:.1%} of the voxels; "
                f"the full masks have {expected:.1%}). Keep passes=separate, raise weights.distill, or lower "
                "weights.entropy or use ramp=0.3."
            )
        return ""
