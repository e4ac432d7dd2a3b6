"""Which weights of which run an answer comes from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Origin:
    """What answers.

    Attributes:
        model: The hash of its weights.
        config: The hash of its run's settings, with the windows that were asked for.
        checkpoint: The name of the weights in the run, "best" or "last".
        step: Of the training, at which they were kept.
        output: Which of the method's outputs it is.
    """

    model: str
    config: str
    checkpoint: str
    step: int
    output: str

    def __str__(self) -> str:
        return f"{self.checkpoint} checkpoint (step {self.step})"


NOWHERE = Origin(model="", config="", checkpoint="", step=0, output="")
"""Of a model that no run has kept yet."""
