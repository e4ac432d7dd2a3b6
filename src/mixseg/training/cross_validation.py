"""Few full masks: all are trained on; trainings without some of the patients say what to expect of new ones."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mixseg.core.errors import enumerated
from mixseg.core.files import write_json
from mixseg.core.messages import say
from mixseg.core.progress import duration
from mixseg.core.text_files import read_json
from mixseg.core.types import Case
from mixseg.data.supervision import Data, as_judges
from mixseg.datasets.contents import shows_foreground
from mixseg.datasets.folds import make_folds, make_stroke_folds
from mixseg.datasets.labels import LabelFlags
from mixseg.datasets.split import Split, by_patient, split_beside
from mixseg.evaluation.metrics import METRICS
from mixseg.evaluation.scores import HELD_OUT, STROKES, Row, read_metrics, summarise, write_metrics
from mixseg.runs.config import Config, flat, settings_of
from mixseg.runs.device import Hardware, on_rank_zero_only, processes_of_its_own
from mixseg.runs.folder import CROSS_VALIDATION, RunFolder
from mixseg.training.assemble import Assembled, assemble, seen_by, settle_batch, settle_largest
from mixseg.training.checks import check_before_reading, unlearnable
from mixseg.training.folder import ScanFolder, for_target, train_on_files, who_trains

FEW = range(3, 8)
"""So many patients with full masks are too few to keep some to validate on, and enough to hold out in turn."""
FEWER = range(1, 3)
"""So many are too few for that too: partial labels are held out, if others have some."""
FOLDS = 5
SHORTER = 3
"""A fold is trained for a third of the steps."""


@dataclass(frozen=True)
class HeldOut:
    """Who is left out in turn.

    Attributes:
        part: What they are scored by: HELD_OUT, their full masks, or STROKES, their partial labels.
        folds: Splits whose val parts they are.
        full: How many patients have nothing but full masks.
    """

    part: str
    folds: Sequence[Split]
    full: int

    @property
    def patients(self) -> int:
        """How many there are in all folds."""
        return sum(len(fold.val) for fold in self.folds)

    @property
    def method(self) -> str:
        """The field's name for it."""
        if self.part == STROKES:
            return "held-out strokes"
        return "leave-one-patient-out" if self.patients == len(self.folds) else "cross-validation"

    def plan(self, steps: int) -> list[str]:
        """Sentences: what is done, and how much longer it takes."""
        count, share = len(self.folds), shorter(steps)
        without = {"leave-one-patient-out": "one of them", "cross-validation": "some of them"}.get(
            self.method, f"some of the {self.patients} who are partly labelled, and who are scored where they are"
        )
        return [
            f"{_patients(self.full)} full masks, too few to keep some to validate on: all are trained on, and the last "
            "checkpoint is the one that counts.",
            f"What to expect is estimated by {self.method}: {count} trainings of {share} steps, each without "
            f"{without}, come before the one of {steps}, {1 + count * share / steps:.1f} times the steps in all; "
            "--no-cross-validation leaves them out.",
        ]


def _patients(count: int) -> str:
    return f"{count} patients have" if count > 1 else "1 patient has"


def train_and_estimate(
    folder: Path,
    out: Path,
    *,
    settings: Mapping[str, Any] | None = None,
    dataset: str | None = None,
    flags: LabelFlags | None = None,
    hardware: Hardware | None = None,
    test: bool = False,
    cross_validation: bool = True,
    cases: Sequence[Case] | None = None,
) -> RunFolder:
    """``train_folder``; where few patients have full masks, none is kept to validate on, and they are held out in turn.

    The run itself then sees all of them. What trainings of a third of the steps without some of them reach on these
    lies in its folder, under ``cross-validation``. Whatever is finished is left as it is, what was stopped goes on.

    Args:
        folder: See ``train_folder``, as for the others.
        out: The run folder.
        settings: Config keys.
        dataset: The layout.
        flags: What label ids mean.
        hardware: Where to compute.
        test: Score the test scans too.
        cross_validation: Whether to train without some of the patients at all: otherwise nothing is estimated.
        cases: What the folder holds, if it was read before.

    Raises:
        MixsegError: The settings suit no scans or not these, or the run folder is another run's.
    """
    hardware, run, settings = hardware or Hardware(), RunFolder(out), flat(settings or {})
    run.check_not_foreign()
    source = ScanFolder(folder, dataset, flags, cases)
    like = next((each for each in (run, _fold(run, 0)) if each.begun), run)
    if like.begun:
        settings = {"validation": like.config.data.validation, **settings}
    with on_rank_zero_only(hardware):
        held_out = who_is_held_out(source, settings, like, hardware)
    if held_out is not None:
        settings = {**settings, "validation": "none"}
    found = assemble(source, settings, run, hardware=hardware, test=test, like=like)
    if held_out is not None:
        with on_rank_zero_only(hardware):
            found = _planned(found, held_out.plan(found.config.training.steps))
        if cross_validation and hardware.nodes == 1:
            _estimate(run, found, held_out, source, hardware)
        else:
            _tell(hardware, "No patient is held out: nothing will say how good the run is.")
    with on_rank_zero_only(hardware):
        say(who_trains(found.data, found.split, source.cases))
    train_on_files(run, found.config, found.data, source.cases, hardware=hardware, test=test)
    return run


