"""Which file is the prediction of which case, and what the ids in it mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, TypedDict

from mixseg.core.errors import MixsegError
from mixseg.core.progress import track
from mixseg.core.text_files import read_json
from mixseg.core.types import CLASSES, IGNORE, Case, Source
from mixseg.datasets import formats, labels
from mixseg.datasets.layouts import nnunet, nnunet_json
from mixseg.evaluation.prediction_files import (
    Output,
    by_case,
    grid_of,
    is_beside,
    label_maps,
    outputs,
    overlapping,
    paths_of,
)
from mixseg.evaluation.scores import read_metrics


@dataclass(frozen=True)
class Reference:
    """What one case is judged by; the fields are those of ``Case``, and the share of the mask that is unlabeled.

    Where nobody says whose scan it is, ``patient`` is "". ``names`` are what else its prediction may be called,
    ``grid`` the files of the DICOM series that both lie on.
    """

    case: str
    mask: Source
    classes: tuple[str, ...]
    annotated: tuple[str, ...] | None = None
    part: str = ""
    unlabeled: float = 0.0
    patient: str = ""
    names: tuple[str, ...] = ()
    grid: tuple[Path, ...] = ()

    @property
    def looked_for(self) -> tuple[str, ...]:
        """The classes that it can judge."""
        return self.classes if self.annotated is None else self.annotated


class References(NamedTuple):
    """All references, what the ids of predictions mean beside them, and what was decided about ids."""

    each: list[Reference]
    ids: Mapping[int, int]
    meaning: str = ""

    def source(self, path: Path, truth: Reference) -> Source:
        """One prediction, of ``truth``: segments go by name, since their numbers differ from file to file.

        Raises:
            MixsegError: A segment that overlaps others is none of the classes.
        """
        grid = truth.grid if formats.is_dicom(path) else ()
        if formats.suffix(path) not in formats.SEGMENTS and not formats.is_dicom(path):
            return Source((path,), ids=self.ids)
        found = {number: _index(name, self.each[0].classes) for number, name in formats.segment_names(path).items()}
        # A segment of another name is left out, and so refused if anything is painted with it.
        places = {number: place for number, place in found.items() if place is not None}
        return overlapping(path, places) or Source((path,), ids={0: 0} | places, grid=grid)


@dataclass(frozen=True)
class Job:
    """One prediction and its reference."""

    output: Output
    prediction: Source
    reference: Reference


class Matched(NamedTuple):
    """The pairs; predictions that are missing, as paths without a suffix; files without a reference."""

    jobs: list[Job]
    missing: list[Path]
    unmatched: list[Path]


def of_cases(cases: Sequence[Case]) -> References:
    """The hidden or full mask of each case that has one; predictions hold class indices, or the masks' own ids.

    The latter only where the two do not contradict each other: see ``check_one_meaning``.
    """
    found = [
        Reference(
            case.id,
            mask,
            case.classes,
            case.annotated,
            case.split,
            patient=case.patient,
            names=paths_of(case),
            grid=grid_of(case),
        )
        for case in cases
        if (mask := case.hidden or case.full) is not None
    ]
    if not found:
        raise MixsegError("None of the cases has a complete mask: give a folder of reference masks.", "no-full-masks")
    indices = {index: index for index in range(max(len(one.classes) for one in found))}
    return References(found, {**own_ids(found), **indices})


def own_ids(references: Sequence[Reference]) -> dict[int, int]:
    """Id -> class index, as the masks have them."""
    ids: dict[int, int] = {}
    for one in references:
        ids |= {value: index for value, index in (one.mask.ids or {}).items() if index != IGNORE}
    return ids


def check_one_meaning(predictions: Path, truths: References) -> None:
    """Nothing, or one sentence where a number in label maps of unknown origin may be an id or a class index."""
    classes, ids = truths.each[0].classes, own_ids(truths.each)
    twice = next((value for value in sorted(ids) if ids[value] not in (0, value) and value < len(classes)), None)
    if twice is not None:
        raise MixsegError(
            f"{twice} in {predictions} may be {classes[ids[twice]]}, whose id it is in the masks, or "
            f"{classes[twice]}, the class of that number: to score label maps with the ids of the masks, give the "
            f"folder of masks as reference; those of mixseg lie beside a {CLASSES}.",
            "label-ambiguous",
            folder=predictions,
            label=twice,
        )


def of_folder(
    folder: Path, predictions: Path, flags: labels.LabelFlags | None, predicted: Sequence[str] = ()
) -> References:
    """The masks of a folder; predictions hold the same ids. Where nobody names them, ``predicted`` may."""
    files = label_maps(folder)
    if not files:
        raise MixsegError(
            f"{folder} holds no label map: give the folder of reference masks.", "no-label-maps", folder=folder
        )
    places = (place / nnunet_json.NAME for place in (folder, folder.parent, predictions))
    declared = next((path for path in places if path.is_file()), None)
    declaration = _declared_by_segments(folder, files.values()) if declared is None else nnunet_json.read(declared)
    with ThreadPoolExecutor() as pool:
        reading = pool.map(lambda path: nnunet.count_declared(path, declaration), files.values())
        each_of = list(track(reading, "reading references", total=len(files)))
    counts: Counter[int] = Counter()
    for found in each_of:
        counts.update(found)
    names = declaration.names or _named(counts, flags, predicted or _one_segment(predictions))
    decision = labels.detect(str(folder), counts, names=names, ignore=declaration.ignore, flags=flags, files=each_of)
    ids = {value: index for value, index in decision.ids.items() if index != IGNORE}
    if declared is None and declaration.names:
        ids = {0: 0}  # the numbers of segments are ours: no prediction was made with them
    if len(decision.classes) == 2:
        ids.setdefault(1, 1)  # our own predictions of one structure, whatever its id is in the masks
    each = [
        Reference(
            case,
            mask,
            decision.classes,
            declaration.annotated.get(case),
            unlabeled=_unlabeled(found, decision),
            patient=declaration.patients.get(case, ""),
        )
        for (case, path), found in zip(files.items(), each_of, strict=True)
        if (mask := nnunet.label_source(path, decision.ids_in(found), declaration)) is not None
    ]
    if not each:
        raise MixsegError(
            f"{folder} holds empty segmentations alone: give the folder of reference masks.",
            "no-label-maps",
            folder=folder,
        )
    return References(each, ids, decision.sentence)


def _unlabeled(found: Mapping[int, int], decision: labels.Decision) -> float:
    """The share of the voxels of a label map that have no label."""
    ids = decision.ids_in(found)
    return sum(count for value, count in found.items() if ids.get(value) == IGNORE) / max(1, sum(found.values()))


def _declared_by_segments(folder: Path, files: Collection[Path]) -> nnunet_json.Description:
    """What nobody declared but the names of segments say: each is a class. Nothing where there are no segments."""
    segments = [path for path in files if formats.suffix(path) in formats.SEGMENTS]
    if segments and len(segments) < len(files):
        raise MixsegError(
            f"{folder} holds segments, which have names, beside label maps, which have ids: say in a dataset.json "
            "beside them which id is which.",
            "formats-mixed",
            folder=folder,
        )
    found = {name.lower(): name for path in segments for name in formats.segment_names(path).values()}
    names = {0: "background"} | dict(enumerate(found.values(), start=1)) if found else {}
    ignore = next((value for value, name in names.items() if name.lower() == "ignore"), None)
    return nnunet_json.Description({value: name for value, name in names.items() if value != ignore}, ignore)


def _one_segment(predictions: Path) -> list[str]:
    """The classes of predictions that are segments of one name; of several nobody knows which id would be theirs."""
    files = [path for folder in outputs(predictions).values() for path in label_maps(folder).values()]
    names = {name for path in files for name in formats.segment_names(path).values()}
    return (
        ["background", *names]
        if len(names) == 1 and all(formats.suffix(path) in formats.SEGMENTS for path in files)
        else []
    )


def _named(counts: Mapping[int, int], flags: labels.LabelFlags | None, predicted: Sequence[str]) -> dict[int, str]:
    """A name for each id of masks that nobody declared; none where the rule for binary masks applies."""
    found = sorted(set(counts) - set(labels.PADDING) - {0})
    classes = set(found) - ({flags.unlabeled, flags.background, flags.scribble_background} if flags else set())
    # A mask of 0 and 1 does not say which of several structures it outlines.
    if predicted and classes <= set(range(len(predicted))) and (classes != {1} or len(predicted) == 2):
        return dict(enumerate(predicted))
    return {0: "background"} | {value: f"class {value}" for value in found} if len(found) > 1 else {}


def by_name(predicted: Sequence[str], truths: References) -> References:
    """``truths`` with the classes that a run of ours predicted, found by name: it may have had some of them alone."""
    if not predicted:
        return truths
    known = truths.each[0].classes
    found = [place for name in predicted[1:] if (place := _index(name, known)) is not None]
    sides = f"The predictions are of {', '.join(predicted[1:])} and the references of {', '.join(known[1:])}"
    if len(set(found)) == len(predicted) - 1:
        wanted = {known[place] for place in found}
        each = [replace(one, annotated=tuple(name for name in one.looked_for if name in wanted)) for one in truths.each]
        return References(each, dict(enumerate([0, *found])), truths.meaning)
    if not found and len(predicted) == len(known):
        declaration = f"{sides}, no name is in both: they were paired in this order."
        return References(
            truths.each, {index: index for index in range(len(known))}, f"{truths.meaning} {declaration}".strip()
        )
    raise MixsegError(
        f"{sides}: call them alike in a dataset.json beside the masks, or give the dataset folder itself as reference.",
        "classes-differ",
        classes=list(predicted),
        expected=list(known),
    )


def _index(name: str, classes: Sequence[str]) -> int | None:
    """The place of a class, whatever the case of its letters; None if there is none of this name."""
    places = {known.lower(): index for index, known in enumerate(classes)}
    places |= {known: index for index, known in enumerate(classes)}
    return places.get(name, places.get(name.lower()))


class _Named(TypedDict, total=False):
    classes: list[str]


def predicted_classes(predictions: Path) -> list[str]:
    """Names by index, as ``mixseg predict`` or the run left them with the label maps; none if nobody did."""
    if (predictions / CLASSES).is_file():
        return list(read_json(predictions / CLASSES, list[str]))
    run = _run_of(predictions)
    return [] if run is None else list(read_json(run / "environment.json", _Named).get("classes", []))


def by_part(predictions: Path, truths: References) -> References:
    """``truths`` with the parts of the split that they are in by the scores of the run that predicted them."""
    run = _run_of(predictions)
    if run is None or not (run / "metrics.csv").is_file():
        return truths
    own = predictions.resolve().relative_to(run.resolve()).parts
    if own and own[0] != "predictions":  # somebody else's, which only lie there
        return truths
    parts = {row.case: row.part for row in read_metrics(run / "metrics.csv")}
    return truths._replace(each=[replace(one, part=parts.get(one.case, one.part)) for one in truths.each])


def _run_of(predictions: Path) -> Path | None:
    """The run of ours that predictions lie in, if they do."""
    folders = [predictions, *predictions.resolve().parents[:3]]  # RUN/predictions/CHECKPOINT/OUTPUT
    return next((folder for folder in folders if is_run(folder)), None)


def is_run(folder: Path) -> bool:
    """Whether a training began here. ``RunFolder`` knows more, and needs torch."""
    return (folder / "environment.json").is_file() and (folder / "config.json").is_file()


def match(predictions: Path, truths: References, ids: Mapping[int, int] | None = None) -> Matched:
    """Predictions and references with the same name, for every output in the folder; ``ids`` where the caller knows."""
    jobs, missing, unmatched = Matched([], [], [])
    for output, folder in outputs(predictions).items():
        files = label_maps(folder)
        named = by_case(files, {truth.case: truth.names for truth in truths.each})
        used = set(named.values())
        unmatched += [path for name, path in files.items() if name not in used and not is_beside(name, files)]
        missing += [folder / truth.case for truth in truths.each if truth.case not in named]
        for truth in truths.each:
            if truth.case in named:
                path = files[named[truth.case]]
                jobs.append(Job(output, truths.source(path, truth) if ids is None else Source((path,), ids=ids), truth))
    return Matched(jobs, missing, unmatched)
