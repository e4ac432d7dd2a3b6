"""What a folder holds as lines of text, for a terminal and for a page."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence

from mixseg.core.errors import listed
from mixseg.core.types import Case, Source
from mixseg.datasets.layouts.table import ScanRow, ScanTable
from mixseg.report.inspection.scan import LabelMap, ScanReport

Row = tuple[str, ...]


MOST = 60
"""From so many scans on, the table names those without labels in a line."""


def summary(table: ScanTable, scans: Sequence[ScanReport], problems: int) -> list[Row]:
    """(what, answer) lines about a whole folder."""
    cases = [one.case for one in scans]
    unsure = {row.id for row in table.unsure}
    patients = len({case.patient for case in cases})
    channels = sorted({len(case.image) for case in cases})
    splits = Counter(case.split for case in cases if case.split)
    lines = [
        ("layout", table.layout),
        ("scans", f"{len(cases)} of {patients} patient{'s' * (patients != 1)}"),
        *supervision([case for case in cases if case.id not in unsure]),
        ("finished or strokes?", f"{len(unsure)} {_scans(len(unsure))} unclear") if unsure else None,
        ("channels", ", ".join(map(str, channels))) if channels != [1] else None,
        ("folders say", ", ".join(f"{part}: {count}" for part, count in splits.items())) if splits else None,
        *_geometry(scans),
        ("overlaps", f"a voxel of several is {' before '.join(table.priority)}") if table.priority else None,
        ("bad files", str(problems)),
    ]
    return [line for line in lines if line]


def _scans(count: int) -> str:
    return "scan is" if count == 1 else "scans are"


def understood(table: ScanTable) -> list[Row]:
    """A line per scan with its files, how they were drawn and why that is thought, the head first."""
    if not any(row.structures for row in table.rows) and not table.unplaced:
        return []
    head = ("scan", "image", "labels", "kind", "structures", "why")
    rows = [row for row in table.rows if len(table.rows) < MOST or row.labels or row.problem]
    lines = [_understood(row) for row in rows]
    root = f"{table.folder}{os.sep}"
    if len(rows) < len(table.rows):
        lines.append((f"{len(table.rows) - len(rows)} more", "", "", "unlabeled", "", "no labels"))
    strange = [("", each.file.name, "", "not read", "", each.sentence) for each in table.unplaced]
    return [head, *(tuple(cell.replace(root, "") for cell in line) for line in (*lines, *strange))]


def _understood(row: ScanRow) -> Row:
    files = listed([_name(source) for source in row.case.image]), listed([path.name for path in row.labels])
    states: dict[str, list[str]] = {}
    for name, reading in row.structures.items():
        states.setdefault(reading.state + ("" if reading.sure else "?"), []).append(name)
    said = "; ".join(f"{', '.join(names)} {state}" for state, names in states.items()) if row.labels else ""
    telling = sorted(row.structures.items(), key=lambda pair: (pair[1].sure, pair[1].state != "strokes"))
    grounds = [f"{name}: {reading.why}" for name, reading in telling[:1] if reading.why and row.labels]
    return row.id, *files, row.kind, said, row.problem or next(iter(grounds), row.why)


def _name(source: Source) -> str:
    """Of a file, or of the folder of slices, which are called by numbers."""
    count, path = len(source.files), source.path
    return path.name if count == 1 else f"{path.parent.name} ({count} files)"


def _geometry(scans: Sequence[ScanReport]) -> list[Row]:
    geometries = [one.geometry for one in scans if one.geometry is not None]
    if not geometries:
        return []
    sizes = [_span(axis, "g") for axis in zip(*(geometry.shape for geometry in geometries), strict=True)]
    known = [geometry for geometry in geometries if geometry.spacing_known]
    spacings = [_span(axis, ".4g") for axis in zip(*(geometry.spacing for geometry in known), strict=True)]
    codes = Counter(geometry.orientation for geometry in known)
    return [
        ("size", " x ".join(sizes) + " voxels"),
        ("voxel", " x ".join(spacings) + " mm" if known else "size not known"),
        *([("orientation", ", ".join(f"{code}: {count}" for code, count in codes.items()))] if codes else []),
    ]


def classes(scans: Sequence[ScanReport]) -> list[Row]:
    """How often each class occurs, the head first: in how many scans, and its share of the labelled voxels."""
    head = ("class", "in full masks", "share", "in partial labels", "share")
    maps = ([one.full for one in scans if one.full], [one.partial for one in scans if one.partial])
    if not any(maps):
        return [head]
    names = scans[0].case.classes
    rows = [(name, *(cell for of in maps for cell in _class_cells(of, index))) for index, name in enumerate(names)]
    return [head, *rows, ("labelled, of all voxels", *(cell for of in maps for cell in _labelled_cells(of)))]


def scans(scans: Sequence[ScanReport]) -> list[Row]:
    """A line per scan, the head first."""
    head = ("scan", "patient", "supervision", "part", "size", "voxel mm", "full mask", "partial labels", "problems")
    return [head, *(_scan_row(one) for one in scans)]


def kind_in_words(case: Case) -> str:
    """How a scan is supervised, for a reader."""
    if case.full is None:
        return case.kind
    words = "full" if case.kind == "full" else f"full for {', '.join(case.annotated or ()) or 'no class'} only"
    return f"{words} and partial" if case.partial is not None else words


def supervision(cases: Iterable[Case]) -> list[Row]:
    """How many scans are supervised in which way."""
    cases = list(cases)
    kinds = Counter(case.kind for case in cases)
    both = sum(case.kind == "full" and case.partial is not None for case in cases)
    some = sum(case.kind != "full" and case.full is not None for case in cases)
    hidden = sum(case.hidden is not None for case in cases)
    return [
        ("full masks", f"{kinds['full']}" + (f", {both} of them with partial labels too" if both else "")),
        *([("full masks of some classes", f"{some}, which training takes for partial labels")] if some else []),
        ("only partial labels", str(kinds["partial"] - some)),
        ("no labels", str(kinds["unlabeled"])),
        *([("hidden references", f"{hidden}, for evaluation only")] if hidden else []),
    ]


def _class_cells(maps: Sequence[LabelMap], index: int) -> Row:
    if not maps:
        return "-", "-"
    labelled = sum(one.labelled for one in maps)
    share = sum(one.counts.get(index, 0) for one in maps) / labelled if labelled else 0.0
    return str(sum(index in one.counts for one in maps)), f"{100 * share:.3g} %"


def _labelled_cells(maps: Sequence[LabelMap]) -> Row:
    if not maps:
        return "-", "-"
    share = sum(one.labelled for one in maps) / sum(one.voxels for one in maps)
    return str(len(maps)), f"{100 * share:.3g} %"


def _scan_row(one: ScanReport) -> Row:
    case, geometry = one.case, one.geometry
    size = " x ".join(map(str, geometry.shape)) if geometry else ""
    voxel = " x ".join(f"{side:.4g}" for side in geometry.spacing) if geometry and geometry.spacing_known else ""
    labels = (_contents(labels, case) for labels in (one.full, one.partial))
    return case.id, case.patient, kind_in_words(case), case.split, size, voxel, *labels, " ".join(one.problems)


def _contents(labels: LabelMap | None, case: Case) -> str:
    """What a label map holds, in words: "RV 1.2 %, LV 2 %"."""
    if labels is None:
        return ""
    shares = (
        f"{case.classes[index]} {100 * count / labels.voxels:.2g} %" for index, count in sorted(labels.counts.items())
    )
    return ", ".join(shares) or "nothing"


def _span(values: Iterable[float], form: str) -> str:
    ordered = sorted(values)
    low, high = format(ordered[0], form), format(ordered[-1], form)
    return low if low == high else f"{low} to {high}"
