"""Label maps for the scans of a folder that are not finished: what was drawn stays, the rest is proposed."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mixseg.annotate.constraints import read_drawn
from mixseg.annotate.corrections import find_corrections, forget_others, keep_copy
from mixseg.annotate.refinement import CORRECTED, DRAWN, PROPOSED, REACH_MM, REFINED, Completed, complete
from mixseg.annotate.trust import agreement, soft_dice, worst
from mixseg.core.errors import MixsegError
from mixseg.core.files import replacing, sweep, write_json
from mixseg.core.messages import result, say
from mixseg.core.progress import Progress
from mixseg.core.types import CLASSES, Case, Device
from mixseg.data.scan import Scan
from mixseg.datasets import formats, read_table
from mixseg.datasets.formats.label_files import FORMATS, Segmented
from mixseg.datasets.labels import LabelFlags
from mixseg.inference.answer import read_image, show_progress
from mixseg.inference.folder import check_all_done
from mixseg.inference.predictor import Predictor
from mixseg.inference.sidecar import REMEDY, Sidecar, about
from mixseg.inference.targets import Target, check_not_among_images, targets_of
from mixseg.inference.volumes import volumes_ml, write_volumes
from mixseg.methods.outputs import branches
from mixseg.runs.model_file import trained_at

PROVENANCE, CONFIDENCE = "_provenance", "_confidence"
ORIGINS = {PROPOSED: "proposed", REFINED: "refined", DRAWN: "drawn", CORRECTED: "corrected"}
TRUST = "trust.csv"


class Trusted(NamedTuple):
    """How far the label map of one structure can be trusted: see ``annotate.trust``."""

    scan: str
    structure: str
    soft_dice: float
    agreement: float


@dataclass
class Completion:
    """What completes the scans of a folder.

    Attributes:
        predictor: Who proposes.
        reach: How far strokes speak for their surroundings, in mm.
    """

    predictor: Predictor
    reach: float = REACH_MM

    @property
    def classes(self) -> Sequence[str]:
        """Names by index, the background first."""
        return self.predictor.classes

    def complete(self, target: Target, bar: Progress) -> list[Trusted]:
        """Write the label map of one scan; returns how far it can be trusted.

        Raises:
            MixsegError: Its files cannot be read, or contradict each other.
        """
        predictor, case = self.predictor, target.case
        drawn = read_drawn(case, self.classes)
        before = find_corrections(target, self.classes)
        if before is not None:
            corrected = before.changed | _corrected_before(target, before.labels.shape)
            drawn = drawn.with_corrections(before.labels, corrected)
        native = read_image(case, grey=predictor.config.data.prepare_options.grey_range)
        scan = predictor.prepare(native)
        unit = "slices" if predictor.config.data.dims == 2 else "windows"
        wanted = [predictor.answer, *(name for name in branches(predictor.method.outputs) if name != predictor.answer)]
        probs = predictor.probabilities_on_source(
            scan, outputs=wanted, on_progress=partial(show_progress, bar, case.id, unit)
        )
        found = complete(
            probs[predictor.answer],
            native.image,
            drawn,
            spacing=native.header.spacing,
            single=predictor.config.inference.largest or (),
            reach=self.reach,
        )
        self._write(target, scan, found)
        others = [predictor.decided(of) for name, of in probs.items() if name != predictor.answer]
        return self._trust(case, found, probs[predictor.answer], others)

    def _write(self, target: Target, scan: Scan, found: Completed) -> None:
        """The maps of a scan after what there is to say about them."""
        maps: dict[str, NDArray[Any]] = {
            "": found.labels,
            PROVENANCE: found.provenance,
            CONFIDENCE: found.confidence,
        }
        volumes = volumes_ml(found.labels, self.classes, scan.placed, {})
        sidecar = about(target, self.predictor.origin, maps=list(maps), volumes=volumes, nested={})
        counts = {
            name: {
                origin: int(((found.labels == index) & (found.provenance == code)).sum())
                for code, origin in ORIGINS.items()
            }
            for index, name in enumerate(self.classes)
            if index
        }
        copy = keep_copy(target, found.labels)
        replace(sidecar, provenance=counts).write(target.sidecar)
        image = target.case.image[0]
        for ending in (PROVENANCE, CONFIDENCE):
            formats.write(target.file(ending), maps[ending], like=image)
        target.row.write(target.file(), Segmented(found.labels, self.classes, image))
        forget_others(target, copy)

    def _trust(
        self, case: Case, found: Completed, probs: NDArray[Any], others: Sequence[NDArray[Any]]
    ) -> list[Trusted]:
        own = soft_dice(probs, found.labels)
        agreed = [agreement(found.labels, other, len(self.classes)) for other in others]
        each = [np.mean([of[index] for of in agreed]) if agreed else np.nan for index in range(len(own))]
        return [
            Trusted(case.id, name, soft, float(agrees))
            for name, soft, agrees in zip(self.classes[1:], own, each, strict=True)
        ]


def complete_folder(
    scans: Path,
    run: Path,
    out: Path,
    *,
    dataset: str | None = None,
    flags: LabelFlags | None = None,
    format: str | None = None,  # noqa: A002 - the flag
    checkpoint: Literal["best", "last"] | None = None,
    reach: float = REACH_MM,
    device: Device = "auto",
) -> list[Trusted]:
    """Write a label map for each scan of ``scans`` that is not fully annotated; returns how far they can be trusted.

    What was drawn stays to the voxel, and so does what was corrected in the label maps of an earlier call.

    Args:
        scans: A folder in any known layout, labels included.
        run: A run folder, or a model file.
        out: Gets the label maps, and ``trust.csv``, the least trusted first.
        dataset: The layout; recognised if not given.
        flags: What label ids mean.
        format: A name in ``FORMATS``; None takes the type of file that a scan's own labels have, or else most labels.
        checkpoint: Which weights; None is the best ones if there are any, else the last ones.
        reach: How far strokes speak for their surroundings, in mm along the image; 0 pastes them in.
        device: Where to compute.

    Raises:
        MixsegError: There is nothing to finish, or a label map would be lost; or scans could not be completed.
    """
    source = trained_at(run)
    table = read_table(scans, dataset, flags)
    table.check_sure()
    cases = [case for case in table.cases if case.kind != "full"]
    if not cases:
        raise MixsegError(
            f"{scans} has nothing left to finish: all {len(table.cases)} scans are fully annotated.",
            "nothing-to-complete",
            folder=scans,
        )
    targets = _targets(cases, table.cases, out, format)
    check_not_among_images(targets, many=True)
    for target in targets:
        _check_ours(target)
    predictor = Predictor.of(source, device=device, checkpoint=checkpoint)
    say(f"{len(cases)} of {len(table.cases)} scans are not finished; their label maps go to {out}.")
    for place in dict.fromkeys(target.folder for target in targets):
        sweep(place)
    write_json(out / CLASSES, list(predictor.classes))
    return _complete_all(Completion(predictor, reach), targets, out)


def _complete_all(job: Completion, targets: Sequence[Target], out: Path) -> list[Trusted]:
    """The label maps of all scans that can be completed.

    Raises:
        SomeFailedError: There are others.
    """
    found, bad = list[Trusted](), list[str]()
    with Progress("completing", total=len(targets)) as bar:
        for target in targets:
            try:
                trusted = job.complete(target, bar)
            except MixsegError as error:
                bad.append(str(error))
                result({"scan": target.case.id, "error": error.described})
            else:
                found += trusted
                each = {one.structure: one._asdict() for one in trusted}
                result({"scan": target.case.id, "file": str(target.file()), "structures": each})
            bar.step(target.case.id)
    if found:
        write_volumes(out)
        found = least_trusted_first(found)
        _write_trust(out / TRUST, found)
    check_all_done(bad, len(targets), done="scans completed", again="run the command again")
    return found


def least_trusted_first(found: Sequence[Trusted]) -> list[Trusted]:
    """By the worst structure of each scan, its structures in their order."""
    of_scan: dict[str, list[Trusted]] = {}
    for each in found:
        of_scan.setdefault(each.scan, []).append(each)
    order = sorted(of_scan.values(), key=lambda own: worst([each.soft_dice for each in own]))
    return [each for own in order for each in own]


def _write_trust(path: Path, found: Sequence[Trusted]) -> None:
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(Trusted._fields)
        table.writerows((each.scan, each.structure, _text(each.soft_dice), _text(each.agreement)) for each in found)


def _text(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.4f}"


def _targets(cases: Sequence[Case], all_cases: Sequence[Case], out: Path, asked: str | None) -> list[Target]:
    """Where the maps go, in the type of file that is drawn with."""
    if asked is not None:
        return targets_of(cases, out, asked, {})
    types = [kind for case in all_cases if (kind := _drawn_in(case))]
    usual = max(dict.fromkeys(types), key=types.count) if types else None
    return [targets_of([case], out, _drawn_in(case) or usual, {})[0] for case in cases]


def _drawn_in(case: Case) -> str | None:
    """The format that the labels of a scan have, if it is one that can be written."""
    source = case.partial or case.full
    if source is None or len(source.files) > 1:
        return None
    name = source.path.name.lower()
    return next((kind for kind in ("seg.nrrd", *FORMATS) if name.endswith(FORMATS[kind].suffix)), None)


def _check_ours(target: Target) -> None:
    """Nothing, if the label map of a scan is absent or was proposed here.

    Raises:
        MixsegError: It would be lost.
    """
    beside = Sidecar.read(target.sidecar)
    if target.file().exists() and (beside is None or not beside.provenance):
        raise MixsegError(
            f"{target.file()} would be overwritten, and mixseg complete did not write it: {REMEDY}",
            "would-overwrite",
            file=target.file(),
        )


def _corrected_before(target: Target, shape: tuple[int, ...]) -> NDArray[Any]:
    """Where the proposal before had been corrected already: no other file holds that."""
    path = target.file(PROVENANCE)
    if not path.exists():
        return np.zeros(shape, bool)
    array = formats.read(path).array
    return np.asarray(array == CORRECTED) if array.shape == shape else np.zeros(shape, bool)
