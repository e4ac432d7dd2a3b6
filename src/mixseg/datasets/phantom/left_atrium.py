"""Late-enhancement volumes of the left atrium by formula: classes background, LA."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mixseg.datasets.phantom.canvas import Array, Canvas
from mixseg.datasets.phantom.scanner import scan

CLASSES = ("background", "LA")
FIELD_MM = 160.0
"""The longer side of the picture."""
HEIGHT_MM = 80.0

Tissues = dict[str, float]


def atrium(
    seed: int, patient: int, *, size: tuple[int, int] = (96, 96), slices: int = 44
) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    """The scan and its mask, both ``(I, J, K)``; equal arguments give equal arrays.

    Args:
        seed: Of the dataset.
        patient: Number of the patient.
        size: Voxels along i (the patient's left) and j (back); the longer side is 160 mm.
        slices: From the feet to the head, over 80 mm.
    """
    rng = np.random.default_rng([seed, patient, len(CLASSES)])
    canvas = Canvas((*size, slices), spacing(size, slices))
    tissue = _tissues(rng)
    canvas.turn(rng.normal(scale=8))
    canvas.move(*rng.normal(scale=7, size=2))
    canvas.bend(rng, amount=4, wavelength=90)
    chamber = _chamber(canvas, rng)
    _surroundings(canvas, tissue, rng)
    _paint_chamber(canvas, chamber, tissue, rng)
    return scan(canvas.image, rng, rng, noise=0.05), (chamber < 0).astype(np.uint8)


def spacing(size: tuple[int, int], slices: int) -> tuple[float, float, float]:
    """Voxel size in mm."""
    return FIELD_MM / max(size), FIELD_MM / max(size), HEIGHT_MM / slices


def _tissues(rng: np.random.Generator) -> Tissues:
    blood = rng.uniform(0.45, 0.8)
    return {
        "blood": blood,
        "other blood": blood * rng.uniform(0.8, 1.15),
        "muscle": rng.uniform(0.1, 0.35),
        "scar": blood * rng.uniform(1.0, 1.5),
        "fat": rng.uniform(0.25, 0.8),
        "lung": rng.uniform(0.03, 0.15),
        "bone": rng.uniform(0.2, 0.6),
    }


def _chamber(canvas: Canvas, rng: np.random.Generator) -> Array:
    """Signed distance of the blood pool: a flat ellipsoid, the stumps of four pulmonary veins, and the appendage."""
    a, b, c = rng.uniform(24, 36), rng.uniform(15, 24), rng.uniform(20, 30)
    body = canvas.ellipsoid((0, 0, 0), (a, b, c))
    for side in (-1, 1):
        for level in (-1, 1):
            start = np.array([side * 0.6 * a, 0.3 * b, level * 0.45 * c])
            way = np.array([side * rng.uniform(0.7, 1.1), rng.uniform(0.1, 0.7), level * rng.uniform(0.0, 0.45)])
            length = 0.4 * a + rng.uniform(6, 16)
            body = blended(body, canvas.tube(start, start + length * way, rng.uniform(4.5, 7.5)), 5)
    start = np.array([0.65 * a, -0.5 * b, 0.2 * c])
    way = np.array([rng.uniform(0.4, 0.9), rng.uniform(-0.9, -0.4), rng.uniform(-0.3, 0.6)])
    return blended(body, canvas.tube(start, start + rng.uniform(10, 20) * way, rng.uniform(5, 8)), 4)


def _surroundings(canvas: Canvas, tissue: Tissues, rng: np.random.Generator) -> None:
    """Chest wall, lungs, spine, and blood as bright as the atrium's: both aortas, the other chambers, the arteries."""
    canvas.paint(np.full_like(canvas.image, -1e3), tissue["lung"])
    back = rng.uniform(44, 54) - canvas.x**2 / 130 - canvas.y
    canvas.paint(back, tissue["fat"])
    canvas.paint(back + 5, tissue["muscle"])
    heart = canvas.ellipsoid((-6, -28, -8), (rng.uniform(52, 64), rng.uniform(44, 54), rng.uniform(52, 66)))
    canvas.paint(heart - 4, tissue["fat"])
    canvas.paint(heart, tissue["muscle"])
    canvas.paint(canvas.ellipse((rng.uniform(-12, 4), rng.uniform(48, 58)), (20, 19)), tissue["bone"])
    up = np.array([0.0, 0.0, 60.0])
    descending = np.array([rng.uniform(12, 24), rng.uniform(30, 38), 0])
    ascending = np.array([rng.uniform(-16, -6), rng.uniform(-42, -32), 20])
    blood = (
        canvas.tube(descending - up, descending + up, rng.uniform(9, 12)),
        canvas.tube(ascending, ascending + up, rng.uniform(12, 16)),
        canvas.ellipsoid((rng.uniform(-50, -40), rng.uniform(-24, -12), -4), tuple(rng.uniform(18, 25, size=3))),
        canvas.ellipsoid((rng.uniform(22, 34), rng.uniform(-52, -40), -24), tuple(rng.uniform(18, 25, size=3))),
        canvas.ellipsoid((rng.uniform(-20, -8), rng.uniform(-66, -54), -18), tuple(rng.uniform(16, 24, size=3))),
        canvas.tube(np.array([-34, -4, 34]), np.array([28, -12, 36]), rng.uniform(7, 10)),
    )
    for vessel in blood:
        canvas.paint(vessel - 2, tissue["muscle"])
        canvas.paint(vessel, tissue["other blood"] * rng.uniform(0.85, 1.15))
    canvas.paint(canvas.ellipse((descending[0] - 16, descending[1] - 4), (6, 4)), tissue["muscle"])
    canvas.image *= 1 + np.float32(0.1) * canvas.texture(rng, grain=4)


def _paint_chamber(canvas: Canvas, chamber: Array, tissue: Tissues, rng: np.random.Generator) -> None:
    """The wall, enhanced in patches where it is scarred, and the blood pool, which is what is labelled."""
    patches = canvas.texture(rng, grain=7) > rng.uniform(0.2, 1.5)
    canvas.paint(chamber - rng.uniform(2, 3.5), np.where(patches, tissue["scar"], tissue["muscle"]))
    flow = 1 + np.float32(rng.uniform(0.03, 0.1)) * canvas.texture(rng, grain=8)
    canvas.paint(chamber, tissue["blood"] * flow)


def blended(one: Array, other: Array, radius: float) -> Array:
    """Signed distance of the union, its crease rounded off over about ``radius`` mm."""
    near = np.clip(1 - np.abs(one - other) / np.float32(radius), 0, 1)
    distance: Array = np.minimum(one, other) - near**2 * np.float32(radius / 4)
    return distance
