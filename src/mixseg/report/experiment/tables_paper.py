"""What the paper printed: ``paper_values.json``, looked up by dataset, experiment, row, column and output."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from mixseg.experiments.plan import Cell, Plan

METRICS = {"dsc": "dsc", "hd95_vox": "hd95"}
"""Our names of scores -> the paper's: DSC in percent, HD95 in voxels."""


@cache
def paper_values() -> Mapping[str, Any]:
    """The numbers of the paper's tables, by ``<dataset>-<experiment>``."""
    content: Mapping[str, Any] = json.loads(
        files("mixseg.experiments").joinpath("paper_values.json").read_text(encoding="utf-8")
    )
    return content


def beside(plan: Plan, cell: Cell, output: str, metric: str) -> float | None:
    """What the paper has for a cell of ``plan``; None where it has nothing, or something about another task."""
    return paper_value(plan.dataset, plan.experiment, cell, output, metric) if plan.as_printed else None


def paper_value(dataset: str, experiment: str, cell: Cell, output: str, metric: str) -> float | None:
    """DSC in percent or HD95 in voxels, as the paper has it; None where it has none."""
    table = paper_values().get(f"{dataset}-{experiment}")
    if table is None or metric not in METRICS:
        return None
    if "rows" in table:  # two weights, each over its values: DSC of the answer alone
        columns = [f"{value:g}" for value in table["columns"]]
        known = metric == "dsc" and output == cell.outputs[0] and cell.row in table["rows"] and cell.column in columns
        return float(table["rows"][cell.row][columns.index(cell.column)]) if known else None
    found = table.get(cell.column, {}).get(cell.row, {})
    # A table without outputs is about the method's answer.
    by_output = {cell.outputs[0]: found} if "dsc" in found else found
    value = by_output.get(output, {}).get(METRICS[metric])
    return None if value is None else float(value)
