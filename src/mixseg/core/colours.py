"""The colour of each structure, the same in figures, on pages and in the files that viewers open."""

from __future__ import annotations

import colorsys
from collections.abc import Iterable

STRUCTURES = ("#56B4E9", "#FF9447", "#2FD3A0", "#F0A0CE", "#F0E442")
"""The hues of Okabe and Ito, which colour-blind people tell apart, lighter than most tissue."""

GOLDEN = 0.618034
"""Hues that are so far apart around the circle never come close to an earlier one."""


def structure_colour(index: int) -> str:
    """Of the class ``index``, from 1, as "#RRGGBB"; beyond the five a hue of its own."""
    if index <= len(STRUCTURES):
        return STRUCTURES[index - 1]
    return code(colorsys.hls_to_rgb(index * GOLDEN % 1, 0.6, 0.75))


def shares(colour: str) -> tuple[float, float, float]:
    """Red, green and blue of "#RRGGBB", from 0 to 1."""
    red, green, blue = (int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))
    return red, green, blue


def code(shares: Iterable[float]) -> str:
    """The same as "#RRGGBB"."""
    return "#" + "".join(f"{round(255 * min(1.0, max(0.0, share))):02X}" for share in shares)
