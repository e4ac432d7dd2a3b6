"""Whose scans an experiment runs on, and what the paper's experiments on them have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mixseg.core.errors import MixsegError
from mixseg.core.files import replacing_folder
from mixseg.core.messages import say
from mixseg.core.types import Case
from mixseg.datasets import load, phantom, recognise
from mixseg.datasets.labels import LabelFlags
from mixseg.training.folder import sensible_dims

BUILT_IN = "phantom"
PROTOCOLS: dict[str, dict[str, Any]] = {
    "acdc": {"dims": 2, "target": ["LV"], "partial": "erosion-3x3"},
    "la": {"dims": 3, "partial": "erosion-10x10"},
    BUILT_IN: {"dims": 2, "target": ["LV"], "partial": "erosion-3x3"},
}
"""What all runs on a dataset have in common, whatever the preset."""

STRONG: dict[str, dict[str, Any]] = {
    "acdc": {"size": [192, 192], "long_side": 256},
    "la": {"spacing": [1.0, 1.0, 1.0], "patch": [128, 96, 64]},
}
"""And those of the preset ``strong``. Slices as they are, cropped round the centre: no mask of train or val is cut.
Volumes with voxels so large that a patch holds the whole of most scans, much as a plan would choose them."""

MADE_FROM_MASKS = {2: "erosion-3x3", 3: "erosion-10x10"}
"""Partial labels of a folder of scans that has none of its own, by number of axes."""

SLICES = {3: 52, 5: 82, 10: 174}
"""Slices with full masks in ACDC's Set-N. The preset ``paper`` says how many steps Set-3 takes with 8 of them each; the
other settings, and the methods that take fewer a step, pass over theirs as often: 500 times."""
FULL_ROWS = 8

TRAIN, VAL, TEST = 60, 4, 8
"""Patients of the built-in data: Set-10 just fits, as in ACDC."""
SIZE = (64, 64)
MARKER = "splits.json"


@dataclass(frozen=True)
class Scans:
    """The scans of an experiment.

    Attributes:
        dataset: "acdc", "la", "phantom", or the folder's name: which of the paper's tables ours is held against.
        folder: Where they lie.
        layout: How they lie there.
        cases: What they are.
        settings: Config keys that all runs on them have in common.
        as_labelled: Whether the files hold a mixture of labels of their own, which Set-N would hide.
    """

    dataset: str
    folder: Path
    layout: str
    cases: Sequence[Case]
    settings: dict[str, Any]
    as_labelled: bool = False


def find_scans(dataset: str, out: Path, flags: LabelFlags | None = None) -> Scans:
    """The scans that ``--dataset`` names: ``phantom`` is made in ``out/scans``, anything else is a folder."""
    if dataset == BUILT_IN:
        folder = made_in(out)
        if not (folder / MARKER).exists():
            with replacing_folder(folder, marker=MARKER, is_there=(folder / MARKER).exists) as new:
                phantom.write(new, patients=TRAIN + VAL + TEST, val=VAL, test=TEST, size=SIZE)
        return Scans(BUILT_IN, folder, BUILT_IN, load(folder, BUILT_IN), PROTOCOLS[BUILT_IN])
    folder, layout = Path(dataset), layout_of(dataset)
    cases = load(folder, layout, flags, say)
    if layout in PROTOCOLS and layout != BUILT_IN:  # a phantom in a folder is what somebody has made of it
        return Scans(layout, folder, layout, cases, PROTOCOLS[layout])
    dims = sensible_dims(cases)
    drawn = any(case.kind == "partial" for case in cases)
    settings = {"dims": dims, "partial": "drawn" if drawn else MADE_FROM_MASKS[dims]}
    return Scans(folder.resolve().name, folder, layout, cases, settings, as_labelled=drawn)


def strong_grid(dataset: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    """That of ``STRONG``; none for voxels, patches or axes of one's own, or a network that halves it too often."""
    grid, dims = STRONG.get(dataset, {}), PROTOCOLS.get(dataset, {}).get("dims")
    another = {"spacing", "patch"} & asked.keys() or asked.get("dims", dims) != dims
    multiple = 2 ** (asked.get("depth") or 0)
    suits = all(side % multiple == 0 for key in ("size", "patch") for side in grid.get(key, ()))
    return grid if suits and not another else {}


def made_in(out: Path) -> Path:
    """Where the built-in scans of the experiments in ``out`` are made."""
    return out / "scans"


def layout_of(dataset: str) -> str:
    """How the scans that ``--dataset`` names lie; none of them is read."""
    if dataset == BUILT_IN:
        return BUILT_IN
    if not Path(dataset).is_dir():
        raise MixsegError(
            f"{dataset} is no folder here: write --dataset with the path of the folder that holds the scans "
            "(the layouts of acdc and la are recognised), or --dataset phantom for the built-in ones.",
            "not-a-folder",
            folder=dataset,
        )
    return recognise(Path(dataset))


def steps_of(preset: str, dataset: str, n: int | None, steps: int, rows: int) -> int:
    """The steps of Set-N with ``rows`` full slices each, where the preset takes ``steps`` at Set-3.

    All train patients (None) take those of Set-10, and the upper bounds of a set, whose batches are larger, the set's.
    """
    if preset != "paper" or dataset != "acdc":
        return steps
    n = n or 10
    slices = SLICES.get(n, n * SLICES[10] // 10)
    return steps * (slices // min(rows, FULL_ROWS)) // (SLICES[3] // FULL_ROWS)
