"""What is shown of a scan: planes through its structure, as pictures of equal size."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from mixseg.core.types import IGNORE, Bytes
from mixseg.data.scan import Scan
from mixseg.inference.maps import Maps
from mixseg.inference.report_slices.choices import Choice, Rank
from mixseg.inference.report_slices.montage import Montage, lay_out

LONGEST_SIDE = 256
"""Larger planes are thinned out: the examples of a run stay below 2 MB."""


@dataclass(frozen=True)
class Plane:
    """A cut through a scan.

    Attributes:
        axis: The array axis that it is perpendicular to.
        index: Where on that axis.
        step: Every how many-th voxel of the plane is kept.
        upright: Whether its second axis (feet to head in most volumes) points upwards in the picture.
        why: What is to be seen there.
        pixel: Width and height of a pixel in mm, or in any unit where the voxel size is unknown.
    """

    axis: int
    index: int
    step: int
    upright: bool
    why: str
    pixel: tuple[float, float] = (1.0, 1.0)

    def of(self, volume: Bytes) -> Bytes:
        """The plane of ``(S1, S2, S3)`` as a picture: its first axis to the right, its second downwards or upwards."""
        picture = np.moveaxis(volume, self.axis, 0)[self.index, :: self.step, :: self.step].T
        return np.ascontiguousarray(picture[::-1] if self.upright else picture)


@dataclass(frozen=True)
class Example:
    """One plane of one scan, as pictures of equal size.

    Attributes:
        case: Id of the scan.
        part: "val" or "test".
        rank: Whether it is one of the worst, of the best, or of those that all runs on the same scans have in common.
        dsc: Of the method's answer, the mean over classes.
        plane: Which one.
        image: Grey values 0 to 255, of the first channel.
        truth: Class indices or IGNORE.
        labels: Class indices of each output, the answer first.
        entropy: Of the answer: 0 is sure, 255 is all classes alike.
        foreground: Probability that the answer gives to anything but background, 255 is 1; of common scans alone.
        montage: Of a volume, many of its slices; with the first of its planes alone.
    """

    case: str
    part: str
    rank: Rank
    dsc: float
    plane: Plane
    image: Bytes = field(repr=False)
    truth: Bytes = field(repr=False)
    labels: Mapping[str, Bytes] = field(repr=False)
    entropy: Bytes = field(repr=False)
    foreground: Bytes | None = field(default=None, repr=False)
    montage: Montage | None = None


def planes(
    truth: Bytes, answer: Bytes, *, dims: int, rank: Rank, spacing: tuple[float, ...] | None = None
) -> list[Plane]:
    """Where to look at a scan: the slice with most of the structure and, of a bad scan, the one with most errors.

    A volume is cut in three planes through the structure's centre.
    """
    inside = (truth > 0) & (truth != IGNORE)
    if not inside.any():
        inside = answer > 0
    step = max(1, math.ceil(max(truth.shape[3 - dims :]) / LONGEST_SIDE))
    sides = spacing or (1.0, 1.0, 1.0)

    def plane(axis: int, index: int, why: str) -> Plane:
        width, height = (side for of, side in enumerate(sides) if of != axis)
        return Plane(axis, index, step, dims == 3 and axis != 2, why, (width, height))

    if dims == 3:
        places = np.argwhere(inside)
        centre = np.median(places, axis=0) if len(places) else (np.array(truth.shape) - 1) / 2
        return [plane(axis, int(centre[axis]), "through the centre") for axis in (2, 1, 0)]
    found = [plane(0, int(inside.sum(axis=(1, 2)).argmax()), "largest structure")]
    wrong = ((truth != answer) & (truth != IGNORE)).sum(axis=(1, 2))
    if rank == "worst" and wrong.max() > wrong[found[0].index]:
        found.append(plane(0, int(wrong.argmax()), "most errors"))
    return found


def cut(scan: Scan, found: Maps, choice: Choice, *, dims: int) -> list[Example]:
    """The planes to show of a scan; ``found`` holds its label maps and how sure the answer is."""
    assert scan.full is not None, "val and test scans have full masks"
    assert found.entropy is not None, "examples show it"
    grey = scan.image[:, 0] if dims == 2 else scan.image[0]
    answer = next(iter(found.labels.values()))
    foreground = found.foreground if choice.rank == "common" else None
    examples = [
        Example(
            case=choice.case,
            part=choice.part,
            rank=choice.rank,
            dsc=choice.dsc,
            plane=plane,
            image=plane.of(grey),
            truth=plane.of(scan.full),
            labels={name: plane.of(each) for name, each in found.labels.items()},
            entropy=plane.of(found.entropy),
            foreground=None if foreground is None else plane.of(foreground),
        )
        for plane in planes(scan.full, answer, dims=dims, rank=choice.rank, spacing=scan.spacing)
    ]
    if dims == 3 and choice.rank != "common":
        examples[0] = replace(examples[0], montage=lay_out(grey, scan.full, answer, scan.spacing or (1.0, 1.0, 1.0)))
    return examples
