"""NRRD, .nrrd and .nhdr: a text header, and voxels after it or in files beside it; its geometry becomes RAS+.

Read without a library, as those below Python that read it end the whole process at headers that are damaged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mixseg.core.types import Volume
from mixseg.datasets.formats.base import LPS_TO_RAS, checked_axes, grey
from mixseg.datasets.formats.geometry import Geometry
from mixseg.datasets.formats.stored import LONGEST_HEADER, Encoding, Stored, beside, floats, numbered

MAGIC = re.compile(rb"NRRD(000\d|00\.01)\s*")
LINE = re.compile(r"([^:]+)(:=|:)(.*)")
VECTOR = re.compile(r"\(([^()]*)\)|none")
MOST_AXES = 16

TYPES = {
    "i1": ("signed char", "int8", "int8_t"),
    "u1": ("uchar", "unsigned char", "uint8", "uint8_t"),
    "i2": ("short", "short int", "signed short", "signed short int", "int16", "int16_t"),
    "u2": ("ushort", "unsigned short", "unsigned short int", "uint16", "uint16_t"),
    "i4": ("int", "signed int", "int32", "int32_t"),
    "u4": ("uint", "unsigned int", "uint32", "uint32_t"),
    "i8": ("longlong", "long long", "long long int", "signed long long", "signed long long int", "int64", "int64_t"),
    "u8": ("ulonglong", "unsigned long long", "unsigned long long int", "uint64", "uint64_t"),
    "f4": ("float",),
    "f8": ("double",),
}
ENCODINGS: dict[str, Encoding] = {
    "raw": "raw",
    **dict.fromkeys(("gzip", "gz"), "deflate"),
    **dict.fromkeys(("text", "txt", "ascii"), "text"),
    "hex": "hex",
}
PLACES = ("domain", "space", "time", "???", "none", "")
"""Kinds of axes along which voxels lie; along any other lie the values of one voxel."""
TO_RAS = {
    **dict.fromkeys(("right-anterior-superior", "ras"), np.diag([1.0, 1.0, 1.0, 1.0])),
    **dict.fromkeys(("left-anterior-superior", "las"), np.diag([-1.0, 1.0, 1.0, 1.0])),
}
"""Spaces but for LPS, which any other is taken for, as ITK does."""


class Header(NamedTuple):
    """What precedes the voxels.

    Attributes:
        fields: By name, without blanks and in small letters.
        meta: What somebody has added, such as the names of segments.
        axes: How many there are.
        start: The byte after it.
        listed: The lines that follow, where they are names of files.
    """

    fields: Mapping[str, str]
    meta: Mapping[str, str]
    axes: int
    start: int
    listed: tuple[str, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of the axes, the fastest first."""
        sizes = tuple(int(word) for word in self.fields["sizes"].split())
        if len(sizes) != self.axes or min(sizes) < 0:
            raise ValueError(f"sizes {sizes} of {self.axes} axes")
        return sizes

    @property
    def vectors(self) -> list[list[float]]:
        """The step along each axis; empty where none is said."""
        found = [match[1] for match in VECTOR.finditer(self.fields.get("spacedirections", ""))]
        return [[float(part) for part in text.split(",")] if text is not None else [] for text in found]

    @property
    def channel_axis(self) -> int | None:
        """The axis along which the values of one voxel lie, if there is one."""
        kinds = self.fields.get("kinds", "").lower().split()
        if not kinds:  # a voxel has no direction to its second value
            kinds = ["domain" if vector else "list" for vector in self.vectors]
        found = [axis for axis, kind in enumerate(kinds) if kind not in PLACES]
        if len(found) > 1 or (kinds and len(kinds) != self.axes):
            raise ValueError(f"axes of kinds {kinds}")
        return found[0] if found else None


def read(path: Path, key: str = "") -> Volume:
    """The voxels, transposed from (K, J, I) to (I, J, K)."""
    head = header(path)
    place = place_of(head, path)
    array = voxels(head, path)
    return Volume((grey(array, path) if array.shape[-1] > 1 else array[..., 0]).T.reshape(place.shape), place.affine)


def geometry(path: Path, key: str = "") -> Geometry:
    """The geometry, from the header alone."""
    return place_of(header(path), path)


