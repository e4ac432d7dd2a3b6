"""Bodies by formula: organs, lesions, vessels, spines, hearts, as masks ``(I, J, K)`` with their spacing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from mixseg.datasets import phantom
from mixseg.datasets.phantom import left_atrium, short_axis


@dataclass
class Grid:
    """Voxels of a study, the slices along the last axis."""

    shape: tuple[int, int, int]
    spacing: tuple[float, float, float]

    def points(self):
        """Coordinates in mm from the middle, ``(..., 3)``."""
        axes = [(np.arange(n) - (n - 1) / 2) * mm for n, mm in zip(self.shape, self.spacing, strict=True)]
        return np.stack(np.meshgrid(*axes, indexing="ij"), -1)

    def half(self):
        """Half of the field of view in mm."""
        return np.array(self.shape) * self.spacing / 2


def grid(rng):
    """Isotropic or with thick slices; 40 to 90 pixels in the slice."""
    mm = rng.uniform(0.7, 1.6)
    thick = mm * rng.choice([1.0, 1.0, 2.0, 3.5, 5.0])
    side = rng.integers(44, 84, 2)
    slices = int(np.clip(rng.uniform(0.6, 1.1) * side.mean() * mm / thick, 8, 72))
    return Grid((int(side[0]), int(side[1]), slices), (mm, mm, thick))


def turn(rng, most=0.5):
    """A rotation."""
    a, b, c = rng.uniform(-most, most, 3)
    ca, sa, cb, sb, cc, sc = np.cos(a), np.sin(a), np.cos(b), np.sin(b), np.cos(c), np.sin(c)
    about_z = np.array([[cc, -sc, 0], [sc, cc, 0], [0, 0, 1]])
    about_y = np.array([[cb, 0, sb], [0, 1, 0], [-sb, 0, cb]])
    return about_z @ about_y @ np.array([[1, 0, 0], [0, ca, -sa], [0, sa, ca]])


def ellipsoid(at, centre, radii, rotation=None):
    """Its voxels."""
    return ((((at - centre) @ (np.eye(3) if rotation is None else rotation)) / np.array(radii)) ** 2).sum(-1) < 1


def tube(at, corners, radius):
    """Round a line through ``corners``."""
    inside = np.zeros(at.shape[:-1], bool)
    for start, end in pairwise(corners):
        along = end - start
        t = np.clip(((at - start) @ along) / (along @ along), 0, 1)
        inside |= ((at - start - t[..., None] * along) ** 2).sum(-1) < radius**2
    return inside


def abdomen(rng, grid):
    """Liver, lesions of any size in it (or none), a vessel through it."""
    at, half = grid.points(), grid.half()
    centre = rng.uniform(-0.1, 0.1, 3) * half
    radii = half * rng.uniform([0.5, 0.45, 0.6], [0.75, 0.7, 0.9])
    liver = ellipsoid(at, centre, radii, turn(rng))
    mask = liver.astype(np.uint8)
    bend = half * rng.uniform(-0.25, 0.25, (3, 3))
    bend[:, 2] = half[2] * np.array([-0.7, 0, 0.7])
    mask[tube(at, centre + bend, rng.uniform(2.0, 4.0) * grid.spacing[0])] = 3
    for _ in range(int(rng.integers(0, 5))):
        size = np.exp(rng.uniform(np.log(1.8), np.log(9))) * grid.spacing[0]
        mask[ellipsoid(at, centre + rng.uniform(-0.5, 0.5, 3) * radii, size * rng.uniform(0.8, 1.2, 3)) & liver] = 2
    return mask, grid.spacing


def kidneys(rng, grid):
    """Two organs and a third that touch nothing."""
    at, half = grid.points(), grid.half()
    mask = np.zeros(grid.shape, np.uint8)
    for value, place in ((1, [-0.55, 0.1, 0]), (2, [0.55, 0.1, 0]), (3, [0, -0.6, 0.2])):
        radii = half * rng.uniform([0.2, 0.22, 0.4], [0.3, 0.33, 0.6])
        mask[ellipsoid(at, half * (place + rng.uniform(-0.08, 0.08, 3)), radii, turn(rng, 0.3)) & (mask == 0)] = value
    return mask, grid.spacing


def spots(rng, grid):
    """Many small lesions of one class, and nothing else."""
    at, half = grid.points(), grid.half()
    mask = np.zeros(grid.shape, np.uint8)
    for _ in range(int(rng.integers(1, 14))):
        size = np.exp(rng.uniform(np.log(2.0), np.log(9))) * grid.spacing[0]
        mask[ellipsoid(at, half * rng.uniform(-0.6, 0.6, 3), size * rng.uniform(0.7, 1.3, 3))] = 1
    return mask, grid.spacing


def spine(rng, grid):
    """Vertebrae with discs between them, from below to above."""
    at, half = grid.points(), grid.half()
    mask = np.zeros(grid.shape, np.uint8)
    count = int(rng.integers(3, 6))
    radii = half[:2] * rng.uniform(0.3, 0.5, 2)
    section = (((at[..., :2] - half[:2] * rng.uniform(-0.2, 0.2, 2)) / radii) ** 2).sum(-1) < 1
    height = (at[..., 2] / half[2] * 0.85 + 1) / 2 * count
    part = height % 1
    mask[section & (height > 0.05) & (height < count - 0.05)] = 1
    mask[section & (part < 0.22) & (height > 0.5) & (height < count - 0.5)] = 2
    return mask, grid.spacing


def chest(rng, grid):
    """Two lungs, their nodules (or none), the windpipe."""
    at, half = grid.points(), grid.half()
    mask = np.zeros(grid.shape, np.uint8)
    radii = half * rng.uniform([0.3, 0.5, 0.7], [0.4, 0.7, 0.9])
    for side in (-0.5, 0.5):
        mask[ellipsoid(at, half * [side, 0, 0], radii, turn(rng, 0.1))] = 1
    lungs = mask > 0
    mask[tube(at, [half * [0, 0, 0], half * [0.03, 0.1, 0.95]], rng.uniform(2.5, 4.5) * grid.spacing[0])] = 3
    for _ in range(int(rng.integers(0, 4))):
        size = np.exp(rng.uniform(np.log(1.8), np.log(6))) * grid.spacing[0]
        place = half * (rng.choice([-0.5, 0.5]), *rng.uniform(-0.4, 0.4, 2))
        mask[ellipsoid(at, place, [size] * 3) & lungs] = 2
    return mask, grid.spacing


def tree(rng, grid):
    """A vessel with branches, alone."""
    at, half = grid.points(), grid.half()
    mask = np.zeros(grid.shape, np.uint8)
    fork = half * rng.uniform(-0.2, 0.2, 3)
    root = half * [*rng.uniform(-0.2, 0.2, 2), -0.85]
    mask[tube(at, [root, fork], rng.uniform(2.2, 4) * grid.spacing[0])] = 1
    for _ in range(int(rng.integers(2, 5))):
        tip = half * [*rng.uniform(-0.8, 0.8, 2), rng.uniform(0.2, 0.8)]
        mask[tube(at, [fork, tip], rng.uniform(1.3, 2.5) * grid.spacing[0])] = 1
    return mask, grid.spacing


def heart(rng, grid):
    """The built-in phantom's ventricles in short axis: ring, pool and the right one, cut off flat at the base."""
    size = (int(grid.shape[0] * 2), int(grid.shape[0] * 2))
    _, mask = phantom.heart(int(rng.integers(2**31)), 0, str(rng.choice(["ED", "ES"])), size=size, slices=9)
    edge = size[0] // 4
    return mask[edge:-edge, edge:-edge], short_axis.spacing(size)


def atrium(rng, grid):
    """The built-in phantom's left atrium."""
    _, mask = phantom.atrium(int(rng.integers(2**31)), 0, size=(64, 64), slices=30)
    return mask, left_atrium.spacing((64, 64), 30)


BODIES: dict[str, tuple[Callable, tuple[str, ...]]] = {
    "abdomen": (abdomen, ("liver", "lesion", "vessel")),
    "kidneys": (kidneys, ("left kidney", "right kidney", "spleen")),
    "spots": (spots, ("lesion",)),
    "spine": (spine, ("vertebra", "disc")),
    "chest": (chest, ("lung", "nodule", "trachea")),
    "tree": (tree, ("vessel",)),
    "heart": (heart, ("LV", "myocardium", "RV")),
    "atrium": (atrium, ("atrium",)),
}

MAY_BE_ABSENT = ("lesion", "nodule")
