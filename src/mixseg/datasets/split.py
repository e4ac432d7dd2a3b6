"""Which patients train, validate and test. The scans of one patient never part."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from mixseg.core.errors import MixsegError, listed
from mixseg.core.files import write_json
from mixseg.core.text_files import read_json
from mixseg.core.types import Case, Kind

SPLITS = ("splits.json", "splits_final.json")
LEAVE_TEST_OUT = "leave the test out (--test, or test= in Python)"
NO_TEST = f'There are no test patients: {LEAVE_TEST_OUT}, or name some in a split file, as "test".'


class Member(Protocol):
    """What a split needs to know of a scan: a Case has it, and so has a prepared one."""

    @property
    def id(self) -> str:
        """Unique in its dataset."""

    @property
    def patient(self) -> str:
        """Whose scan it is."""

    @property
    def kind(self) -> Kind:
        """How it is supervised."""

    @property
    def split(self) -> str:
        """The part that the layout on disk puts it in, or ""."""


AnyMember = TypeVar("AnyMember", bound=Member)


@dataclass(frozen=True)
class Split:
    """Patients by part, in order: Set-N takes the first ones of ``train``."""

    train: tuple[str, ...]
    val: tuple[str, ...] = ()
    test: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        part_of: dict[str, str] = {}
        for part in fields(self):
            for patient in getattr(self, part.name):
                if patient in part_of:
                    raise MixsegError(
                        f"Patient {patient} is in {part_of[patient]} and again in {part.name}: "
                        "a patient belongs to one part of a split, once.",
                        "split-overlap",
                        patient=patient,
                    )
                part_of[patient] = part.name


class Roles(NamedTuple):
    """The patients of a Set-N by what a run may see of them."""

    full: tuple[str, ...]
    partial: tuple[str, ...]


def set_n(split: Split, n: int, ratio: int = 5) -> Roles:
    """The first ``n`` train patients with full masks and the next ``ratio * n`` with partial labels."""
    if n < 1 or ratio < 0:
        raise MixsegError(
            f"Set-{n} with ratio {ratio} makes no sense: n is at least 1, the ratio at least 0.",
            "invalid-value",
            key="set",
            value=n,
        )
    needed = n + ratio * n
    if needed > len(split.train):
        raise MixsegError(
            f"not enough scans: Set-{n} takes {n} fully and {ratio * n} partially labelled patients, "
            f"{needed} in all, and the split has {len(split.train)} train patients.",
            "too-few-patients",
            count=len(split.train),
            needed=needed,
        )
    return Roles(full=split.train[:n], partial=split.train[n:needed])


def read_split(path: Path, cases: Iterable[Member], *, fold: int | None = None, dataset: str = "") -> Split:
    """The split in a JSON file, in any of three forms.

    Args:
        path: nnU-Net's ``splits_final.json``, a list of ``{"train": [...], "val": [...]}`` of case ids; or
            ``{"train": [...], "val": [...], "test": [...]}`` of patients; or one of those per dataset.
        cases: The scans that the ids of nnU-Net's form belong to; those that lie in a test folder become its test part.
        fold: Which entry of nnU-Net's list; the first if not given.
        dataset: Which entry of a file that holds several.
    """
    content = read_json(path)
    if isinstance(content, list):
        return _from_fold(path, content, list(cases), fold or 0)
    if not isinstance(content, dict):
        raise MixsegError(
            f"{path} holds no split: it should be a list of folds or an object with train, val and test.",
            "wrong-content",
            file=path,
        )
    if fold is not None:
        raise MixsegError(
            f"{path} holds one split, so there is no fold {fold}: leave it out, or write folds with "
            f"{_writes_folds(path.parent)}.",
            "unknown-fold",
            file=path,
            fold=fold,
        )
    if "train" not in content:
        content = _of_dataset(path, content, dataset)
    return Split(*(_names(path, content, part) for part in ("train", "val", "test")))


def read_whole_split(path: Path, cases: Sequence[Member], *, fold: int | None = None, dataset: str = "") -> Split:
    """``read_split`` for one who has all scans: a patient of whom there is none is refused."""
    split = read_split(path, cases, fold=fold, dataset=dataset)
    check_patients_known(path, split, cases)
    return split


def split_beside(folder: Path, fold: int | None = None) -> Path | None:
    """The split file among the scans of ``folder``, if any; for a fold, nnU-Net's comes first, which alone has some."""
    names = SPLITS if fold is None else SPLITS[::-1]
    return next((folder / name for name in names if (folder / name).exists()), None)


