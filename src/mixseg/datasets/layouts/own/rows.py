"""Label maps with their readings -> the case that training reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mixseg.core.types import IGNORE, Case, Source
from mixseg.datasets.layouts.own.labellings import BACKGROUND, UNLABELED
from mixseg.datasets.layouts.own.readings import Read
from mixseg.datasets.layouts.own.scans import Scan
from mixseg.datasets.layouts.table import LOOKED_FOR, Reading, ScanRow


def row_of(scan: Scan, maps: Sequence[Read], classes: tuple[str, ...], why: str) -> tuple[ScanRow, list[Read]]:
    """The row of a scan, and the label maps that are not used for it: broken ones, and a second of the same."""
    bad = next((each for each in maps if each.problem), None)
    good = [each for each in maps if not each.problem and not _empty(each)]
    full = next((each for each in good if not _strokes(each)), None)
    partial = next((each for each in good if _strokes(each)), None)
    used = [each for each in (full, partial) if each is not None]
    case = Case(scan.id, scan.patient, tuple(image.source for image in scan.images), classes=classes)
    if full is not None:
        case = _with_masks(case, full)
    if partial is not None:
        case = _with_strokes(case, partial, alone=full is None)
    readings: Mapping[str, Reading] = used[0].readings if used else maps[0].readings if maps else {}
    background = next((value for each in used for value in _background(each)), None)
    grounds = "; ".join(filter(None, (scan.why, why, *(each.labelling.why for each in used))))
    problem = scan.problem or (bad.problem if bad is not None and not used else "")
    left = [each for each in maps if each not in used and not _empty(each) and (used or not each.problem)]
    return ScanRow(case, readings, background, grounds, problem), left


def _strokes(each: Read) -> bool:
    return each.unlabeled or any(reading.state == "strokes" for reading in each.readings.values())


def _empty(each: Read) -> bool:
    """Whether nothing is known from it: nothing painted, and nothing looked for."""
    return not each.problem and all(reading.state == "untouched" for reading in each.readings.values())


def _ids(each: Read, classes: Sequence[str], *, zero: int) -> dict[int, int]:
    """The meaning of each id, where 0 means ``zero``."""
    meanings = {name: index for index, name in enumerate(classes)} | {BACKGROUND: 0, UNLABELED: IGNORE}
    return {0: zero, **{value: meanings[name] for value, name in each.labelling.names.items()}}


def _source(each: Read, ids: Mapping[int, int]) -> Source:
    return replace(each.labelling.source, ids=ids)


def _with_masks(case: Case, each: Read) -> Case:
    """A map in which nothing is strokes: a full mask of the structures that were looked for."""
    known = tuple(name for name, reading in each.readings.items() if reading.state in LOOKED_FOR)
    source = _source(each, _ids(each, case.classes, zero=0))
    return replace(case, full=source, annotated=None if len(known) == len(each.readings) else known)


def _with_strokes(case: Case, each: Read, *, alone: bool) -> Case:
    """A map in which something is strokes: what is painted is known, and nothing else.

    Where no background is painted, what is finished is a mask of these structures alone: it is full for whoever
    segments no others, and labels the foreground for anybody else.
    """
    known = tuple(name for name, reading in each.readings.items() if reading.state in LOOKED_FOR)
    finished = any(reading.state == "finished" for reading in each.readings.values())
    if alone and finished and not each.background and not each.unlabeled:
        return replace(case, full=_source(each, _ids(each, case.classes, zero=0)), annotated=known)
    partial = _source(each, _ids(each, case.classes, zero=0 if each.unlabeled else IGNORE))
    unnamed = each.labelling.declares and any(name not in each.labelling.names.values() for name in each.readings)
    named = tuple(name for name in each.readings if name in each.labelling.names.values())
    return replace(case, partial=partial, annotated=named if alone and unnamed else case.annotated)


def _background(each: Read) -> list[int]:
    """The ids of painted background, where the file has some of its own."""
    if not each.background or each.labelling.layers:
        return []
    return [value for value, name in each.labelling.names.items() if name == BACKGROUND]
