"""What one run may see: its scans by kind of supervision, with the labels that it is allowed and no others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from mixseg.data.crop import Places
from mixseg.data.prepared import Prepared, PreparedCase
from mixseg.data.split import Split, set_n
from mixseg.errors import MixsegError
from mixseg.types import IGNORE, Kind, Sees

Labels = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class SeenCase:
    """A prepared scan with the labels that a run may see; a map that it may not see is None and lies nowhere in here.

    Attributes:
        case: The entry of the prepared folder; its ``has_full`` and ``has_partial`` say what is seen here.
        image: ``(K, channels, H, W)`` in 2D, ``(channels, I, J, K)`` in 3D, uint8.
        full: ``case.shape``, or None.
        partial: ``case.shape``, or None.
        beyond: Foreground of the full mask beyond the grid, for scores: see ``Prepared.beyond``.
    """

    case: PreparedCase
    image: Labels
    full: Labels | None
    partial: Labels | None
    beyond: Places | None = None

    @property
    def id(self) -> str:
        """The case's id."""
        return self.case.id

    @property
    def patient(self) -> str:
        """Whose scan it is."""
        return self.case.patient


Seen = tuple[SeenCase, ...]


@dataclass(frozen=True, eq=False)
class View:
    """The scans of one run.

    Attributes:
        full: To train on, with full masks (and partial labels where there are some).
        partial: To train on, with partial labels.
        bare: To train on, without labels.
        val: To choose hyper-parameters and checkpoints on, with full masks.
        classes: Class names by index.
    """

    full: Seen
    partial: Seen
    bare: Seen
    val: Seen
    classes: tuple[str, ...]
    _test: Callable[[], Seen]

    def open_test(self) -> Seen:
        """The test scans with full masks. Nothing else in a run looks at them: call this once per figure."""
        return self._test()


def see(
    prepared: Prepared,
    split: Split,
    *,
    sees: Sees = "mixed",
    n: int | None = None,
    ratio: int = 5,
    proposals: Mapping[str, Labels] | None = None,
) -> View:
    """What a run may see of ``prepared``.

    Args:
        prepared: Scans with all the labels there are.
        split: Patients by part.
        sees: "mixed": full masks of some, partial labels of others. "full": the fully labelled scans alone. "all-full":
            full masks of all. "unlabelled": the scans that "mixed" sees partial labels of, without them. "proposals":
            these scans with the masks of ``proposals`` as full ones.
        n: Set-N: full masks of the first ``n`` train patients and partial labels of the next ``ratio * n``, whatever
            else there is. ``None``: all train patients, with what each of their scans has.
        ratio: See ``n``.
        proposals: For "proposals": case id -> class indices on the prepared grid.
    """
    if sees not in get_args(Sees):
        raise MixsegError(f"A run cannot see {sees!r}: choose one of {', '.join(get_args(Sees))}.")
    train = _train(prepared, split, n, ratio)
    if sees == "all-full":
        train = _all_full(train)
    full, partial, bare = (
        tuple(_seen(prepared, case, kind) for case in train[kind]) for kind in ("full", "partial", "bare")
    )
    if sees == "mixed" and n is not None:
        _require(
            train["partial"] + train["bare"], lambda case: case.has_partial, f"Set-{n} needs the partial labels of"
        )
    if not full:
        raise MixsegError(
            "There is no fully labelled scan among the train patients: outline at least one, or see with "
            "`mixseg inspect` what the labels were taken for."
        )
    if sees in ("full", "all-full"):
        partial, bare = (), ()
    elif sees == "unlabelled":
        partial, bare = (), tuple(_seen(prepared, case, "bare") for case in (*train["partial"], *train["bare"]))
    elif sees == "proposals":
        full += tuple(_proposed(prepared, seen, proposals or {}) for seen in (*partial, *bare))
        partial, bare = (), ()
    val = _judged_by(prepared, split.val, "val", "validate on fully labelled patients")
    remedy = "there is nothing to score; leave --test out"
    return View(full, partial, bare, val, prepared.classes, lambda: _judged_by(prepared, split.test, "test", remedy))


