"""Slicer's .seg.nrrd: segments with names, in one or several layers, as one label map.

The label values in these files are arbitrary and differ from file to file. ``read`` numbers the segments 1, 2, 3, ...
in the order of the file and ``names`` gives the names of these numbers, so that callers match by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mixseg.core.errors import MixsegError, listed
from mixseg.core.types import Volume
from mixseg.datasets.formats import itk
from mixseg.datasets.formats.geometry import Geometry


class Segment(NamedTuple):
    """One segment: its voxels are those of ``layer`` that hold ``value``."""

    name: str
    value: int
    layer: int


def read(path: Path, key: str = "") -> Volume:
    """The label map: 0 where nothing is painted, else the number of the segment."""
    image = itk.sitk.ReadImage(str(path))
    place = itk.place_of(image, path)
    layers = itk.sitk.GetArrayFromImage(image)
    if image.GetNumberOfComponentsPerPixel() == 1:
        layers = layers[..., None]
    result = np.zeros(layers.shape[:-1], dtype=np.uint16)
    segments = _segments(image)
    unclaimed = layers != 0
    for number, segment in enumerate(segments, start=1):
        if segment.layer >= layers.shape[-1]:
            raise MixsegError(
                f"Segment '{segment.name}' of {path} should lie in layer {segment.layer}, which is not there: save it "
                "again as a segmentation.",
                "segment-without-layer",
                file=path,
                segment=segment.name,
                layer=segment.layer,
            )
        painted = layers[..., segment.layer] == segment.value
        if (result[painted] > 0).any():
            other = segments[int(result[painted].max()) - 1]
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
    return Volume(result.T.reshape(place.shape), place.affine)


def geometry(path: Path, key: str = "") -> Geometry:
    """The geometry, from the header alone."""
    return itk.geometry(path)


def names(path: Path) -> dict[int, str]:
    """Number of the segment -> its name."""
    return {number: segment.name for number, segment in enumerate(_segments(itk.header(path)), start=1)}


def write(
    path: Path, array: NDArray[np.generic], place: Geometry, like: Path | None = None, *, names: Mapping[int, str]
) -> None:
    """Write a label map as segments; an id without a name is called by its number."""
    ids = sorted({int(value) for value in np.unique(array) if value} | {value for value in names if value})
    meta = {"Segmentation_MasterRepresentation": "Binary labelmap"}
    for number, value in enumerate(ids):
        prefix = f"Segment{number}_"
        meta |= {
            prefix + "ID": f"Segment_{number + 1}",
            prefix + "Name": names.get(value, str(value)),
            prefix + "LabelValue": str(value),
            prefix + "Layer": "0",
        }
    itk.write(path, array, place, like, meta)


def _segments(image: Any) -> list[Segment]:  # noqa: ANN401 - an image or a reader: both answer alike
    meta = {key: image.GetMetaData(key) for key in image.GetMetaDataKeys()}
    numbers = sorted(int(match[1]) for key in meta if (match := re.fullmatch(r"Segment(\d+)_ID", key)))
    return [
        Segment(
            meta.get(f"Segment{n}_Name", f"segment {n}"),
            int(meta.get(f"Segment{n}_LabelValue", "1")),
            int(meta.get(f"Segment{n}_Layer", "0")),
        )
        for n in numbers
    ]
