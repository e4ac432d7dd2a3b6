"""Where the maps of a scan go, and what must not be lost there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mixseg.core.errors import MixsegError, UsageError, known, listed
from mixseg.core.types import ENTROPY, PROBABILITY, SIDECAR, Case
from mixseg.datasets import formats
from mixseg.datasets.formats.label_files import ANY, FORMATS, LabelFormat, check_holds, format_like
from mixseg.evaluation.prediction_files import is_beside


@dataclass(frozen=True)
class Target:
    """The files of one scan's maps, beside each other and called after it.

    Attributes:
        case: The scan; its id may name folders too: "patient 1/T1".
        out: The folder for all scans.
        format: A name in ``FORMATS``.
    """

    case: Case
    out: Path
    format: str = ANY

    @property
    def row(self) -> LabelFormat:
        """How its label map is written."""
        return FORMATS[self.format]

    @property
    def sidecar(self) -> Path:
        """What says how its maps were made."""
        return self.out / f"{self.case.id}{SIDECAR}"

    @property
    def folder(self) -> Path:
        """Where they lie."""
        return self.sidecar.parent

    def file(self, ending: str = "") -> Path:
        """One of its maps, by the ending of its name; that of the label map is ""."""
        return self.out / f"{self.case.id}{ending}{self.row.values if ending else self.row.suffix}"


def targets_of(cases: Sequence[Case], out: Path, format_: str | None, nested: Mapping[str, str]) -> list[Target]:
    """Where the maps of each scan go; without a format, in files of the type of its image.

    Raises:
        MixsegError: The format is unknown, or cannot hold nested structures, or not the label map of an image.
    """
    if format_ is not None:
        known("format", format_, FORMATS)
    found = [Target(case, out, format_ or format_like(case.image[0])) for case in cases]
    for name in {target.format for target in found}:
        check_holds(name, nested=nested)
    for target in found:
        target.row.check(target.file(), target.case.image[0])
    return found


def endings(classes: Sequence[str], *, probabilities: bool, entropy: bool) -> list[str]:
    """Those of the names of the maps of a scan, that of the label map first."""
    return ["", *(f"{PROBABILITY}{name}" for name in classes if probabilities), *([ENTROPY] if entropy else [])]


def check_not_among_images(targets: Sequence[Target], *, many: bool) -> None:
    """Nothing, if no label map takes the place of an image.

    Args:
        targets: Where the maps go.
        many: Whether the images are found in folders, so that label maps beside them would be taken for scans.

    Raises:
        MixsegError: An image would be lost, or lie beside label maps.
    """
    images = {source.path.resolve(): source.path for target in targets for source in target.case.image}
    folders = {path.parent.resolve() for path in images.values()}
    for target in targets:
        if (image := images.get(target.file().resolve())) is not None:
            raise MixsegError(
                f"The label map of {image} would take its place: choose another -o.", "would-overwrite", file=image
            )
        if many and target.folder.resolve() in folders:
            raise MixsegError(
                f"Label maps in {target.folder}, beside their images, would be taken for scans: choose another -o.",
                "output-among-images",
                folder=target.folder,
            )


def left_over(targets: Sequence[Target], ends: Sequence[str]) -> list[str]:
    """One sentence about maps of an earlier prediction of these scans that this one does not replace, if any."""
    old: list[str] = []
    for folder in dict.fromkeys(target.folder for target in targets):
        here = [target for target in targets if target.folder == folder]
        names = {target.sidecar.name.removesuffix(SIDECAR) for target in here}
        replaced = {target.file(ending).name for target in here for ending in ends}
        there = sorted(folder.iterdir()) if folder.is_dir() else []
        maps = [path for path in there if formats.suffix(path) and is_beside(formats.stem(path), names)]
        old += [str(path.relative_to(here[0].out)) for path in maps if path.name not in replaced]
    return [f"Left over in {targets[0].out} from an earlier prediction ({len(old)}): {listed(old)}"] if old else []


def nesting(asked: Sequence[str] | None, known_pairs: Mapping[str, str], classes: Sequence[str]) -> dict[str, str]:
    """Inner -> outer structure, as ``--nested`` asks for it.

    Args:
        asked: ``INNER:OUTER``, each; none at all for those that the run knows; None for no nesting.
        known_pairs: What the run knows.
        classes: Of the run.

    Raises:
        UsageError: A pair is none, names no structure or leads in a circle, or the run knows of none.
    """
    if asked is None:
        return {}
    pairs = dict(_pair(text, classes) for text in asked) or dict(known_pairs)
    if not pairs:
        raise UsageError(
            "The run does not know which structure is inside which: say it as --nested INNER:OUTER, such as "
            f"--nested {classes[-1]}:{classes[1]}.",
            "nesting-unknown",
            classes=list(classes),
        )
    for inner in pairs:
        above, place = {inner}, inner
        while place in pairs:
            place = pairs[place]
            if place in above:
                raise UsageError(
                    f"--nested puts {inner} inside itself: name each structure's next outer one alone.",
                    "nesting-circular",
                    structure=inner,
                )
            above.add(place)
    return pairs


def _pair(text: str, classes: Sequence[str]) -> tuple[str, str]:
    for inner in classes[1:]:  # a name may hold a colon
        outer = text.removeprefix(f"{inner}:")
        if outer != text and outer in classes[1:] and outer != inner:
            return inner, outer
    raise UsageError(
        f"--nested {text!r} is no INNER:OUTER pair of two of these structures: {', '.join(classes[1:])}.",
        "invalid-value",
        flag="--nested",
        value=text,
    )
