"""A scene in millimetres, painted shape by shape on the voxel grid."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

Array = NDArray[np.float32]
Number = float | NDArray[np.floating]
"""One value for the whole scan, or ``(K,)``: one for each slice."""


class Canvas:
    """The voxel grid, its bent coordinates, and the picture so far.

    Every shape is an ellipse or a union of them, in coordinates that are bent a little, differently for each patient:
    that makes anatomy of geometry. Shapes are signed distances in mm (roughly; negative inside), and ``paint`` blends
    their edges over one voxel, as partial volume does.

    Attributes:
        x, y, z: ``(I, J, K)`` bent coordinates in mm, 0 in the middle of the scan.
        image: ``(I, J, K)`` what has been painted.
        spacing: Voxel size in mm.
    """

    def __init__(self, shape: tuple[int, int, int], spacing: tuple[float, float, float]) -> None:
        middle = [(np.arange(n, dtype=np.float32) - (n - 1) / 2) * mm for n, mm in zip(shape, spacing, strict=True)]
        i, j, k = np.meshgrid(*middle, indexing="ij", sparse=True)
        nothing = np.zeros(shape, dtype=np.float32)
        self.x, self.y, self.z = i + nothing, j + nothing, k + nothing
        self.image = nothing
        self.spacing = spacing

    def move(self, x: Number = 0.0, y: Number = 0.0) -> None:
        """Move the scene: what lay at the origin now lies at ``(x, y)``."""
        self.x, self.y = self.x - np.float32(x), self.y - np.float32(y)

    def turn(self, degrees: float) -> None:
        """Turn the scene about the origin, within the slices."""
        self.x, self.y = turned(self.x, self.y, degrees)

    def bend(self, rng: np.random.Generator, *, amount: float, wavelength: float, waves: int = 3) -> None:
        """Bend the coordinates by a few random waves, by about ``amount`` mm."""
        x, y, z = self.x, self.y, self.z
        for _ in range(waves):
            direction = rng.normal(size=3)
            direction *= 2 * np.pi / (wavelength * rng.uniform(0.7, 1.4) * np.linalg.norm(direction))
            along = np.float32(direction[0]) * x + np.float32(direction[1]) * y + np.float32(direction[2]) * z
            wave = np.sin(along + np.float32(rng.uniform(0, 2 * np.pi)))
            shift = rng.normal(scale=amount / np.sqrt(waves), size=2).astype(np.float32)
            self.x, self.y = self.x + shift[0] * wave, self.y + shift[1] * wave

    def ellipse(self, centre: tuple[Number, Number], radii: tuple[Number, Number], degrees: float = 0.0) -> Array:
        """Signed distance from an ellipse in each slice; a slice with a radius of 0 or less has none."""
        u, v = turned(self.x - np.float32(centre[0]), self.y - np.float32(centre[1]), degrees)
        a, b = (np.maximum(np.float32(radius), np.float32(1e-3)) for radius in radii)
        distance: Array = (np.sqrt((u / a) ** 2 + (v / b) ** 2) - 1) * np.sqrt(a * b)
        return distance

    def ellipsoid(self, centre: tuple[float, float, float], radii: tuple[float, float, float]) -> Array:
        """Signed distance from an ellipsoid."""
        a, b, c = radii
        q = ((self.x - centre[0]) / a) ** 2 + ((self.y - centre[1]) / b) ** 2 + ((self.z - centre[2]) / c) ** 2
        distance: Array = (np.sqrt(q) - 1) * np.float32((a * b * c) ** (1 / 3))
        return distance

    def tube(self, start: NDArray[np.floating], end: NDArray[np.floating], radius: float) -> Array:
        """Signed distance from a round tube between two points ``(x, y, z)``."""
        axis = (end - start).astype(np.float32)
        x, y, z = self.x - np.float32(start[0]), self.y - np.float32(start[1]), self.z - np.float32(start[2])
        along = np.clip((x * axis[0] + y * axis[1] + z * axis[2]) / (axis @ axis), 0, 1)
        across = (x - along * axis[0]) ** 2 + (y - along * axis[1]) ** 2 + (z - along * axis[2]) ** 2
        distance: Array = np.sqrt(across) - np.float32(radius)
        return distance

    def texture(self, rng: np.random.Generator, *, grain: float) -> Array:
        """Smooth noise of mean 0 and standard deviation 1, its grains about ``grain`` mm."""
        sigma = [grain / mm for mm in self.spacing]
        # A generator of its own: whatever is drawn after this does not depend on how many voxels there are.
        own = np.random.default_rng(rng.integers(2**32))
        smooth = ndimage.gaussian_filter(own.standard_normal(self.image.shape, dtype=np.float32), sigma, mode="wrap")
        noise: Array = (smooth - smooth.mean()) / (smooth.std() + np.float32(1e-6))
        return noise

    def paint(self, distance: Array, value: Number | Array, *, strength: float = 1.0) -> None:
        """Paint ``value`` where ``distance`` is negative, over what is there."""
        cover = np.clip(0.5 - distance / np.float32(self.spacing[0]), 0, strength).astype(np.float32)
        self.image += cover * (np.float32(value) - self.image)


def turned(x: Array, y: Array, degrees: float) -> tuple[Array, Array]:
    """The coordinates ``(x, y)`` seen from axes that are turned by ``degrees``."""
    if degrees == 0:
        return x, y
    cos, sin = np.float32(np.cos(np.deg2rad(degrees))), np.float32(np.sin(np.deg2rad(degrees)))
    return cos * x + sin * y, cos * y - sin * x
