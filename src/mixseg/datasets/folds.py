"""Folds: splits of the same patients whose val parts take turns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from mixseg.core.errors import MixsegError
from mixseg.core.progress import track
from mixseg.datasets.split import AnyMember, Split, anyone, by_any_scan, by_patient


def make_folds(
    cases: Iterable[AnyMember], *, count: int = 5, seed: int = 0, shows: Callable[[AnyMember], bool] = anyone
) -> list[Split]:
    """Folds whose val parts are disjoint and together hold every patient with nothing but full masks.

    Patients whose folder says val or test stay there, out of every fold's train and val part. With fewer such patients
    than ``count`` each has a fold of its own.

    Args:
        cases: Scans of any kind of supervision.
        count: How many.
        seed: The same seed and patients give the same folds, whatever the order of ``cases``.
        shows: Whether the full mask of a scan holds foreground: patients with such masks are dealt out first.
    """
    if count < 2:
        raise MixsegError(
            f"{count} folds would not take turns to validate: ask for two or more.",
            "invalid-value",
            key="folds",
            value=count,
        )
    cases = list(cases)
    hints, labelled = by_patient(cases)
    showing = by_any_scan(cases, shows)
    ours = [patient for patient in hints if hints[patient] == "train"]
    test = tuple(patient for patient in hints if hints[patient] == "test")
    shuffled = [ours[index] for index in np.random.default_rng(seed).permutation(len(ours))]
    shuffled.sort(key=lambda patient: patient not in labelled)
    full = [patient for patient in shuffled if patient in labelled]
    count = min(count, len(full))
    if count < 2:
        raise MixsegError(
            f"{len(full)} patients have nothing but full masks: folds need two to validate on in turn.",
            "too-few-patients",
            count=len(full),
            needed=2,
        )
    with ThreadPoolExecutor() as pool:  # decompressing, the slow part, runs outside the interpreter lock
        shown = dict(zip(full, track(pool.map(showing, full), "reading masks", total=len(full)), strict=True))
    full.sort(key=lambda patient: not shown[patient])
    return _in_turn(full, count, shuffled, test)


def make_stroke_folds(cases: Iterable[AnyMember], *, count: int = 5, seed: int = 0) -> list[Split]:
    """Folds whose val parts are disjoint and together hold every patient of train with a partly labelled scan.

    For those who have next to no full masks: partial labels judge where they are. There is no fold with fewer than two
    such patients.

    Args:
        cases: Scans of any kind of supervision.
        count: How many; not more than there are such patients.
        seed: See ``make_folds``.
    """
    cases = list(cases)
    hints, labelled = by_patient(cases)
    ours = [patient for patient in hints if hints[patient] == "train"]
    test = tuple(patient for patient in hints if hints[patient] == "test")
    shuffled = [ours[index] for index in np.random.default_rng(seed).permutation(len(ours))]
    shuffled.sort(key=lambda patient: patient not in labelled)
    partly = {case.patient for case in cases if case.kind == "partial"} - labelled
    held_out = [patient for patient in shuffled if patient in partly]
    return _in_turn(held_out, min(count, len(held_out)), shuffled, test) if len(held_out) > 1 else []


def _in_turn(judges: Sequence[str], count: int, everyone: Sequence[str], test: tuple[str, ...]) -> list[Split]:
    """``count`` splits of ``everyone`` in which the ``judges`` validate in turn."""
    parts = [tuple(judges[number::count]) for number in range(count)]
    return [Split(tuple(p for p in everyone if p not in part), part, test) for part in parts]


def make_fold(cases: Iterable[AnyMember], number: int, *, shows: Callable[[AnyMember], bool] = anyone) -> Split:
    """One of the folds that ``make_folds`` draws."""
    folds = make_folds(cases, shows=shows)
    if number >= len(folds):
        raise MixsegError(
            f"There are {len(folds)} folds of these scans, numbered from 0; there is no fold {number}.",
            "unknown-fold",
            fold=number,
            folds=len(folds),
        )
    return folds[number]