def with_test_part(folder: Path, cases: Sequence[Case], dataset: str) -> list[Case]:
    """``cases``, with the test patients of the split beside them as if they lay in a test folder: no fold has them."""
    path = split_beside(folder)
    if path is None:
        return list(cases)
    split = read_whole_split(path, cases, dataset=dataset)
    return [replace(case, split="test") if case.patient in split.test else case for case in cases]


def check_patients_known(path: Path, split: Split, cases: Iterable[Member]) -> None:
    """Nothing, or one sentence about a patient of the split in ``path`` of whom ``cases`` has no scan.

    Not for packed scans, which may be those of one Set-N. A test part that lies elsewhere altogether is left alone.
    """
    there = {case.patient for case in cases}
    for part in fields(split):
        names = getattr(split, part.name)
        if part.name != "test" or there & set(names):
            _all_known(path, names, sorted(there), part.name)


def unnamed(path: Path, split: Split, cases: Iterable[Member]) -> str:
    """A sentence about patients of ``cases`` that the split in ``path`` leaves out, or ""."""
    left_out = sorted({case.patient for case in cases} - {*split.train, *split.val, *split.test})
    if not left_out:
        return ""
    who = "1 patient is" if len(left_out) == 1 else f"{len(left_out)} patients are"
    return f"{who} in no part of {path} and not used: {listed(left_out)}."


def write_split(path: Path, split: Split) -> None:
    """Write ``{"train": [...], "val": [...], "test": [...]}`` of patients."""
    write_json(path, {part.name: list(getattr(split, part.name)) for part in fields(split)})


def write_folds(path: Path, folds: Sequence[Split], cases: Iterable[Member]) -> None:
    """Write nnU-Net's ``splits_final.json``: the case ids of each fold's train and val patients (it has no test)."""
    scans = list(cases)
    write_json(path, [{"train": _ids(fold.train, scans), "val": _ids(fold.val, scans)} for fold in folds])


def anyone(_: Member) -> bool:
    """For one who cannot look into masks: each may show a structure."""
    return True


def make_split(
    cases: Iterable[AnyMember],
    *,
    seed: int = 0,
    val: float = 0.1,
    test: float = 0.0,
    shows: Callable[[AnyMember], bool] = anyone,
) -> Split:
    """A split that follows the folders that the scans lie in, and is drawn at random where those say nothing.

    Patients of val and test are drawn from those whose every scan has a full mask, at most half of which leave train.
    Those who show a structure go first, each part taking no more than it leaves: healthy ones can choose no checkpoint.
    Train is shuffled too, the fully labelled patients first, so that Set-N finds its full masks.

    Args:
        cases: Scans of any kind of supervision.
        seed: The same seed and patients give the same split, whatever the order of ``cases``.
        val: The share of the patients to validate on; at least one, if two are fully labelled.
        test: The share of the patients to test on.
        shows: Whether the full mask of a scan holds foreground; asked of as few scans as will do.
    """
    cases = list(cases)
    hints, labelled = by_patient(cases)
    showing = by_any_scan(cases, shows)
    parts: dict[str, list[str]] = {part: [p for p in hints if hints[p] == part] for part in ("train", "val", "test")}
    rng = np.random.default_rng(seed)
    train = [parts["train"][index] for index in rng.permutation(len(parts["train"]))]
    free = [patient for patient in train if patient in labelled]
    spare = len(free) // 2
    for part, share, least in (("test", test, 0), ("val", val, 1)):
        if parts[part]:
            continue
        count = min(max(round(share * len(hints)), least if share > 0 else 0), spare)
        parts[part] = _drawn(free, count, showing)
        free = [patient for patient in free if patient not in parts[part]]
        spare -= count
    taken = {*parts["val"], *parts["test"]}
    train = [patient for patient in train if patient not in taken]
    train.sort(key=lambda patient: patient not in labelled)
    return Split(tuple(train), tuple(parts["val"]), tuple(parts["test"]))


