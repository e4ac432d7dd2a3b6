"""Slicer's .seg.nrrd: segments with names, in one or several layers, as one label map.

The label values in these files are arbitrary and differ from file to file. ``read`` numbers the segments 1, 2, 3, ...
in the order of the file and ``segments`` gives them in this order, so that callers match by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mixseg.core.colours import code
from mixseg.core.errors import MixsegError, listed
from mixseg.core.types import Volume
from mixseg.datasets.formats import nrrd
from mixseg.datasets.formats.geometry import Geometry

STATUS = "Segmentation.Status"
"""The tag in which Slicer's editor keeps how far a segment is; it writes "inprogress" on all that was touched."""


class Segment(NamedTuple):
    """One segment: its voxels are those of ``layer`` that hold ``value``.

    Attributes:
        name: As its author called it.
        value: What its voxels hold in the file.
        layer: Where they lie there.
        colour: "#RRGGBB", or "" where the file says none.
        status: "notstarted", "inprogress", "completed", "flagged", or "" where the file says none.
    """

    name: str
    value: int
    layer: int = 0
    colour: str = ""
    status: str = ""


class Painted:
    """The voxels of a file, segment by segment.

    Attributes:
        place: Its geometry.
        segments: The one that ``of`` calls 1 first.
        layers: ``(K, J, I, layers)``.
    """

    def __init__(self, path: Path) -> None:
        header = nrrd.header(path)
        self.path, self.place, self.segments = path, nrrd.place_of(header, path), _segments(header.meta)
        self.layers = nrrd.voxels(header, path)

    def of(self, number: int) -> NDArray[np.bool_]:
        """Where a segment is painted, ``(K, J, I)``.

        Raises:
            MixsegError: The file has no such layer.
        """
        segment = self.segments[number - 1]
        if segment.layer >= self.layers.shape[-1]:
            raise MixsegError(
                f"Segment '{segment.name}' of {self.path} should lie in layer {segment.layer}, which is not there: "
                "save it again as a segmentation.",
                "segment-without-layer",
                file=self.path,
                segment=segment.name,
                layer=segment.layer,
            )
        return np.asarray(self.layers[..., segment.layer] == segment.value)

    def upright(self, array: NDArray[np.generic]) -> NDArray[np.generic]:
        """``(K, J, I)`` or ``(J, I)`` as ``(I, J, K)``."""
        return array.T.reshape(self.place.shape)


def read(path: Path, key: str = "") -> Volume:
    """The label map: 0 where nothing is painted, else the number of the segment."""
    file = Painted(path)
    layers, found = file.layers, file.segments
    result = np.zeros(layers.shape[:-1], dtype=np.uint16)
    unclaimed = layers != 0
    for number, segment in enumerate(found, start=1):
        painted = file.of(number)
        if (result[painted] > 0).any():
            other = found[int(result[painted].max()) - 1]
            raise MixsegError(
                f"Segments '{other.name}' and '{segment.name}' of {path} overlap: paint them again with "
                "overlap switched off in the segment editor, or export a label map.",
                "segments-overlap",
                file=path,
                segment=segment.name,
                other=other.name,
            )
        result[painted] = number
        unclaimed[..., segment.layer] &= ~painted
    if unclaimed.any():
        values = listed([f"{value:g}" for value in np.unique(layers[unclaimed])])
        raise MixsegError(
            f"{path} holds {values} where none of its segments is: save it again as a segmentation, or rename it to "
            ".nrrd if it is a plain label map.",
            "voxels-without-segment",
            file=path,
        )
    return Volume(file.upright(result), file.place.affine)


def geometry(path: Path, key: str = "") -> Geometry:
    """The geometry, from the header alone."""
    return nrrd.geometry(path)


def segments(path: Path) -> list[Segment]:
    """Those of the file, the one that ``read`` calls 1 first."""
    return _segments(nrrd.header(path).meta)


def _segments(meta: Mapping[str, str]) -> list[Segment]:
    numbers = sorted(int(match[1]) for key in meta if (match := re.fullmatch(r"Segment(\d+)_ID", key)))
    return [
        Segment(
            meta.get(f"Segment{n}_Name", f"segment {n}"),
            int(meta.get(f"Segment{n}_LabelValue", "1")),
            int(meta.get(f"Segment{n}_Layer", "0")),
            _colour(meta.get(f"Segment{n}_Color", "")),
            _status(meta.get(f"Segment{n}_Tags", "")),
        )
        for n in numbers
    ]


def _colour(text: str) -> str:
    """Three numbers from 0 to 1 as "#RRGGBB"; "" where there is nothing of the kind."""
    try:
        rgb = [float(share) for share in text.split()]
    except ValueError:
        return ""
    return code(rgb) if len(rgb) == 3 else ""


def _status(tags: str) -> str:
    """Of "Segmentation.Status:completed|TerminologyEntry:..." the first."""
    found = [tag.partition(":")[2] for tag in tags.split("|") if tag.partition(":")[0] == STATUS]
    return found[0] if found else ""
