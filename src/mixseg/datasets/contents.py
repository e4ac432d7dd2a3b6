"""What the files of a case hold, and what is wrong with them: all of it, in sentences."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import NamedTuple

from mixseg.core.errors import MixsegError
from mixseg.core.types import Case, Source, Volume
from mixseg.datasets import formats


class Contents(NamedTuple):
    """What the files of a case hold; None for what is not there or cannot be read.

    Attributes:
        problems: One sentence each, of headers and voxels; nothing if all is well.
        image: The first channel.
        full: Class indices, as the next one.
        partial: Class indices or IGNORE.
    """

    problems: list[str]
    image: Volume | None
    full: Volume | None
    partial: Volume | None


def check(case: Case) -> list[str]:
    """One sentence per problem of the case's files, headers and voxels; nothing if all is well."""
    return contents(case).problems


def contents(case: Case) -> Contents:
    """Every file of the case, read once."""
    problems: list[str] = []
    reference: tuple[Source, formats.Geometry] | None = None
    image = None
    for source in case.image:
        volume, place = _image(source, problems)
        image = volume if source is case.image[0] else image
        if place is not None:
            reference = reference or (source, place)
            problems += _misplaced(source, place, reference)
    full, partial, _ = (_labels(source, problems, reference) for source in (case.full, case.partial, case.hidden))
    return Contents(problems, image, full, partial)


def _image(source: Source, problems: list[str]) -> tuple[Volume | None, formats.Geometry | None]:
    """An image and its place, as far as they can be read."""
    try:
        volume = formats.read_image(source)
    except MixsegError as error:
        problems.append(str(error))
    else:
        return volume, formats.Geometry.of(volume)
    with suppress(MixsegError):  # the header may be good where the voxels are not
        return None, formats.read_geometry(source)
    return None, None


def _labels(
    source: Source | None, problems: list[str], reference: tuple[Source, formats.Geometry] | None
) -> Volume | None:
    """A label map, if there is one that can be read."""
    if source is None:
        return None
    try:
        volume = formats.read_labels(source)
    except MixsegError as error:
        problems.append(str(error))
        return None
    problems += _misplaced(source, formats.Geometry.of(volume), reference)
    return volume


def _misplaced(source: Source, place: formats.Geometry, reference: tuple[Source, formats.Geometry] | None) -> list[str]:
    """How the array differs in place from the (first) image of the case."""
    if reference is None:
        return []
    image, wanted = reference
    difference = formats.same_geometry(wanted, place)
    if not difference:
        return []
    return [
        f"{image.path} and {source.path} do not cover each other, {difference}: export one on the grid of the other, "
        "or copy the header if only that is wrong."
    ]


def shows_foreground(case: Case, target: Collection[str] = ()) -> bool:
    """Whether the full mask of ``case`` has a voxel of ``target``, or of any class above the background.

    One that cannot be read may have: what is wrong with it is told where its scan is prepared or inspected.
    """
    if case.full is None:
        return False
    wanted = {index for index, name in enumerate(case.classes) if index and (not target or name in target)}
    try:
        found = formats.count_ids(case.full)
    except MixsegError:
        return True
    meanings = case.full.ids or {}
    return any(meanings.get(value) in wanted for value in found)