def who_is_held_out(
    source: ScanFolder, settings: Mapping[str, Any], like: RunFolder, hardware: Hardware
) -> HeldOut | None:
    """Who is held out in turn; None where a split is known or asked for, or enough patients have full masks.

    Args:
        source: The scans.
        settings: Config keys, without groups.
        like: The run whose settings they are to fit; one that has begun keeps to what it began with.
        hardware: Where it is trained.
    """
    check_before_reading(source.complete(settings), like, hardware)
    given = {**(settings_of(like.config) if like.begun else {}), **settings}
    if any(given.get(key) not in (None, "") for key in ("split", "fold", "set", "proposals_from")):
        return None
    if given.get("validation", "none") != "none" or split_beside(source.folder) is not None:
        return None
    target = tuple(given.get("target") or ())
    cases = for_target(source.cases, target)
    hints, labelled = by_patient(cases)
    full = len([patient for patient in labelled if hints[patient] == "train"])
    if "val" in hints.values():
        return None
    if full in FEW:
        on_disk = {case.id: case for case in source.cases}
        folds = make_folds(cases, count=FOLDS, shows=lambda case: shows_foreground(on_disk[case.id], target))
        return HeldOut(HELD_OUT, folds, full)
    folds = make_stroke_folds(cases, count=FOLDS) if full in FEWER else []
    return HeldOut(STROKES, folds, full) if folds else None


def shorter(steps: int) -> int:
    """The steps of a fold of a run of ``steps``."""
    return math.ceil(steps / SHORTER)


def _fold(run: RunFolder, number: int) -> RunFolder:
    return RunFolder(run.path / CROSS_VALIDATION / f"fold-{number}")


def _planned(found: Assembled, sentences: Sequence[str]) -> Assembled:
    """The same with ``sentences`` in its plan, said aloud; a run that has begun has them already."""
    new = [sentence for sentence in sentences if sentence not in found.data.plan]
    say(*sentences)
    return replace(found, data=replace(found.data, plan=[*found.data.plan, *new]))


def _estimate(run: RunFolder, found: Assembled, held_out: HeldOut, source: ScanFolder, hardware: Hardware) -> None:
    """Train every fold that is not finished, and gather what all of them reached on those whom they left out."""
    config = found.config.changed(steps=shorter(found.config.training.steps))
    done: list[RunFolder] = []
    for number, (split, data) in enumerate(_data_of_folds(found, config, held_out)):
        fold, name = _fold(run, number), f"{held_out.method}, {number + 1} of {len(held_out.folds)}"
        if missing := unlearnable(data):
            _tell(hardware, f"{name}: left out, without {enumerated(split.val, ' and ')} no scan shows {missing[0]}.")
            continue
        done.append(fold)
        if _is_finished(fold, config, data):
            _tell(hardware, f"{name}: finished before")
            continue
        _tell(hardware, f"{name}: without {enumerated(split.val, ' and ')}")
        with processes_of_its_own():
            train_on_files(fold, config, data, source.cases, hardware=hardware)
        _say_rest(fold, len(held_out.folds) - number - 1, found.config.training.steps / config.training.steps)
    _gather(run, done, held_out, config.training.steps)


def _tell(hardware: Hardware, sentence: str) -> None:
    """Say it once, however many processes train together."""
    with on_rank_zero_only(hardware):
        say(sentence)


def _data_of_folds(found: Assembled, config: Config, held_out: HeldOut) -> Iterator[tuple[Split, Data]]:
    """What each fold learns from and is judged by."""
    for split in held_out.folds:
        if held_out.part == HELD_OUT:
            data = seen_by(config, found.prepared, split)
        else:
            data = seen_by(config, found.prepared, replace(split, val=()))
            judges = as_judges(found.prepared, split.val)
            protocol = {**data.protocol, "val": [scan.name for scan in judges]}
            data = replace(data, val=judges, protocol=protocol)
        yield split, replace(data, plan=found.data.plan, folder=found.data.folder)


def _is_finished(fold: RunFolder, config: Config, data: Data) -> bool:
    """Whether there is nothing left to do: processes that train with others must not come together for nothing."""
    if fold.finished is None or not (fold.path / "predictions").is_dir():
        return False
    settled = config.changed(
        batch=settle_batch(config.training.batch, data), largest=settle_largest(config.inference.largest, data)
    )
    return fold.config == settled and fold.facts.get("data") == data.hash


def _say_rest(fold: RunFolder, left: int, times: float) -> None:
    """How long it still takes, from how long a fold took."""
    finished = fold.finished
    seconds = float(finished["seconds"]) if finished else 0.0
    say(f"About {duration(seconds * (left + times))} left in all.")


def _gather(run: RunFolder, folds: Sequence[RunFolder], held_out: HeldOut, steps: int) -> None:
    """Leave the scores of all folds in the folder above them, unless they lie there."""
    rows = [_held_out(row, held_out.part) for fold in folds for row in read_metrics(fold.path / "metrics.csv")]
    rows = [row for row in rows if row.checkpoint == "last"]
    content = {
        "method": held_out.method,
        "folds": len(folds),
        "steps": steps,
        "summary": summarise(rows, intervals=True),
    }
    where = run.path / CROSS_VALIDATION
    if read_json(where / "summary.json", missing_ok=True) != content:
        write_metrics(where / "metrics.csv", rows)
        write_json(where / "summary.json", content)


def _held_out(row: Row, part: str) -> Row:
    """The row as the run quotes it; strokes have no surface to be far from."""
    distances = {} if part == HELD_OUT else {metric: math.nan for metric in METRICS if metric != "dsc"}
    return replace(row, part=part, **distances)  # type: ignore[arg-type]
