"""What made the maps of a scan: ``CASE.mixseg.json`` beside them, written before them.

A command that was killed finds by it, when it is repeated, which maps it may replace. Neither names of files nor of
patients are in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Self

import numpy as np

from mixseg import __version__
from mixseg.core.errors import MixsegError
from mixseg.core.files import read_json, write_json
from mixseg.core.types import CLASSES, Case, Labels
from mixseg.data.prepare.store import PreparedCase, tuples

ENDING = ".mixseg.json"
RECORD = "mixseg_predicted.txt"
"""What earlier versions left instead: the names of the files in the folder that they had written, one a line."""
REMEDY = "choose another -o, or replace it with --overwrite."


@dataclass(frozen=True)
class Origin:
    """What answers.

    Attributes:
        model: The hash of its weights.
        config: The hash of its run's settings, with the windows that were asked for.
        checkpoint: The name of the weights in the run, "best" or "last".
        step: Of the training, at which they were kept.
        output: Which of the method's outputs it is.
    """

    model: str
    config: str
    checkpoint: str
    step: int
    output: str

    def __str__(self) -> str:
        return f"{self.checkpoint} checkpoint (step {self.step})"


NOWHERE = Origin(model="", config="", checkpoint="", step=0, output="")
"""Of a model that no run has kept yet."""


@dataclass(frozen=True)
class Sidecar(Origin):
    """The content of the file.

    Attributes:
        image: The SHA-256 of each channel's bytes: of its file, or of its slices' files one after the other.
        maps: What lies beside it: "labels", "entropy", "probability_LV".
        volumes_ml: Of each class above the background; None where the size of a voxel is unknown.
        mixseg: The version that wrote it.
    """

    image: tuple[str, ...]
    maps: tuple[str, ...]
    volumes_ml: dict[str, float] | None = None
    mixseg: str = __version__

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """What the file says, whatever else a later version added; None if there is none, or none of ours."""
        try:
            found = read_json(path, missing_ok=True)
            return cls(**{field.name: tuples(found[field.name]) for field in fields(cls)})
        except (MixsegError, TypeError, KeyError):
            return None

    def write(self, path: Path) -> None:
        """Leave it at ``path``, whole or not at all."""
        write_json(path, asdict(self))

    def differs(self, origin: Origin, image: tuple[str, ...]) -> str:
        """How its maps were made, if in another way than ``origin`` makes them of this image; else "".

        A later version of mixseg may replace what an earlier one made, and weights may be the best and the last ones.
        """
        if self.model != origin.model:
            return f"by another model, the {self}"
        if self.config != origin.config:
            return "with other settings, of its windows for example"
        if self.output != origin.output:
            return f"from another output, {self.output}"
        return "" if self.image == image else "from another image"


def file_name(case: Case, ending: str) -> str:
    """Of a map of a scan; its label map has the ending ""."""
    return f"{case.id}{ending}.nii.gz"


def map_name(ending: str) -> str:
    """What a sidecar calls the map whose name ends so."""
    return ending.removeprefix("_") or "labels"


def hashes(case: Case) -> tuple[str, ...]:
    """The SHA-256 of each channel of an image.

    Raises:
        MixsegError: A file cannot be read.
    """
    found = []
    for source in case.image:
        state = hashlib.sha256()
        for path in source.files:
            try:
                with path.open("rb") as file:
                    while block := file.read(1 << 22):
                        state.update(block)
            except OSError as error:
                raise MixsegError(
                    f"{path} cannot be read ({error.strerror}): check the path.", "unreadable-file", file=path
                ) from None
        found.append(state.hexdigest())
    return tuple(found)


def volumes_ml(labels: Labels, classes: Sequence[str], place: PreparedCase) -> dict[str, float] | None:
    """The volume of each class above the background on the grid of the image; None where its voxels have no size."""
    if not place.spacing_known:
        return None
    voxel = abs(float(np.linalg.det(np.array(place.header.affine)[:3, :3]))) / 1000
    counts = np.zeros(len(classes), np.int64)
    for k in range(labels.shape[-1]):  # slice by slice: counting takes eight bytes a voxel
        counts += np.bincount(labels[..., k].ravel(), minlength=len(classes))
    return {name: round(int(counts[index]) * voxel, 4) for index, name in enumerate(classes) if index}


def check_not_overwriting(
    cases: Sequence[Case], out: Path, endings: Sequence[str], classes: Sequence[str], origin: Origin
) -> None:
    """Nothing, or one sentence about a file in ``out`` that is not what ``origin`` would write there again.

    Args:
        cases: The scans, of which only images are looked at.
        out: The folder for the maps.
        endings: Those of the names of a scan's maps.
        classes: Their names, which lie beside the maps.
        origin: What would make them.

    Raises:
        MixsegError: Such a file is there: nobody's that we know, or made by another model or of another image.
    """
    written = recorded(out)
    if (out / CLASSES).exists() and CLASSES not in written and read_json(out / CLASSES) != list(classes):
        names = ", ".join(classes)
        raise MixsegError(
            f"{out / CLASSES} would be overwritten, and names other classes than {names}: {REMEDY}",
            "would-overwrite",
            file=out / CLASSES,
        )
    for case in cases:
        path = out / f"{case.id}{ENDING}"
        beside, maps = Sidecar.read(path), {out / file_name(case, ending): map_name(ending) for ending in endings}
        there = [file for file in maps if file.exists()]
        ours = [file for file in there if (maps[file] in beside.maps if beside else file.name in written)]
        foreign = [file for file in there if file not in ours] or ([path] if not beside and path.exists() else [])
        if foreign:
            raise MixsegError(
                f"{foreign[0]} would be overwritten, and mixseg predict did not write it (no {path.name} of ours "
                f"says so): {REMEDY}",
                "would-overwrite",
                file=foreign[0],
            )
        if beside and there and (clause := _made_otherwise(beside, origin, case)):
            raise MixsegError(f"{there[0]} was made {clause}: {REMEDY}", "would-overwrite", file=there[0])


def _made_otherwise(beside: Sidecar, origin: Origin, case: Case) -> str:
    try:
        return beside.differs(origin, hashes(case))
    except MixsegError:  # the image cannot be read: nothing will be written
        return ""


def recorded(out: Path) -> set[str]:
    """The names of the files in ``out`` that an earlier version wrote."""
    record = out / RECORD
    return set(record.read_text(encoding="utf-8").splitlines()) if record.is_file() else set()


def begin_maps(case: Case, out: Path, endings: Sequence[str], sidecar: Sidecar) -> None:
    """Leave the sidecar of maps that are about to be written; those of another origin go first.

    A kill leaves no map beside a sidecar that is not its own.
    """
    path = out / f"{case.id}{ENDING}"
    before = Sidecar.read(path)
    if before is not None and not before.differs(sidecar, sidecar.image):
        sidecar = replace(sidecar, maps=tuple(dict.fromkeys((*sidecar.maps, *before.maps))))
    else:
        for ending in endings:
            (out / file_name(case, ending)).unlink(missing_ok=True)
    sidecar.write(path)