def _train(prepared: Prepared, split: Split, n: int | None, ratio: int) -> dict[Kind, list[PreparedCase]]:
    """The train scans by the strongest supervision that the run may see."""
    if n is None:
        scans = _of(prepared, split.train, "train")
        return {kind: [case for case in scans if case.kind == kind] for kind in ("full", "partial", "bare")}
    roles = set_n(split, n, ratio)
    full, partial = (_of(prepared, patients, f"Set-{n}") for patients in roles)
    _require(full, lambda case: case.has_full, f"Set-{n} needs the full mask of")
    return {
        "full": full,
        "partial": [case for case in partial if case.has_partial],
        "bare": [case for case in partial if not case.has_partial],
    }


def _all_full(train: dict[Kind, list[PreparedCase]]) -> dict[Kind, list[PreparedCase]]:
    """The same scans, all as fully labelled ones."""
    scans = [case for cases in train.values() for case in cases]
    _require(scans, lambda case: case.has_full, "An upper bound needs the full mask of")
    return {"full": scans, "partial": [], "bare": []}


def _judged_by(prepared: Prepared, patients: Sequence[str], part: str, remedy: str) -> Seen:
    """The scans of val or test that have full masks."""
    scans = _of(prepared, patients, part)
    outlined = [case for case in scans if case.has_full]
    if scans and not outlined:
        some = ", ".join(patients[:3])
        raise MixsegError(f"None of the {part} patients ({some}, ...) has a full mask: {remedy}.")
    return tuple(_seen(prepared, case, "full") for case in outlined)


def _of(prepared: Prepared, patients: Iterable[str], what: str) -> list[PreparedCase]:
    """The scans of ``patients``, in their order; all of them must be there."""
    by_patient: dict[str, list[PreparedCase]] = {}
    for case in prepared.cases:
        by_patient.setdefault(case.patient, []).append(case)
    wanted = list(patients)
    missing = [patient for patient in wanted if patient not in by_patient]
    if missing:
        raise MixsegError(
            f"not enough scans: {what} takes {len(wanted)} patients and {prepared.folder} holds "
            f"{len(wanted) - len(missing)} of them, without {missing[0]}; prepare or pack them too."
        )
    return [case for patient in wanted for case in by_patient[patient]]


def _require(cases: Iterable[PreparedCase], holds: Callable[[PreparedCase], bool], sentence: str) -> None:
    lacking = [case.id for case in cases if not holds(case)]
    if lacking:
        raise MixsegError(
            f"{sentence} {lacking[0]}, which has none ({len(lacking)} such scans): label it, or choose others."
        )


def _seen(prepared: Prepared, case: PreparedCase, kind: Kind) -> SeenCase:
    """``case`` with the labels that its kind may show."""
    full = prepared.full(case) if kind == "full" and case.has_full else None
    partial = prepared.partial(case) if kind != "bare" and case.has_partial else None
    shown = replace(case, has_full=full is not None, has_partial=partial is not None)
    beyond = prepared.beyond(case) if full is not None and case.lost else None
    return SeenCase(shown, prepared.image(case), full, partial, beyond)


def _proposed(prepared: Prepared, seen: SeenCase, proposals: Mapping[str, Labels]) -> SeenCase:
    """``seen`` with the proposal for it as its full mask."""
    mask = proposals.get(seen.id)
    if mask is None:
        raise MixsegError(f"There is no proposal for {seen.id}: predict all partially labelled scans first.")
    if mask.shape != seen.case.shape or mask.dtype != np.uint8:
        raise MixsegError(
            f"The proposal for {seen.id} is {mask.dtype} of {mask.shape}, not uint8 of {seen.case.shape}: "
            "predict on the grid of the prepared scans."
        )
    unknown = np.setdiff1d(mask, [*range(len(prepared.classes)), IGNORE])
    if unknown.size:
        raise MixsegError(f"The proposal for {seen.id} holds {unknown[0]}, which is no class: predict it again.")
    return SeenCase(replace(seen.case, has_full=True), seen.image, mask, seen.partial)