def by_patient(cases: Iterable[Member]) -> tuple[dict[str, str], set[str]]:
    """Patient -> part that its folder says (else train), sorted; and the patients with nothing but full masks."""
    hints: dict[str, str] = {}
    labelled: dict[str, bool] = {}
    for case in sorted(cases, key=lambda case: case.id):
        part = case.split or "train"
        if hints.setdefault(case.patient, part) != part:
            raise MixsegError(
                f"Patient {case.patient} has scans in {hints[case.patient]} and in {part} (case {case.id}): "
                "move them to one of the two.",
                "split-overlap",
                patient=case.patient,
                case=case.id,
            )
        labelled[case.patient] = labelled.get(case.patient, True) and case.kind == "full"
    return dict(sorted(hints.items())), {patient for patient, every in labelled.items() if every}


def by_any_scan(cases: Iterable[AnyMember], shows: Callable[[AnyMember], bool]) -> Callable[[str], bool]:
    """``shows`` of a patient: whether one of the scans does."""
    scans: dict[str, list[AnyMember]] = {}
    for case in sorted(cases, key=lambda case: case.id):
        scans.setdefault(case.patient, []).append(case)
    return lambda patient: any(shows(case) for case in scans[patient])


def _drawn(patients: Sequence[str], count: int, shows: Callable[[str], bool]) -> list[str]:
    """``count`` of ``patients``: the first that show a structure, of whom as many stay, then the first that do not."""
    showing = list(islice(filter(shows, patients), 2 * count))
    drawn = showing[: min(count, len(showing) // 2)]
    others = [patient for patient in patients if patient not in showing]
    return drawn + others[: count - len(drawn)]


def _from_fold(path: Path, folds: list[object], cases: list[Member], fold: int) -> Split:
    if not 0 <= fold < len(folds):
        raise MixsegError(
            f"{path} has {len(folds)} folds, numbered from 0; there is no fold {fold}.",
            "unknown-fold",
            file=path,
            fold=fold,
            folds=len(folds),
        )
    patient_of = {case.id: case.patient for case in cases}
    parts = {}
    for part in ("train", "val"):
        ids = _names(path, folds[fold], part)
        _all_known(path, ids, patient_of, f"{part} of fold {fold}")
        parts[part] = tuple(dict.fromkeys(patient_of[name] for name in ids))
    test = tuple(dict.fromkeys(case.patient for case in cases if case.split == "test"))
    seen = [patient for patient in test if patient in (*parts["train"], *parts["val"])]
    if seen:
        raise MixsegError(
            f"Fold {fold} of {path} holds test patients ({listed(seen)}): remove the file and write folds without "
            f"them, with {_writes_folds(path.parent)}.",
            "split-overlap",
            file=path,
            fold=fold,
            patient=seen[0],
        )
    return Split(parts["train"], parts["val"], test)


def _writes_folds(folder: Path) -> str:
    return shlex.join(["mixseg", "inspect", str(folder), "--write-split", str(folder / SPLITS[1]), "--folds", "5"])


def _all_known(path: Path, names: Iterable[str], there: Iterable[str], part: str) -> None:
    there = dict.fromkeys(there)
    unknown = [name for name in names if name not in there]
    if unknown:
        nearest = "".join(difflib.get_close_matches(unknown[0], there, n=1, cutoff=0))
        raise MixsegError(
            f"{path} names {unknown[0]} in {part}, and there is no scan of it (the nearest name is {nearest}; "
            f"{len(unknown)} unknown in all): correct the file, or add the scans.",
            "unknown-scan",
            file=path,
            part=part,
            name=unknown[0],
        )


def _of_dataset(path: Path, content: dict[str, object], dataset: str) -> object:
    if not dataset and len(content) == 1:
        return next(iter(content.values()))
    if dataset not in content:
        raise MixsegError(
            f"{path} has no split named {dataset!r}: choose one of {', '.join(content) or 'none'}.",
            "unknown-name",
            kind="split",
            name=dataset,
            file=path,
        )
    return content[dataset]


def _names(path: Path, content: object, part: str) -> tuple[str, ...]:
    names = content.get(part, []) if isinstance(content, dict) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise MixsegError(
            f"{path}: {part} is not a list of names; mend the file.", "wrong-content", file=path, key=part
        )
    return tuple(names)


def _ids(patients: tuple[str, ...], cases: list[Member]) -> list[str]:
    return [case.id for patient in patients for case in cases if case.patient == patient]
