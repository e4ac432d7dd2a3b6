"""``mixseg evaluate``: label maps against reference masks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro import conf

from mixseg.cli.flags import AS_FOUND, Input, Labels, Layout, Output
from mixseg.core.errors import MixsegError, UsageError
from mixseg.core.messages import result, say

if TYPE_CHECKING:
    from mixseg.core.types import Case


def evaluate(
    *,
    input: Input,  # noqa: A002 - the flag
    references: Annotated[Path, conf.arg(aliases=["-r"], metavar="FOLDER")],
    out: Output,
    dataset: Layout = None,
    labels: Labels = AS_FOUND,
    tolerance: Annotated[float, conf.arg(metavar="MM")] = 2.0,
) -> None:
    """Score label maps against reference masks: DSC, HD95, ASSD, surface Dice, volumes and lesions, per scan and class.

    $ mixseg evaluate -i predictions --references Dataset001_Heart/labelsTs -o scores

    prints a table and writes metrics.csv and nnU-Net's summary.json. A dataset will do as reference as well: its hidden
    or full masks are taken.

    Args:
        input: A folder of label maps named after their scans; or of such folders, one per branch; or a run.
        references: A folder of masks with the same names, or a dataset in any known layout.
        out: The folder for the tables.
        dataset: The layout of a dataset of references; recognised if not given.
        labels: What the ids of the reference masks mean.
        tolerance: Of the normalised surface Dice: by how much borders may differ without being wrong.
    """
    from mixseg.cli.printing import print_list, print_table
    from mixseg.evaluation.evaluate import evaluate as score
    from mixseg.evaluation.pairing import is_run

    if not 0 < tolerance < math.inf:
        raise UsageError(
            f"--tolerance is {tolerance}: give a length in mm above 0.",
            "invalid-value",
            flag="--tolerance",
            value=tolerance,
        )
    if is_run(out):
        raise MixsegError(
            f"{out} is a run, whose metrics.csv would be lost: choose another -o.", "would-overwrite", folder=out
        )
    found = score(input, _references(references, dataset, labels), flags=labels, tolerance_mm=tolerance)
    head, *rows = found.table()
    print_table(rows, head)
    for row in found.rows:
        result({name: value for name, value in vars(row).items() if name != "counts"})
    print_list(found.remarks(), "Remarks:")
    say("\nWritten: " + ", ".join(str(path) for path in found.write(out)))


def _references(folder: Path, dataset: str | None, labels: Labels) -> Path | Sequence[Case]:
    """A folder of masks as it is; a dataset as its cases."""
    from mixseg.datasets import formats, load

    if not folder.is_dir():
        raise MixsegError(
            f"{folder} is no folder: give the folder of reference masks, or a dataset.", "not-a-folder", folder=folder
        )
    if dataset is None and any(formats.suffix(path) for path in folder.iterdir()):
        return folder
    return load(folder, dataset, labels, say)
