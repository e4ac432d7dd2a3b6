"""What lies round the heart in a short-axis scan, much of it bright and round too."""

from __future__ import annotations

import numpy as np

from mixseg.datasets.phantom.canvas import Array, Canvas

Tissues = dict[str, float]
"""How bright each tissue is in one patient's scan."""


def paint_chest(canvas: Canvas, tissue: Tissues, rng: np.random.Generator) -> None:
    """Everything round the heart; the heart will lie at the origin."""
    width, height, fat = rng.uniform(105, 150), rng.uniform(160, 215), rng.uniform(6, 26)
    middle = (rng.uniform(-15, 15), rng.uniform(10, 50))
    body = canvas.ellipse(middle, (width, height))
    canvas.paint(body, tissue["fat"])
    canvas.paint(body + fat, tissue["wall"])
    inner = canvas.ellipse((middle[0] + 4, middle[1]), (width - fat - 10, height - fat - 14))
    canvas.paint(inner, tissue["lung"])
    for _ in range(10):
        at = (rng.uniform(-80, 90) + 0.3 * canvas.z[0, 0] * rng.normal(), rng.uniform(-110, 20))
        canvas.paint(np.maximum(canvas.ellipse(at, (rng.uniform(1.5, 3.5),) * 2), inner), 0.6 * tissue["vessel"])
    _belly(canvas, inner, tissue, rng)
    canvas.image *= 1 + np.float32(0.12) * canvas.texture(rng, grain=5)
    spine = (rng.uniform(70, 100), rng.uniform(25, 75))
    canvas.paint(np.maximum(canvas.ellipse(spine, (19, 22)), body + fat), 0.5 * (tissue["fat"] + tissue["wall"]))
    aorta = canvas.ellipse((spine[0] - rng.uniform(22, 34), spine[1] - rng.uniform(-8, 18)), (rng.uniform(9, 14),) * 2)
    canvas.paint(aorta - 2.5, tissue["wall"])
    canvas.paint(aorta, tissue["vessel"])


def _belly(canvas: Canvas, inner: Array, tissue: Tissues, rng: np.random.Generator) -> None:
    """Below the diaphragm: liver with vessels, a stomach that looks like a ventricle (bright, round, walled), bowel."""
    dome = rng.uniform(38, 58)
    below = dome + (canvas.x - np.float32(rng.uniform(-20, 20))) ** 2 / np.float32(rng.uniform(200, 420)) - canvas.y
    belly = np.maximum(inner, below)
    canvas.paint(belly, tissue["wall"])
    liver = np.maximum(belly, canvas.ellipse((rng.uniform(-70, -30), dome + rng.uniform(25, 45)), (75, 65)))
    canvas.paint(liver, tissue["liver"])
    for _ in range(5):
        at = (rng.uniform(-90, 0), dome + rng.uniform(10, 90))
        canvas.paint(np.maximum(canvas.ellipse(at, tuple(rng.uniform(2, 6, size=2))), liver), tissue["vessel"])
    bright = (tissue["stomach"], tissue["fat"], tissue["liver"], tissue["vessel"])
    for value in bright[: rng.integers(1, 5)]:
        at = (rng.uniform(-10, 85) + 0.4 * canvas.z[0, 0] * rng.normal(), dome + rng.uniform(22, 100))
        organ = canvas.ellipse(at, tuple(rng.uniform(12, 28, size=2)), rng.uniform(0, 180))
        canvas.paint(np.maximum(belly, organ - rng.uniform(2, 7)), tissue["muscle"])
        canvas.paint(np.maximum(belly, organ), value)