def header(path: Path) -> Header:
    """What precedes the voxels."""
    with path.open("rb") as file:
        if not MAGIC.fullmatch(file.readline(80)):
            raise ValueError("no NRRD")
        lines: list[str] = []
        while (line := file.readline(LONGEST_HEADER)).strip(b"\r\n"):
            lines.append(line.rstrip(b"\r\n").decode("utf-8", errors="replace"))
            if file.tell() > LONGEST_HEADER:
                raise ValueError("an endless header")
            if line.lower().replace(b" ", b"").startswith(b"datafile:list"):
                break
        start = file.tell()
        listed = file.read(LONGEST_HEADER).decode("utf-8").splitlines() if lines and _lists(lines[-1]) else []
    fields: dict[str, str] = {}
    meta: dict[str, str] = {}
    for each in lines:
        match = LINE.fullmatch(each)
        if match is None and not each.startswith("#"):
            raise ValueError("no line of a NRRD")
        if match is not None and not each.startswith("#"):
            _put(fields, meta, match)
    axes = int(fields["dimension"])
    if not 1 <= axes <= MOST_AXES:
        raise ValueError(f"{axes} axes")
    return Header(fields, meta, axes, start, tuple(name.strip() for name in listed if name.strip()))


def _lists(line: str) -> bool:
    return line.lower().replace(" ", "").startswith("datafile:list")


def _put(fields: dict[str, str], meta: dict[str, str], match: re.Match[str]) -> None:
    name, sign, value = match.groups()
    if sign == ":=":
        meta[name] = value.replace("\\n", "\n").replace("\\\\", "\\")
        return
    name = name.lower().replace(" ", "")
    if name in fields:
        raise ValueError(f"{name} is said twice")
    fields[name] = value.strip()


def place_of(head: Header, path: Path) -> Geometry:
    """Where the voxels lie."""
    channel = head.channel_axis
    along = [axis for axis in range(head.axes) if axis != channel]
    i, j, k = checked_axes([head.sizes[axis] for axis in along], path)
    along = along[:3]
    place = np.eye(4)
    used = len(along)
    vectors = head.vectors
    if vectors:
        steps = np.array([vectors[axis] for axis in along], dtype=np.float64)
        if used < 3 and steps.shape[1] != used:
            raise ValueError(f"{used} axes in a space of {steps.shape[1]}")
        place[:used, :used] = steps.T[:used, :used]
    else:
        spacings = floats(head.fields.get("spacings", "1 " * head.axes), head.axes)
        place[range(used), range(used)] = [1.0 if np.isnan(spacings[axis]) else spacings[axis] for axis in along]
    origin = VECTOR.fullmatch(head.fields.get("spaceorigin", ""))
    if origin is not None and origin[1] is not None:
        place[:used, 3] = [float(part) for part in origin[1].split(",")][:used]
    space = head.fields.get("space", "").lower().removesuffix("-time")
    return Geometry((i, j, k), TO_RAS.get(space, LPS_TO_RAS) @ place + 0.0)  # + 0.0: minus zero becomes zero


def voxels(head: Header, path: Path) -> NDArray[np.generic]:
    """The voxels, the slowest axis first; last that of the values of one voxel, even where it has but one."""
    array = _stored(head, path).voxels()
    channel = head.channel_axis
    return array[..., None] if channel is None else np.moveaxis(array, head.axes - 1 - channel, -1)


def _stored(head: Header, path: Path) -> Stored:
    fields = head.fields
    kind = next(code for code, names in TYPES.items() if fields["type"].lower() in names)
    encoding = ENCODINGS[fields["encoding"].lower()]
    order = {"little": "<", "big": ">"}[fields["endian"].lower()] if kind[1] != "1" and encoding != "text" else "<"
    lines, skip = int(fields.get("lineskip", 0)), int(fields.get("byteskip", 0))
    if lines < 0 or skip < -1 or skip > LONGEST_HEADER or lines > LONGEST_HEADER or (skip < 0 and encoding != "raw"):
        raise ValueError(f"{lines} lines and {skip} bytes to skip")
    files = _files(head, path)
    start = -1 if skip < 0 else 0 if "datafile" in fields else head.start
    return Stored(path, files, np.dtype(order + kind), head.sizes, encoding, start, lines, max(0, skip))


def _files(head: Header, path: Path) -> tuple[Path, ...]:
    name = head.fields.get("datafile")
    if name is None:
        return (path,)
    words = name.split()
    if words[0] == "LIST":
        return beside(path, head.listed)
    if "%" in name and len(words) >= 4:
        return beside(path, numbered(words[0], words[1], words[2], words[3]))
    return beside(path, [name])
