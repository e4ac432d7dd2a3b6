"""What is wrong with the files of a case: all of it, in sentences."""

from __future__ import annotations

from mixseg import io
from mixseg.errors import MixsegError
from mixseg.types import Case, Source


def check(case: Case) -> list[str]:
    """One sentence per problem of the case's files, headers and voxels; nothing if all is well."""
    problems: list[str] = []
    reference: tuple[Source, io.Geometry] | None = None
    for source in case.image:
        place = _image(source, problems)
        if place is not None:
            reference = reference or (source, place)
            problems += _misplaced(source, place, reference)
    for label in (case.full, case.partial, case.hidden):
        if label is None:
            continue
        try:
            place = io.Geometry.of(io.read_labels(label))
        except MixsegError as error:
            problems.append(str(error))
        else:
            problems += _misplaced(label, place, reference)
    return problems


def _image(source: Source, problems: list[str]) -> io.Geometry | None:
    """The place of an image, as far as it can be read."""
    place = None
    try:
        place = io.read_geometry(source)
        io.read_image(source)
    except MixsegError as error:
        problems.append(str(error))
    return place


def _misplaced(source: Source, place: io.Geometry, reference: tuple[Source, io.Geometry] | None) -> list[str]:
    """How the array differs in place from the (first) image of the case."""
    if reference is None:
        return []
    image, wanted = reference
    difference = io.same_geometry(wanted, place)
    if not difference:
        return []
    return [
        f"{image.path} and {source.path} do not cover each other, {difference}: export one on the grid of the other, "
        "or copy the header if only that is wrong."
    ]
