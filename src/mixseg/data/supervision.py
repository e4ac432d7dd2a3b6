"""What one run may see: its scans by kind of supervision, with the labels that it is allowed and no others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import numpy as np

from mixseg.core.errors import MixsegError, listed
from mixseg.core.types import IGNORE, KINDS, Kind, Labels, Sees, unsearched
from mixseg.data.prepare.store import Prepared, PreparedCase
from mixseg.data.scan import Scan
from mixseg.datasets.split import LEAVE_TEST_OUT, Split, set_n


@dataclass(frozen=True, eq=False)
class Proposals:
    """Masks that another run proposes, to learn from beside the full ones.

    Attributes:
        masks: Case id -> class indices on the prepared grid.
        origin: "methods": of the chain of runs that led here, the oldest first; "checkpoint": hash of the weights.
    """

    masks: Mapping[str, Labels]
    origin: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Data:
    """What a run trains on and is judged by, on the training grid.

    Attributes:
        classes: Names by class index, the background first.
        train: Scans by kind of supervision, with just the labels that the run may see.
        val: Scans with full masks, for choosing hyper-parameters and checkpoints.
        open_test: Gives the test scans with full masks. Nothing else in a run looks at them: it is called where the
            test set is asked for by name.
        hash: Of the prepared arrays.
        protocol: Who is train, val and test, for the report.
        proposals: The masks of some of the scans, if another run proposed them; kept in the run folder.
        plan: Why the training grid is what it is, a sentence each, for the run folder.
        folder: Name of the folder or archive of the scans, not its path: what a report calls them.
        nested: Inner -> outer structure, where masks show that one is a part of another.
    """

    classes: tuple[str, ...]
    train: Mapping[Kind, Sequence[Scan]]
    val: Sequence[Scan] = ()
    open_test: Callable[[], Sequence[Scan]] = tuple
    hash: str = ""
    protocol: Mapping[str, Any] = field(default_factory=dict)
    proposals: Proposals | None = None
    plan: Sequence[str] = ()
    folder: str = ""
    nested: Mapping[str, str] = field(default_factory=dict)

    @property
    def channels(self) -> int:
        """How many channels the images have: the same for every scan."""
        return next(scan.channels for scans in self.train.values() for scan in scans)


def see(
    prepared: Prepared,
    split: Split,
    *,
    sees: Sees = "mixed",
    n: int | None = None,
    ratio: int = 5,
    proposals: Proposals | None = None,
) -> Data:
    """What a run may see of ``prepared``.

    A full mask in which one of the classes to segment was not looked for may hide it in its background: such a scan is
    partly labelled, by its foreground alone.

    Args:
        prepared: Scans with all the labels there are.
        split: Patients by part.
        sees: "mixed": full masks of some, partial labels of others. "full": the fully labelled scans alone. "all-full":
            full masks of all. "unlabeled": the scans that "mixed" sees partial labels of, without them. "proposals":
            these scans with the masks of ``proposals`` as full ones.
        n: Set-N: full masks of the first ``n`` train patients and partial labels of the next ``ratio * n``, whatever
            else there is. ``None``: all train patients, with what each of their scans has.
        ratio: See ``n``.
        proposals: For "proposals": the masks.
    """
    if sees not in get_args(Sees):
        raise MixsegError(
            f"A run cannot see {sees!r}: choose one of {', '.join(get_args(Sees))}.",
            "unknown-name",
            kind="sees",
            name=sees,
        )
    train = _train(prepared, split, n, ratio)
    incomplete = [case for kind in KINDS for case in train[kind] if case.has_full and _gap(prepared, case)]
    if sees == "all-full":
        train = _all_full(train, incomplete)
    full, partial, unlabeled = (
        [_scan(prepared, case, kind, outlines=n is None) for case in train[kind]] for kind in KINDS
    )
    if sees == "mixed" and n is not None:
        _require(train["unlabeled"], lambda case: case.has_partial, f"Set-{n} needs the partial labels of")
    if not full:
        raise _no_full_mask(prepared, incomplete)
    unused: list[str] = []
    if sees in ("full", "all-full"):
        partial, unlabeled, unused = [], [], [case.id for case in incomplete]
    elif sees == "unlabeled":
        partial, unlabeled = (
            [],
            [_scan(prepared, case, "unlabeled") for case in (*train["partial"], *train["unlabeled"])],
        )
    elif sees == "proposals":
        masks = proposals.masks if proposals else {}
        full += [_proposed(prepared, scan, masks) for scan in (*partial, *unlabeled)]
        partial, unlabeled = [], []
    found: dict[Kind, list[Scan]] = {"full": full, "partial": partial, "unlabeled": unlabeled}
    val = _judged_by(prepared, split.val, "val", "validate on fully labelled patients")
    remedy = f"there is nothing to score; {LEAVE_TEST_OUT}"
    return Data(
        classes=prepared.classes,
        train=found,
        val=val,
        open_test=lambda: _judged_by(prepared, split.test, "test", remedy),
        hash=prepared.content,
        protocol=_protocol(prepared, split, found, val, unused, proposals),
        proposals=proposals,
    )


def _no_full_mask(prepared: Prepared, incomplete: Sequence[PreparedCase]) -> MixsegError:
    reason = f" (in {incomplete[0].id} nobody looked for {_gap(prepared, incomplete[0])})" if incomplete else ""
    return MixsegError(
        f"There is no fully labelled scan among the train patients{reason}: outline at least one, or see with "
        "`mixseg inspect` what the labels were taken for.",
        "no-full-masks",
    )


def _protocol(
    prepared: Prepared,
    split: Split,
    train: Mapping[Kind, Sequence[Scan]],
    val: Sequence[Scan],
    unused: Sequence[str],
    proposals: Proposals | None,
) -> dict[str, list[str]]:
    """Who is train, val and test. ``unused`` are train scans in whose full masks a class was not looked for."""
    masks = proposals.masks if proposals else {}
    others = {"proposed": list(masks), "unused": list(unused)}
    judging = {"unscored": list(unscored(prepared, split))}
    return {
        **{kind: [scan.name for scan in scans if scan.name not in masks] for kind, scans in train.items()},
        **{who: names for who, names in others.items() if names},
        **{"val": [scan.name for scan in val], "test patients": list(split.test)},
        **{who: names for who, names in judging.items() if names},
    }


def without_mask(prepared: Prepared, patients: Iterable[str]) -> tuple[str, ...]:
    """Those of ``patients`` who have scans and no full mask among them: they can judge nothing."""
    with_mask = {case.patient: False for case in prepared.cases}
    with_mask |= {case.patient: True for case in prepared.cases if case.has_full}
    return tuple(patient for patient in patients if not with_mask.get(patient, True))


def unscored(prepared: Prepared, split: Split) -> tuple[str, ...]:
    """The patients of val and test without a full mask, and the scans without one of those who have others."""
    judges = (*split.val, *split.test)
    none = without_mask(prepared, judges)
    scans = [case.id for case in prepared.cases if case.patient in set(judges) - set(none) and not case.has_full]
    return (*none, *scans)


def _train(prepared: Prepared, split: Split, n: int | None, ratio: int) -> dict[Kind, list[PreparedCase]]:
    """The train scans by the strongest supervision that the run may see."""
    if n is None:
        scans = _of(prepared, split.train, "train")
        return {kind: [case for case in scans if _kind(prepared, case) == kind] for kind in KINDS}
    roles = set_n(split, n, ratio)
    full, partial = (_of(prepared, patients, f"Set-{n}") for patients in roles)
    _require(full, lambda case: case.has_full, f"Set-{n} needs the full mask of")
    _require_searched(prepared, full, f"Set-{n} needs the full mask of")
    labelled = [case.has_partial or _kind(prepared, case) == "partial" for case in partial]
    return {
        "full": full,
        "partial": [case for case, there in zip(partial, labelled, strict=True) if there],
        "unlabeled": [case for case, there in zip(partial, labelled, strict=True) if not there],
    }


def _gap(prepared: Prepared, case: PreparedCase) -> str:
    """The first of the classes to segment that nobody looked for in ``case``, or ""."""
    return next(iter(unsearched(case.annotated, prepared.classes)), "")


def _kind(prepared: Prepared, case: PreparedCase) -> Kind:
    """The strongest supervision that ``case`` has for the classes to segment."""
    return "partial" if case.has_full and _gap(prepared, case) else case.kind


def _all_full(
    train: dict[Kind, list[PreparedCase]], incomplete: Sequence[PreparedCase]
) -> dict[Kind, list[PreparedCase]]:
    """The same scans, all as fully labelled ones, without those whose masks are incomplete."""
    scans = [case for cases in train.values() for case in cases if case not in incomplete]
    _require(scans, lambda case: case.has_full, "An upper bound needs the full mask of")
    return {"full": scans, "partial": [], "unlabeled": []}


def _judged_by(prepared: Prepared, patients: Sequence[str], part: str, remedy: str) -> list[Scan]:
    """The scans of val or test that have full masks."""
    scans = _of(prepared, patients, part)
    with_mask = [case for case in scans if case.has_full]
    if scans and not with_mask:
        raise MixsegError(
            f"None of the {part} patients ({listed(patients)}) has a full mask: {remedy}.", "no-full-masks", part=part
        )
    for case in with_mask:
        if gap := _gap(prepared, case):
            raise MixsegError(
                f"In {case.id} nobody looked for {gap}, and scores of the {part} scans would take it for background "
                "there: leave the scan out, or the class (--set 'target=[\"...\"]' names the classes to segment).",
                "class-not-searched",
                case=case.id,
            )
    return [_scan(prepared, case, "full") for case in with_mask]


def as_judges(prepared: Prepared, patients: Sequence[str]) -> list[Scan]:
    """The partly labelled scans of ``patients`` with their labels as masks: what is not labelled is not scored."""
    cases = [case for case in _of(prepared, patients, "held out") if _kind(prepared, case) == "partial"]
    scans = [_scan(prepared, case, "partial") for case in cases]
    return [replace(scan, full=scan.partial, partial=None) for scan in scans]


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
            f"{len(wanted) - len(missing)} of them, without {missing[0]}; prepare or pack them too.",
            "patient-missing",
            folder=prepared.folder,
            patient=missing[0],
        )
    return [case for patient in wanted for case in by_patient[patient]]


def _require(cases: Iterable[PreparedCase], holds: Callable[[PreparedCase], bool], sentence: str) -> None:
    lacking = [case.id for case in cases if not holds(case)]
    if lacking:
        raise MixsegError(
            f"{sentence} {lacking[0]}, which has none ({len(lacking)} such scans): label it, or choose others.",
            "labels-missing",
            case=lacking[0],
        )


def _require_searched(prepared: Prepared, cases: Iterable[PreparedCase], sentence: str) -> None:
    lacking = [case for case in cases if _gap(prepared, case)]
    if lacking:
        raise MixsegError(
            f"{sentence} {lacking[0].id}, in which nobody looked for {_gap(prepared, lacking[0])} ({len(lacking)} such "
            "scans): outline it there too, or choose others.",
            "class-not-searched",
            case=lacking[0].id,
        )


def _scan(prepared: Prepared, case: PreparedCase, kind: Kind, *, outlines: bool = True) -> Scan:
    """``case`` with the labels that its kind may show; a map that the run may not see lies nowhere in it."""
    full = prepared.full(case) if kind == "full" and case.has_full else None
    return Scan(
        case.id,
        prepared.image(case),
        full,
        _partial(prepared, case, outlines) if kind != "unlabeled" else None,
        mean=case.mean,
        std=case.std,
        spacing=case.spacing if case.spacing_known else None,
        cropped=prepared.cropped(case) if full is not None and case.cropped_full else None,
        case=case,
    )


def _partial(prepared: Prepared, case: PreparedCase, outlines: bool) -> Labels | None:
    """The partial labels of ``case``.

    If a class was not looked for, the full mask is partial labels, and no label says background, be it drawn or made
    from the mask: it would stand for that class too. Without ``outlines`` other partial labels come before the mask,
    because Set-N hides what its partly labelled patients have beyond those.
    """
    gap = _gap(prepared, case)
    if gap and case.has_full and (outlines or not case.has_partial):
        labels = prepared.full(case)
    elif case.has_partial:
        labels = prepared.partial(case)
    else:
        return None
    return np.where(labels == 0, np.uint8(IGNORE), labels) if gap else labels


def _proposed(prepared: Prepared, scan: Scan, proposals: Mapping[str, Labels]) -> Scan:
    """``scan`` with the proposal for it as its full mask."""
    mask, shape = proposals.get(scan.name), prepared[scan.name].shape
    if mask is None:
        raise MixsegError(
            f"There is no proposal for {scan.name}: predict all partially labelled scans first.",
            "proposal-missing",
            case=scan.name,
        )
    if mask.shape != shape or mask.dtype != np.uint8:
        raise MixsegError(
            f"The proposal for {scan.name} is {mask.dtype} of {mask.shape}, not uint8 of {shape}: "
            "predict on the grid of the prepared scans.",
            "shapes-differ",
            case=scan.name,
            shape=mask.shape,
            expected=shape,
        )
    unknown = np.setdiff1d(mask, [*range(len(prepared.classes)), IGNORE])
    if unknown.size:
        raise MixsegError(
            f"The proposal for {scan.name} holds {unknown[0]}, which is no class: predict it again.",
            "undeclared-label",
            case=scan.name,
            labels=unknown.tolist(),
        )
    return replace(scan, full=mask)
