"""MetaImage, .mha and .mhd: a text header, and voxels after it or in files beside it; its LPS geometry becomes RAS+.

Read without a library, as those below Python that read it end the whole process at headers that are damaged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mixseg.core.types import Volume
from mixseg.datasets.formats.base import LPS_TO_RAS, checked_axes, grey
from mixseg.datasets.formats.geometry import Geometry
from mixseg.datasets.formats.stored import LONGEST_HEADER, Stored, beside, floats, numbered

TYPES = {
    "MET_CHAR": "i1",
    "MET_UCHAR": "u1",
    "MET_SHORT": "i2",
    "MET_USHORT": "u2",
    "MET_INT": "i4",
    "MET_UINT": "u4",
    "MET_LONG": "i4",  # of the years in which a long had 4 bytes
    "MET_ULONG": "u4",
    "MET_LONG_LONG": "i8",
    "MET_ULONG_LONG": "u8",
    "MET_FLOAT": "f4",
    "MET_DOUBLE": "f8",
}
LINE = re.compile(rb"[ \t]*([A-Za-z]\w*)[ \t]*[=:][ \t]*(.*)")
LAST = "ElementDataFile"
MOST_AXES = 10


class _Header(NamedTuple):
    fields: Mapping[str, str]
    axes: int
    start: int
    """Of what follows the header."""
    listed: tuple[str, ...]
    """The lines that follow, where they are names of files."""

    def first(self, *names: str, default: str = "") -> str:
        """What the first of several names of a field says."""
        return next((self.fields[name] for name in names if name in self.fields), default)

    def true(self, *names: str, default: str = "False") -> bool:
        """Whether a field says True."""
        return self.first(*names, default=default)[:1].lower() in ("t", "1")


def read(path: Path, key: str = "") -> Volume:
    """The voxels, transposed from (K, J, I) to (I, J, K)."""
    header = _header(path)
    place = _geometry(header, path)
    array = _stored(header, path).voxels()
    if _channels(header) > 1:
        array = grey(array, path)
    return Volume(array.T.reshape(place.shape), place.affine)


def geometry(path: Path, key: str = "") -> Geometry:
    """The geometry, from the header alone."""
    return _geometry(_header(path), path)


def _header(path: Path) -> _Header:
    fields: dict[str, str] = {}
    with path.open("rb") as file:
        while LAST not in fields:
            line = file.readline(LONGEST_HEADER)
            match = LINE.fullmatch(line.rstrip(b"\r\n"))
            if match is None or file.tell() > LONGEST_HEADER:
                raise ValueError("no line of a MetaImage")
            fields[match[1].decode("ascii")] = match[2].decode("utf-8", errors="replace").strip()
        start = file.tell()
        rest = file.read(LONGEST_HEADER) if fields[LAST].startswith("LIST") else b""
    axes = int(fields["NDims"])
    if not 2 <= axes <= MOST_AXES or fields.get("ObjectType", "Image") != "Image":
        raise ValueError(f"{axes} axes")
    names = tuple(name.strip() for name in rest.decode("utf-8").splitlines() if name.strip())
    return _Header(fields, axes, start, names)


def _sizes(header: _Header) -> tuple[int, ...]:
    sizes = tuple(int(word) for word in header.fields["DimSize"].split())
    if len(sizes) != header.axes or min(sizes) < 0:
        raise ValueError(f"sizes {sizes} of {header.axes} axes")
    return sizes


def _channels(header: _Header) -> int:
    channels = int(header.first("ElementNumberOfChannels", default="1"))
    if channels < 1:
        raise ValueError(f"{channels} channels")
    return channels


class Place(NamedTuple):
    """Where an image lies as its header says it, in LPS: the numbers themselves, for whoever writes them again."""

    spacing: list[float]
    origin: list[float]
    direction: list[float]
    """A row an axis of space, as ITK has it."""


def place_said(path: Path) -> Place:
    """What the header says."""
    return _said(_header(path))


def _said(header: _Header) -> Place:
    axes = header.axes
    spacing = floats(header.first("ElementSpacing", "ElementSize", default="1 " * axes), axes)
    origin = floats(header.first("Offset", "Origin", "Position", default="0 " * axes), axes)
    straight = " ".join(map(str, np.eye(axes).ravel()))
    turned = floats(header.first("TransformMatrix", "Rotation", "Orientation", default=straight), axes * axes)
    return Place(spacing, origin, np.reshape(turned, (axes, axes)).T.ravel().tolist())


def _geometry(header: _Header, path: Path) -> Geometry:
    i, j, k = checked_axes(_sizes(header), path)
    said, axes = _said(header), header.axes
    lps = np.eye(4)
    used = min(axes, 3)
    lps[:used, :used] = (np.reshape(said.direction, (axes, axes)) * said.spacing)[:used, :used]
    lps[:used, 3] = said.origin[:used]
    return Geometry((i, j, k), LPS_TO_RAS @ lps + 0.0)  # + 0.0: minus zero becomes zero


def _stored(header: _Header, path: Path) -> Stored:
    order = ">" if header.true("BinaryDataByteOrderMSB", "ElementByteOrderMSB") else "<"
    channels = _channels(header)
    binary, compressed = header.true("BinaryData", default="True"), header.true("CompressedData")
    files, start = _files(header, path)
    return Stored(
        path,
        files,
        np.dtype(order + TYPES[header.fields["ElementType"]]),
        ((channels,) if channels > 1 else ()) + _sizes(header),
        "deflate" if compressed else "raw" if binary else "text",
        start,
    )


def _files(header: _Header, path: Path) -> tuple[tuple[Path, ...], int]:
    """Where the voxels lie, and at which byte they begin."""
    name = header.fields[LAST]
    skip = int(header.first("HeaderSize", default="0"))
    if skip < -1:
        raise ValueError(f"a header of {skip} bytes")
    if name.lower() == "local":
        return (path,), skip or header.start
    words = name.split()
    if words[:1] == ["LIST"]:
        return beside(path, header.listed), skip
    if len(words) == 4 and "%" in name:
        return beside(path, numbered(words[0], words[1], words[2], words[3])), skip
    return beside(path, [name]), skip
