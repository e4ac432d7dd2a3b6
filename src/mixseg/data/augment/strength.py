"""What may happen to an image, how often and how far; and how an image draws its share of it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

Columns = Iterator[Tensor]
"""Uniform numbers ``(B,)`` in 0..1, one after the other."""


class Chance(NamedTuple):
    """With this probability, an amount between ``low`` and ``high``."""

    probability: float
    low: float
    high: float


OFF = Chance(0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Augmentation:
    """How often and how far images are changed. All of it is off unless it is asked for.

    Probabilities are per image. Angles, slopes and sums are drawn uniformly, factors uniformly in their logarithm.

    Attributes:
        turn: Probability of 0 to 3 quarter turns in the plane of the first two axes (0 or 2 if it is not square).
        flip: Probability of a flip, for each axis by itself.
        flip_one: Probability of a flip along one of the first two axes.
        rotation: Angle in the plane of the first two axes, in degrees.
        tilt: Angles of both of these axes towards the third, in degrees; volumes only.
        scale: Magnification.
        shear: Slope between each two axes.
        shift: Move along each axis, as a fraction of the size.
        elastic: Size of a smooth random deformation, as a fraction of the distance of its control points. Up to 0.4
            nothing folds.
        gamma: Exponent on grey values rescaled to 0..1.
        contrast: Factor on the difference from the mean.
        brightness: What is added, in standard deviations of the image.
        blur: Standard deviation of a Gaussian, in voxels.
        low_resolution: Fraction of the samples that is kept along each axis.
        noise: Standard deviation of Gaussian noise, in standard deviations of the image.
        invert: Probability that bright becomes dark: grey values are mirrored about the image's mean.
    """

    turn: float = 0.0
    flip: float = 0.0
    flip_one: float = 0.0
    rotation: Chance = OFF
    tilt: Chance = OFF
    scale: Chance = OFF
    shear: Chance = OFF
    shift: Chance = OFF
    elastic: Chance = OFF
    gamma: Chance = OFF
    contrast: Chance = OFF
    brightness: Chance = OFF
    blur: Chance = OFF
    low_resolution: Chance = OFF
    noise: Chance = OFF
    invert: float = 0.0


NONE = Augmentation()
PAPER_3D = Augmentation(turn=1.0, flip_one=1.0)
STRONG = Augmentation(
    flip=0.5,
    rotation=Chance(0.8, -45, 45),
    tilt=Chance(0.4, -10, 10),
    scale=Chance(0.8, 0.7, 1.4),
    shear=Chance(0.3, -0.1, 0.1),
    shift=Chance(0.5, -0.1, 0.1),
    elastic=Chance(0.3, 0.1, 0.3),
    gamma=Chance(0.5, 0.6, 1.6),
    contrast=Chance(0.3, 0.7, 1.4),
    brightness=Chance(0.3, -0.4, 0.4),
    blur=Chance(0.2, 0.5, 1.2),
    low_resolution=Chance(0.15, 0.5, 1.0),
    noise=Chance(0.3, 0.02, 0.15),
)
ANY_CONTRAST = replace(STRONG, invert=0.15)

AUGMENTATIONS = {"none": NONE, "paper-3d": PAPER_3D, "strong": STRONG, "any-contrast": ANY_CONTRAST}
"""By the name that a config gives them."""


def amounts(chance: Chance, columns: Columns, *, count: int = 1, neutral: float = 0.0) -> list[Tensor]:
    """``count`` amounts ``(B,)``; ``neutral`` for the images that are spared. Nothing at all if the chance is off.

    As many columns are used for every chance, so that switching one change off does not reroll the others. A neutral
    amount of 1 marks a factor.
    """
    decision, *rolls = (next(columns) for _ in range(count + 1))
    if not chance.probability:
        return []
    low, high = (math.log(end) if neutral == 1 else end for end in (chance.low, chance.high))
    rolled = [low + (high - low) * roll for roll in rolls]
    if neutral == 1:
        rolled = [torch.exp(amount) for amount in rolled]
    return [torch.where(decision < chance.probability, amount, neutral) for amount in rolled]
