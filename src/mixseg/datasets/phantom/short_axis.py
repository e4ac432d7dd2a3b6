"""Short-axis cine scans of the heart by formula: classes background, RV, Myo, LV as in ACDC."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mixseg.datasets.phantom.canvas import Canvas
from mixseg.datasets.phantom.chest import Tissues, paint_chest
from mixseg.datasets.phantom.scanner import scan

Slices = NDArray[np.floating]

CLASSES = ("background", "RV", "Myo", "LV")
RV, MYO, LV = 1, 2, 3
FRAMES = ("ED", "ES")
FIELD_MM = 360.0
"""The longer side of the picture."""
THICKNESS_MM = 10.0


@dataclass(frozen=True)
class Condition:
    """What a disease does to a heart: ranges at ED in mm, and how much of its radius the cavity keeps at ES."""

    radius: tuple[float, float]
    wall: tuple[float, float]
    keeps: tuple[float, float]
    bulge: tuple[float, float]


CONDITIONS = (
    Condition(radius=(21, 27), wall=(7, 10), keeps=(0.55, 0.70), bulge=(16, 28)),  # normal
    Condition(radius=(28, 35), wall=(5, 8), keeps=(0.80, 0.93), bulge=(14, 26)),  # dilated
    Condition(radius=(17, 22), wall=(13, 18), keeps=(0.45, 0.62), bulge=(12, 22)),  # hypertrophic
    Condition(radius=(24, 31), wall=(6, 9), keeps=(0.70, 0.88), bulge=(14, 24)),  # after infarction
    Condition(radius=(19, 25), wall=(7, 10), keeps=(0.60, 0.75), bulge=(28, 40)),  # large right ventricle
)


@dataclass(frozen=True)
class Anatomy:
    """One heart at one moment, in mm; arrays hold a value for each slice, from the base to the apex.

    Attributes:
        centre: Of the left ventricle.
        cavity: Its radii along and across ``tilt``, 0 where it is not.
        wall: Thickness of the myocardium.
        tilt: Direction of the long diameter, degrees.
        right: Centre of the right ventricle.
        right_radii: Its radii towards the septum and along it, 0 where it is not.
        septum: Direction from the left ventricle to the right one, degrees.
        depth: From 0 at the valve plane to 1 at the apex; negative above the valves, where the atria lie.
    """

    centre: tuple[Slices, Slices]
    cavity: tuple[Slices, Slices]
    wall: Slices
    tilt: float
    right: tuple[Slices, Slices]
    right_radii: tuple[Slices, Slices]
    septum: float
    depth: Slices


def heart(
    seed: int, patient: int, frame: str, *, size: tuple[int, int] = (256, 256), slices: int = 9
) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    """The scan and its mask, both ``(I, J, K)``; equal arguments give equal arrays.

    Args:
        seed: Of the dataset.
        patient: Number of the patient; the two frames of one show the same person.
        frame: "ED" (heart filled) or "ES" (contracted).
        size: Voxels along i (the patient's left) and j (back); the longer side is 360 mm.
        slices: From the base to the apex.
    """
    person, moment = np.random.default_rng([seed, patient]), np.random.default_rng([seed, patient, FRAMES.index(frame)])
    tissue = _tissues(person)
    anatomy = _anatomy(person, moment, slices, contracted=frame == "ES")
    canvas = Canvas((*size, slices), spacing(size))
    canvas.turn(person.normal(scale=8))
    canvas.move(*person.normal(scale=(10, 12)))
    # Breath is held a little differently for each slice.
    canvas.move(moment.normal(scale=1.2, size=slices), moment.normal(scale=1.8, size=slices))
    canvas.bend(person, amount=7, wavelength=240)
    paint_chest(canvas, tissue, person)
    canvas.bend(person, amount=2, wavelength=60)
    mask = _heart(canvas, anatomy, tissue, person)
    return scan(canvas.image, person, moment, noise=0.025), mask


def spacing(size: tuple[int, int]) -> tuple[float, float, float]:
    """Voxel size in mm: 1.4 x 1.4 x 10 on 256x256."""
    return FIELD_MM / max(size), FIELD_MM / max(size), THICKNESS_MM


def _tissues(rng: np.random.Generator) -> Tissues:
    """How bright each tissue is in this patient's scan."""
    blood = rng.uniform(0.85, 1.0)
    return {
        "blood": blood,
        "right blood": blood * rng.uniform(0.8, 1.05),
        "muscle": rng.uniform(0.22, 0.38),
        "fat": rng.uniform(0.6, 1.0),
        "wall": rng.uniform(0.18, 0.4),
        "lung": rng.uniform(0.03, 0.1),
        "liver": rng.uniform(0.25, 0.55),
        "stomach": rng.uniform(0.1, 0.9),
        "vessel": blood * rng.uniform(0.7, 1.05),
    }


def _anatomy(person: np.random.Generator, moment: np.random.Generator, slices: int, *, contracted: bool) -> Anatomy:
    condition = CONDITIONS[person.integers(len(CONDITIONS))]
    stature = person.uniform(0.88, 1.14)
    radius, wall, bulge = (stature * person.uniform(*r) for r in (condition.radius, condition.wall, condition.bulge))
    keeps, valve, descent = person.uniform(*condition.keeps), person.uniform(-0.8, 0.9), person.uniform(0.3, 1.2)
    apex = slices - 1 + person.uniform(-0.7, 0.5)
    if contracted:
        # The wall thickens as the cavity shrinks: nearly the same muscle in a smaller ring; and the valves come down.
        muscle = wall * (wall + 2 * radius)
        radius, bulge, valve = radius * keeps, bulge * np.sqrt(keeps), valve + descent
        wall = 0.95 * (np.sqrt(radius**2 + muscle) - radius)
    depth = (np.arange(slices) - valve) / (apex - valve)
    inside = (depth >= 0) & (depth <= 1)
    taper = np.sqrt(np.clip(1 - (0.97 * np.abs(depth)) ** person.uniform(2.2, 3.2), 0, 1)) * inside
    flat = np.exp(person.normal(scale=0.07))
    septum, tilt = 180 + person.normal(loc=18, scale=16), person.uniform(0, 180)
    drift = person.normal(scale=(7, 6))
    centre = (drift[0] * (depth - 0.5) + 18, drift[1] * (depth - 0.5) + 12)
    outer = radius * taper + wall
    towards = np.deg2rad(septum)
    reach = 0.62 * outer
    right_taper = np.sqrt(np.clip(1 - (depth / person.uniform(0.8, 0.98)) ** 2, 0, 1)) * inside
    return Anatomy(
        centre=centre,
        cavity=(radius * taper * flat, radius * taper / flat),
        wall=wall * np.where(inside, 0.75 + 0.25 * taper, 0),
        tilt=tilt,
        right=(centre[0] + reach * np.cos(towards), centre[1] + reach * np.sin(towards)),
        right_radii=((0.38 * outer + bulge) * right_taper, outer * person.uniform(0.8, 1.1) * right_taper),
        septum=septum,
        depth=depth,
    )


def _heart(canvas: Canvas, anatomy: Anatomy, tissue: Tissues, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Paint the heart; its mask."""
    a, b = anatomy.cavity
    epicardium = canvas.ellipse(anatomy.centre, (a + anatomy.wall, b + anatomy.wall), anatomy.tilt)
    cavity = canvas.ellipse(anatomy.centre, (a, b), anatomy.tilt)
    right = canvas.ellipse(anatomy.right, anatomy.right_radii, anatomy.septum)
    whole = np.minimum(epicardium, right)
    _vessels_above(canvas, anatomy, tissue, rng)
    # Trabeculae: what is seen of a cavity's border is rougher than what is drawn.
    rough = canvas.texture(rng, grain=4)
    flow = 1 + np.float32(rng.uniform(0.02, 0.12)) * canvas.texture(rng, grain=9)
    canvas.paint(whole - np.float32(rng.uniform(3, 9)), tissue["fat"], strength=rng.uniform(0.2, 1))
    canvas.paint(right - np.float32(2.5), tissue["muscle"])
    canvas.paint(right + np.float32(1.2) + np.float32(1.5) * rough, tissue["right blood"] * flow)
    canvas.paint(epicardium, tissue["muscle"])
    canvas.paint(cavity + np.float32(0.6) + np.float32(0.8) * rough, tissue["blood"] * flow)
    _papillary_muscles(canvas, anatomy, tissue, rng)
    mask = np.zeros(canvas.image.shape, dtype=np.uint8)
    mask[right < 0], mask[epicardium < 0], mask[cavity < 0] = RV, MYO, LV
    return mask


def _vessels_above(canvas: Canvas, anatomy: Anatomy, tissue: Tissues, rng: np.random.Generator) -> None:
    """Above the valves: left and right atrium, aortic root, outflow tract: as bright as the ventricles, unlabeled."""
    above = anatomy.depth < 0
    for at, radius in (((10, 22), 24), ((-38, 22), 22), ((-4, -10), 15), ((-32, -26), 16)):
        x, y = anatomy.centre[0] + at[0] + rng.normal(scale=3), anatomy.centre[1] + at[1] + rng.normal(scale=3)
        chamber = canvas.ellipse(
            (x, y), tuple(above * radius * rng.uniform(0.75, 1.25, size=(2, 1))), rng.uniform(0, 180)
        )
        canvas.paint(chamber - 2, tissue["muscle"])
        canvas.paint(chamber, tissue["blood"] * rng.uniform(0.85, 1.05))


def _papillary_muscles(canvas: Canvas, anatomy: Anatomy, tissue: Tissues, rng: np.random.Generator) -> None:
    """Two dark heads in the middle of the left ventricle; they belong to the cavity, as the challenges label them."""
    for angle in np.deg2rad(anatomy.septum + 180 + rng.normal(loc=(-55, 55), scale=12)):
        size = rng.uniform(2.5, 5.5) * ((anatomy.depth > 0.2) & (anatomy.depth < 0.75))
        radius = 0.62 * anatomy.cavity[0]
        at = (anatomy.centre[0] + radius * np.cos(angle), anatomy.centre[1] + radius * np.sin(angle))
        canvas.paint(canvas.ellipse(at, (np.minimum(size, 0.3 * anatomy.cavity[0]),) * 2), 1.1 * tissue["muscle"])
