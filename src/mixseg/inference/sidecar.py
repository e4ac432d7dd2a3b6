"""What made the maps of a scan: ``CASE.mixseg.json`` beside them, written before them.

A command that was killed finds by it, when it is repeated, which maps it may replace. Neither names of files nor of
patients are in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Self

from mixseg import __version__
from mixseg.core.errors import MixsegError
from mixseg.core.files import write_json
from mixseg.core.text_files import read_json
from mixseg.core.types import CLASSES, Case
from mixseg.data.prepare.store import tuples
from mixseg.datasets.formats.label_files import ANY, FORMATS
from mixseg.inference.origin import Origin
from mixseg.inference.targets import Target

RECORD = "mixseg_predicted.txt"
"""What earlier versions left instead: the names of the files in the folder that they had written, one a line."""
REMEDY = "choose another -o, or replace it with --overwrite."


@dataclass(frozen=True)
class Sidecar(Origin):
    """The content of the file.

    Attributes:
        image: The SHA-256 of each channel's bytes: of its file, or of its slices' files one after the other.
        maps: What lies beside it: "labels", "entropy", "probability_LV".
        volumes_ml: Of each class above the background; None where the size of a voxel is unknown.
        format: What the label map is written in, a name in ``FORMATS``.
        nested: Inner structure -> the one that includes its voxels, in the map and in its volume.
        provenance: Of a completed label map: class -> origin -> voxels (see ``annotate.refinement``).
        mixseg: The version that wrote it.
    """

    image: tuple[str, ...]
    maps: tuple[str, ...]
    volumes_ml: dict[str, float] | None = None
    format: str = ANY
    nested: dict[str, str] = field(default_factory=dict)
    provenance: dict[str, dict[str, int]] = field(default_factory=dict)
    mixseg: str = __version__

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """What the file says, whatever a later version added; None if there is none, or none of ours.

        What an earlier version did not say yet is as it was then.
        """
        later = {each.name for each in fields(cls) if each.default_factory is not MISSING or each.name == "format"}
        try:
            found = read_json(path, cls, missing_ok=True)
            known = [each.name for each in fields(cls) if each.name not in later or each.name in found]
            return cls(**{name: tuples(found[name]) for name in known})
        except (MixsegError, TypeError, KeyError):
            return None

    def write(self, path: Path) -> None:
        """Leave it at ``path``, whole or not at all."""
        write_json(path, asdict(self))

    def differs(self, other: Sidecar) -> str:
        """How its maps were made, if in another way than those of ``other``; else "".

        A later version of mixseg may replace what an earlier one made, and weights may be the best and the last ones.
        """
        if self.model != other.model:
            return f"by another model, the {self}"
        if self.config != other.config:
            return "with other settings, of its windows for example"
        if self.output != other.output:
            return f"from another output, {self.output}"
        if (self.format, self.nested) != (other.format, other.nested):
            return f"with another --format or --nested, {self.format}"
        return "" if self.image == other.image else "from another image"


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


def check_not_overwriting(
    targets: Sequence[Target],
    endings: Sequence[str],
    classes: Sequence[str],
    origin: Origin,
    nested: Mapping[str, str],
) -> None:
    """Nothing, or one sentence about a file that is not what ``origin`` would write there again.

    Args:
        targets: Where the maps of each scan go.
        endings: Those of the names of a scan's maps.
        classes: Their names, which lie beside the maps.
        origin: What would make them.
        nested: Which structures would include others.

    Raises:
        MixsegError: Such a file is there: nobody's that we know, or made by another model or of another image.
    """
    out = targets[0].out
    written = recorded(out)
    if (out / CLASSES).exists() and CLASSES not in written and read_json(out / CLASSES, list[str]) != list(classes):
        names = ", ".join(classes)
        raise MixsegError(
            f"{out / CLASSES} would be overwritten, and names other classes than {names}: {REMEDY}",
            "would-overwrite",
            file=out / CLASSES,
        )
    for target in targets:
        beside, maps = Sidecar.read(target.sidecar), {target.file(ending): map_name(ending) for ending in endings}
        there = [file for file in maps if file.exists()]
        same = beside is not None and beside.format == target.format
        ours = [file for file in there if (maps[file] in beside.maps if same and beside else file.name in written)]
        foreign = [file for file in there if file not in ours]
        foreign += [target.sidecar] if not beside and target.sidecar.exists() else []
        if foreign:
            raise MixsegError(
                f"{foreign[0]} would be overwritten, and mixseg predict did not write it (no {target.sidecar.name} of "
                f"ours says so): {REMEDY}",
                "would-overwrite",
                file=foreign[0],
            )
        before = [*there, *_label_map(target, beside)]
        if beside and before and (clause := _made_otherwise(beside, origin, target, nested)):
            raise MixsegError(f"{before[0]} was made {clause}: {REMEDY}", "would-overwrite", file=before[0])


def _label_map(target: Target, beside: Sidecar | None) -> list[Path]:
    """The label map that a sidecar speaks for, in whatever format, if it is there."""
    if beside is None or beside.format not in FORMATS or "labels" not in beside.maps:
        return []
    path = replace(target, format=beside.format).file()
    return [path] if path.exists() else []


def _made_otherwise(beside: Sidecar, origin: Origin, target: Target, nested: Mapping[str, str]) -> str:
    try:
        again = about(target, origin, maps=(), volumes=None, nested=nested)
    except MixsegError:  # the image cannot be read: nothing will be written
        return ""
    return beside.differs(again)


def about(
    target: Target,
    origin: Origin,
    *,
    maps: Sequence[str],
    volumes: dict[str, float] | None,
    nested: Mapping[str, str],
) -> Sidecar:
    """What the maps of a scan, by the ending of their names, are made from.

    Raises:
        MixsegError: A file of the image cannot be read.
    """
    return Sidecar(
        **asdict(origin),
        image=hashes(target.case),
        maps=tuple(map(map_name, maps)),
        volumes_ml=volumes,
        format=target.format,
        nested=dict(nested),
    )


def recorded(out: Path) -> set[str]:
    """The names of the files in ``out`` that an earlier version wrote."""
    record = out / RECORD
    return set(record.read_text(encoding="utf-8").splitlines()) if record.is_file() else set()


def begin_maps(target: Target, endings: Sequence[str], sidecar: Sidecar) -> None:
    """Leave the sidecar of maps that are about to be written; those of another origin go first.

    A kill leaves no map beside a sidecar that is not its own.
    """
    before = Sidecar.read(target.sidecar)
    if before is not None and not before.differs(sidecar):
        sidecar = replace(sidecar, maps=tuple(dict.fromkeys((*sidecar.maps, *before.maps))))
    else:
        for path in (*map(target.file, endings), *_label_map(target, before)):
            path.unlink(missing_ok=True)
    sidecar.write(target.sidecar)
