"""How sure the students of kl and of kl-ent are, voxel by voxel, on the same scans."""

from __future__ import annotations

import numpy as np

from mixseg.inference.report_slices import Example
from mixseg.report.experiment.figures.drawn import Drawn, by_row, setting
from mixseg.report.experiment.figures.scans import CHOSEN, common_planes, place_name
from mixseg.report.experiment.results import Filled, Results
from mixseg.report.figures.maps import MapStrip, probability_maps
from mixseg.report.figures.pictures import Strip

METHODS = ("kl", "kl-ent")
UNSURE = (26, 229)
"""Of 255: a voxel between 0.1 and 0.9 is called undecided."""


def draw(results: Results) -> list[Drawn]:
    """For the first setting in which both have runs that kept the same scans."""
    for column, filled in results.columns.items():
        rows = by_row(filled)
        if not set(METHODS) <= set(rows):
            continue
        kept = {name: common_planes(rows[name].runs[0]) for name in METHODS}
        shared = [key for key in kept["kl"] if key in kept["kl-ent"]]
        strips = [_strip({name: kept[name][key] for name in METHODS}, rows) for key in shared]
        if strips:
            title = f"Probability maps of kl and kl-ent, {setting(results, column)}"
            return [Drawn("probabilities", title, probability_maps(strips, "probability of the structure"), CAPTION)]
    return []


CAPTION = (
    "Probability that the student gives to the structure (to anything but background): black is 0, white is 1, grey "
    "is undecided; the thin line is the border of the truth. kl is trained without the entropy term, kl-ent with it. "
    f"Under each map: the share of its slice whose probability lies between 0.1 and 0.9. {CHOSEN}"
)


def _strip(kept: dict[str, Example], rows: dict[str, Filled]) -> MapStrip:
    maps = {name: example.foreground for name, example in kept.items() if example.foreground is not None}
    example = kept["kl-ent"]
    name = place_name(example, rows["kl-ent"].runs[0].config.data.dims)
    notes = {name: f"{100 * _unsure(each):.1f} % undecided" for name, each in maps.items()}
    strip = Strip(name, example.image, example.truth, labels={}, notes=notes, pixel=example.plane.pixel)
    return MapStrip(strip, maps)


def _unsure(probability: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> float:
    low, high = UNSURE
    return float(((probability > low) & (probability < high)).mean())
