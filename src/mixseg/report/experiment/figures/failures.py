"""Where proposals fail: the scans with the worst proposed masks, and what each round of self-training made of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mixseg.core.types import IGNORE, Labels, unsearched
from mixseg.data.prepare.store import Prepared, PreparedCase
from mixseg.evaluation.metrics import dice
from mixseg.inference.report_slices import Plane, planes
from mixseg.report.experiment.figures.drawn import Drawn, by_row, setting
from mixseg.report.experiment.results import Filled, Results
from mixseg.report.figures.pictures import Strip, gallery
from mixseg.report.run_files import RunFiles
from mixseg.training.pseudo_labels import FILE, read_proposals

SHOWN = 4
"""Scans."""
WIDEST = 13.0
"""Inches."""


class Proposed(NamedTuple):
    """The masks that one run learnt from.

    Attributes:
        name: Which round, and who proposed.
        masks: By scan.
    """

    name: str
    masks: Mapping[str, Labels]


def draw(results: Results) -> list[Drawn]:
    """One figure for each setting and first proposer: rows are scans, columns the rounds."""
    drawn = []
    for column, filled in results.columns.items():
        for start, rounds in _chains(filled).items():
            prepared = _find_prepared(rounds[0].runs[0])
            figure = None
            if prepared is not None:
                proposed = [_read(each.runs[0]) for each in rounds]
                strips = failures(prepared, proposed)
                figure = gallery(strips, prepared.classes, widest=WIDEST)
            if figure is not None:
                title = f"Failures among the masks that {start} proposes first, {setting(results, column)}"
                drawn.append(Drawn(f"failures-{start}-{column}", title, figure, CAPTION))
    return drawn


CAPTION = (
    "Training scans without a full mask: the mask that was hidden (truth), and the mask that each round learns from as "
    "if it were true; round 1 learns from what the first run proposes, round 2 from what round 1 proposes, and so on. "
    "Shown are the scans whose first proposals have the lowest DSC, one of each patient, and of each the slice with "
    "most wrong voxels. Coloured: the proposed outline. Thin and white: the truth. Under a panel: DSC of the whole "
    "scan. Partial labels do not correct proposals. First seed."
)


def failures(prepared: Prepared, proposed: Sequence[Proposed]) -> list[Strip]:
    """A row for each of the scans whose first proposals are worst, of those that have a full mask to be judged by."""
    found = {name: prepared[name] for name in proposed[0].masks}
    judged = {
        name: case for name, case in found.items() if case.has_full and not unsearched(case.annotated, prepared.classes)
    }
    scores = {name: _dsc(proposed[0].masks[name], case, prepared) for name, case in judged.items()}
    worst = sorted((name for name in scores if not math.isnan(scores[name])), key=lambda name: scores[name])
    of_patients: dict[str, str] = {}
    for name in worst:
        of_patients.setdefault(prepared[name].patient, name)
    return [_strip(prepared, prepared[name], proposed) for name in list(of_patients.values())[:SHOWN]]


def _strip(prepared: Prepared, case: PreparedCase, proposed: Sequence[Proposed]) -> Strip:
    truth, image = prepared.full(case), prepared.image(case)
    grey = image[:, 0] if prepared.dims == 2 else image[0]
    spacing = case.spacing if case.spacing_known else None
    plane = _worst_plane(truth, proposed[0].masks[case.id], dims=prepared.dims, spacing=spacing)
    held = {each.name: each.masks[case.id] for each in proposed if case.id in each.masks}
    return Strip(
        name=f"{case.id}\nslice {plane.index}",
        image=plane.of(grey),
        truth=plane.of(truth),
        labels={name: plane.of(mask) for name, mask in held.items()},
        notes={
            "truth": "" if _marks(plane.of(truth)) else "nothing to mark here",
            **{name: _note(mask, case, prepared) for name, mask in held.items()},
        },
        pixel=plane.pixel,
    )


def _marks(labels: Labels) -> bool:
    return bool(((labels > 0) & (labels != IGNORE)).any())


def _note(mask: Labels, case: PreparedCase, prepared: Prepared) -> str:
    return f"DSC {100 * _dsc(mask, case, prepared):.1f} %" if mask.any() else "nothing is proposed"


def _worst_plane(truth: Labels, proposal: Labels, *, dims: int, spacing: tuple[float, ...] | None) -> Plane:
    """The slice with most wrong voxels; of a volume, across its last axis."""
    first = planes(truth, proposal, dims=dims, rank="worst", spacing=spacing)[0]
    others = tuple(axis for axis in range(3) if axis != first.axis)
    return replace(first, index=int((truth != proposal).sum(axis=others).argmax()), why="most errors")


def _dsc(mask: Labels, case: PreparedCase, prepared: Prepared) -> float:
    """Mean over the classes that have one."""
    truth = prepared.full(case)
    found = [dice(mask == index, truth == index) for index in range(1, len(prepared.classes))]
    known = [score for score in found if not math.isnan(score)]
    return float(np.mean(known)) if known else math.nan


def _chains(filled: Sequence[Filled]) -> dict[str, list[Filled]]:
    """The rounds that follow from each first proposer, by its method, in order."""
    chains: dict[str, list[Filled]] = {}
    for each in by_row(tuple(filled)).values():
        if each.runs[0].config.method.name == "proposals":
            chains.setdefault(_methods(each.runs[0])[0], []).append(each)
    return {start: sorted(rounds, key=lambda each: len(_methods(each.runs[0]))) for start, rounds in chains.items()}


def _methods(run: RunFiles) -> list[str]:
    """Of the runs that led to this one, the oldest first."""
    return list(run.facts.get("proposals", {}).get("methods", ["?"]))


def _read(run: RunFiles) -> Proposed:
    methods = _methods(run)
    by = methods[0] if len(methods) == 1 else f"round {len(methods) - 1}"
    return Proposed(f"round {len(methods)}, by {by}", read_proposals(run.path / FILE).masks)


def _find_prepared(run: RunFiles) -> Prepared | None:
    """The prepared scans that the run was trained on, beside its folder; None if they are gone."""
    for index in sorted(Path(run.path.parent / ".prepared").glob("*/index*.json")):
        prepared = Prepared(index.parent, index.name)
        if prepared.holds(run.facts.get("data", "")):
            return prepared
    return None
