"""What somebody has drawn of a scan, as a label map of the scan has to keep it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mixseg.core.errors import MixsegError
from mixseg.core.types import IGNORE, Case, Labels, Source
from mixseg.data.prepare.files import check_geometry, read_header
from mixseg.datasets import formats


@dataclass(frozen=True)
class Drawn:
    """What is known of a scan.

    Attributes:
        labels: ``(I, J, K)`` class indices where somebody has drawn, IGNORE elsewhere.
        finished: The classes that are outlined to their border: they are where they are drawn, and nowhere else.
        corrected: Where it was drawn by changing a proposal; None is nowhere.
    """

    labels: Labels
    finished: tuple[int, ...] = ()
    corrected: NDArray[np.bool_] | None = None

    @property
    def known(self) -> NDArray[np.bool_]:
        """Where somebody has drawn."""
        return np.asarray(self.labels != IGNORE)

    def with_corrections(self, labels: Labels, where: NDArray[np.bool_]) -> Drawn:
        """The same, and what was changed in a proposal, which wins over what was drawn before."""
        return Drawn(np.where(where, labels, self.labels).astype(np.uint8), self.finished, where)


def read_drawn(case: Case, classes: Sequence[str]) -> Drawn:
    """The finished structures and the strokes of a case, by the classes of the run that completes it.

    Raises:
        MixsegError: A class was drawn that the run does not know; or strokes lie on another grid than the image, or
            contradict a finished structure.
    """
    header = read_header(case)
    check_geometry(case, header)
    drawn, finished = np.full(header.shape, IGNORE, np.uint8), list[int]()
    table = _indices(case, classes)
    if case.full is not None:
        mask = _read(case.full, table)
        looked_for = case.classes[1:] if case.annotated is None else case.annotated
        finished = [int(table[case.classes.index(name)]) for name in looked_for]
        own = np.isin(mask, finished)
        drawn[own] = mask[own]
    if case.partial is not None:
        strokes = _read(case.partial, table)
        both = (strokes != IGNORE) & (drawn != IGNORE)
        wrong = (both & (strokes != drawn)) | (np.isin(strokes, finished) & (drawn == IGNORE))
        if wrong.any():
            raise MixsegError(
                f"{case.partial.path} contradicts the finished structures of {case.id} in {int(wrong.sum())} voxels: "
                "correct the strokes or the mask.",
                "labels-contradict",
                file=case.partial.path,
                case=case.id,
                voxels=int(wrong.sum()),
            )
        new = (strokes != IGNORE) & ~both
        drawn[new] = strokes[new]
    return Drawn(drawn, tuple(finished))


def _indices(case: Case, classes: Sequence[str]) -> Labels:
    """Class index of the case -> class index of the run; IGNORE stays."""
    own = [name.lower() for name in classes]
    unknown = [name for name in case.classes[1:] if name.lower() not in own]
    if unknown:
        raise MixsegError(
            f"{case.id} has {unknown[0]} drawn, and the run knows {', '.join(classes[1:])} alone: train a run on these "
            "scans first.",
            "class-unknown",
            case=case.id,
            name=unknown[0],
        )
    table = np.full(IGNORE + 1, IGNORE, np.uint8)
    table[0] = 0
    for index, name in enumerate(case.classes[1:], start=1):
        table[index] = own.index(name.lower())
    return table


def _read(source: Source, table: Labels) -> Labels:
    """A label map by the classes of the run."""
    return np.asarray(table[np.asarray(formats.read_labels(source).array, np.uint8)])
