"""What a scanner makes of a scene: a coil's bias field, motion, noise, and a scale of its own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

Array = NDArray[np.float32]


def scan(scene: Array, patient: np.random.Generator, frame: np.random.Generator, *, noise: float) -> Array:
    """The scan of a scene of intensities about 0 to 1.

    Args:
        scene: ``(I, J, K)``.
        patient: Draws what both frames of a patient share: bias field, blur, noise level, scale.
        frame: Draws what they do not: the noise.
        noise: The typical standard deviation; a patient's own is half of it to twice.
    """
    sigma, gain = noise * 2 ** patient.uniform(-1, 1), np.float32(10 ** patient.uniform(2, 3))
    seen = _moved(scene * bias_field(scene.shape, patient), patient)
    real, imaginary = frame.normal(scale=sigma, size=(2, *scene.shape)).astype(np.float32)
    # A magnitude image: noise in both channels of the receiver makes it Rician, never negative, and lifts the air.
    magnitude: Array = np.sqrt((seen + real) ** 2 + imaginary**2) * gain
    return magnitude


def bias_field(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """A smooth factor round 1: brighter towards the coil, by up to about twofold across the scan."""
    x, y, z = np.meshgrid(*(np.linspace(-1, 1, n, dtype=np.float32) for n in shape), indexing="ij", sparse=True)
    slope, bow = rng.normal(scale=0.15, size=3).astype(np.float32), rng.normal(scale=0.1, size=2).astype(np.float32)
    # The coil lies on the chest, at the top of the picture.
    towards_coil = np.float32(rng.uniform(0, 0.3))
    linear = slope[0] * x + (slope[1] - towards_coil) * y + np.float32(0.3) * slope[2] * z
    field: Array = np.exp(linear + bow[0] * x * y + bow[1] * y**2)
    return field


def _moved(image: Array, rng: np.random.Generator) -> Array:
    """Blurred along the rows of k-space that breathing disturbs, with a faint ghost of the body."""
    columns = image.shape[1]
    blur, ghost, away = rng.uniform(0, 0.006), max(0.0, rng.normal(scale=0.06)), rng.uniform(0.25, 0.5)
    image = ndimage.gaussian_filter1d(image, sigma=blur * columns, axis=1, mode="nearest")
    image = ndimage.gaussian_filter1d(image, sigma=0.3 * blur * columns, axis=0, mode="nearest")
    return (1 - np.float32(ghost)) * image + np.float32(ghost) * np.roll(image, round(away * columns), axis=1)
