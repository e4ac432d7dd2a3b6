"""What prepared arrays are made like."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Literal

from mixseg.core.errors import MixsegError
from mixseg.data.intensity import CLIP_BY, ClipBy, GreyRange
from mixseg.datasets.partial_labels import GENERATORS

PARTIAL_FROM = ("drawn", "none", *GENERATORS)


@dataclass(frozen=True)
class PrepareOptions:
    """The training grid and the labels on it.

    Attributes:
        dims: 2 makes stacks of slices, 3 volumes.
        size: Height and width of the slices; ``None`` keeps each scan's own. Means nothing in 3D.
        spacing: Voxel size in mm that every scan is resampled to: two numbers in 2D (along the slices nothing changes),
            three in 3D; slices are then cropped or padded to ``size`` round their centre. ``None`` stretches slices to
            ``size`` and keeps volumes as they are.
        long_side: In 2D, the same for scans that have lost their voxel size: the longer side of every slice becomes so
            many pixels, the other is resampled in proportion.
        target: Names of the classes to segment; the others become background. ``None`` means all.
        partial: Where partial labels come from: "drawn" (the file's), "none", or the name of a generator, which makes
            them from the full mask on the prepared grid; a scan without a full mask keeps what is drawn.
        seed: For generators that draw at random. The labels of a scan depend on this and on its id alone.
        clip: Which intensities become 0 and 255; ``None`` is minimum and maximum. See ``GreyRange``, as for the next.
        clip_by: What ``clip`` counts in: "percentiles", "values" or "outliers".
    """

    dims: Literal[2, 3] = 2
    size: tuple[int, int] | None = (256, 256)
    target: tuple[str, ...] | None = None
    partial: str = "drawn"
    seed: int = 0
    clip: tuple[float, float] | None = None
    spacing: tuple[float, ...] | None = None
    long_side: int | None = None
    clip_by: ClipBy = "percentiles"

    def __post_init__(self) -> None:
        if self.dims not in (2, 3):
            raise MixsegError(
                f"dims is {self.dims}: choose 2 for slices or 3 for volumes.",
                "invalid-value",
                key="dims",
                value=self.dims,
            )
        if self.dims == 3:
            object.__setattr__(self, "size", None)
            object.__setattr__(self, "long_side", None)
        if self.size is not None and (len(self.size) != 2 or min(self.size) < 1):
            raise MixsegError(
                f"size is {self.size}: give a height and a width, such as 256 256.",
                "invalid-value",
                key="size",
                value=self.size,
            )
        check_spacing(self.dims, self.spacing, self.long_side)
        twice = [name for name, count in Counter(self.target or ()).items() if count > 1]
        if twice:
            raise MixsegError(
                f"target names the class {twice[0]} twice: name each once.",
                "duplicate-name",
                kind="class",
                name=twice[0],
            )
        if self.partial not in PARTIAL_FROM:
            raise MixsegError(
                f"There are no partial labels named {self.partial!r}: choose {', '.join(PARTIAL_FROM)}.",
                "unknown-name",
                kind="partial labels",
                name=self.partial,
            )
        if self.seed < 0:
            raise MixsegError(
                f"seed is {self.seed}: give a whole number from 0 on.", "invalid-value", key="seed", value=self.seed
            )
        check_clip(self.grey_range)

    @property
    def grey_range(self) -> GreyRange:
        """Which intensities become black and white."""
        return GreyRange(self.clip, self.clip_by)

    def classes(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The class names that remain of ``names``."""
        if self.target is None:
            return names
        unknown = [name for name in self.target if name not in names[1:]]
        if unknown or not self.target:
            wanted = ", ".join(unknown) or "nothing"
            raise MixsegError(
                f"The target {wanted} is no class of these scans: choose from {', '.join(names[1:])}.",
                "unknown-name",
                kind="class",
                name=wanted,
            )
        return (names[0], *self.target)


def check_clip(grey: GreyRange) -> None:
    """Nothing, or one sentence about intensities that no range ends at.

    Raises:
        MixsegError: The key clip or clip_by makes no sense.
    """
    if grey.by not in CLIP_BY:
        raise MixsegError(
            f"clip_by is {grey.by!r}: choose from {', '.join(CLIP_BY)}.", "invalid-value", key="clip_by", value=grey.by
        )
    least, most = (-math.inf, math.inf) if grey.by == "values" else (0, 100)
    if grey.clip is not None and not least <= grey.clip[0] < grey.clip[1] <= most:
        example = "value, such as -160 240" if grey.by == "values" else "percentile, such as 1 99"
        raise MixsegError(
            f"clip is {grey.clip}: give a lower and an upper {example}.", "invalid-value", key="clip", value=grey.clip
        )
    if grey.clip is None and grey.by == "values":
        raise MixsegError(
            "clip_by is values and clip is not given: name the two that become black and white, such as -160 240.",
            "invalid-value",
            key="clip",
            value=None,
        )


def check_spacing(dims: int, spacing: tuple[float, ...] | None, long_side: int | None) -> None:
    """Nothing, or one sentence about a voxel size that no scan can be resampled to."""
    if spacing is not None and long_side is not None:
        raise MixsegError(
            f"spacing {spacing} and long_side {long_side} both say how large a pixel is: leave one out.",
            "settings-contradict",
            key="spacing",
            other="long_side",
        )
    if spacing is not None and (len(spacing) != dims or not all(0 < mm < math.inf for mm in spacing)):
        example = "1.25 1.25 for slices" if dims == 2 else "1 1 1 for volumes"
        raise MixsegError(
            f"spacing is {spacing}: give {dims} voxel sizes in mm, such as {example}.",
            "invalid-value",
            key="spacing",
            value=spacing,
        )
    if long_side is not None and long_side < 1:
        raise MixsegError(
            f"long_side is {long_side}: give a number of pixels, such as 256.",
            "invalid-value",
            key="long_side",
            value=long_side,
        )
