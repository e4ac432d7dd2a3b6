"""The scans that figures show: the same for every run, because their names and not their scores chose them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mixseg.inference.report_slices import Example
from mixseg.report.experiment.results import Filled
from mixseg.report.figures.pictures import Strip
from mixseg.report.run_files import RunFiles, dsc_by_case
from mixseg.report.run_report import where

SLICES, VOLUMES = 3, 1
"""So many scans are shown: stacks by one slice each, volumes by three planes."""

CHOSEN = (
    "The scans were chosen by their names, not by their scores (of volumes, three planes through the structure's "
    "centre); first seed, last checkpoint, training grid."
)
"""Said under every picture."""

Resources = tuple[str, int, int]
"""Case, axis and index of a plane."""


def common_planes(run: RunFiles) -> dict[Resources, Example]:
    """The planes of the scans that all runs on one split have in common, as ``run`` kept them."""
    kept = [example for example in run.examples if example.rank == "common"]
    cases = list(dict.fromkeys(example.case for example in kept))[: SLICES if run.config.data.dims == 2 else VOLUMES]
    return {(each.case, each.plane.axis, each.plane.index): each for each in kept if each.case in cases}


def place_name(example: Example, dims: int) -> str:
    """Scan and plane, on two lines."""
    return f"{example.case}\n{where(example, dims).split(',')[0]}"


def rows_of_methods(named: Mapping[str, Filled], part: str) -> list[Strip]:
    """A row for each common plane: image, truth, and the answer of each method (first seed), with its DSC under it."""
    runs = {name: each.runs[0] for name, each in named.items()}
    planes = next((found for run in runs.values() if (found := common_planes(run))), {})
    dims = next(iter(runs.values())).config.data.dims
    scored = {name: dsc_by_case(run.chosen(part=part, branch=named[name].answer)) for name, run in runs.items()}
    return [
        Strip(
            name=place_name(example, dims),
            image=example.image,
            truth=example.truth,
            labels={name: run.labels_on(example, named[name].answer) for name, run in runs.items()},
            notes=_notes(example, scored, first=_first_of_its_scan(example, list(planes.values()))),
            pixel=example.plane.pixel,
        )
        for example in planes.values()
    ]


def _first_of_its_scan(example: Example, everyone: Sequence[Example]) -> bool:
    return next(other for other in everyone if other.case == example.case) is example


def _notes(example: Example, scored: Mapping[str, Mapping[str, float]], *, first: bool) -> dict[str, str]:
    """DSC of the whole scan, said once."""
    if not first:
        return {}
    return {name: f"DSC {100 * of[example.case]:.1f} %" for name, of in scored.items() if example.case in of}
