"""experiment.json: the cells of a table and the runs that fill them, settled before the first of them starts.

An experiment's folder is ``OUT/NAME``; the runs lie in ``OUT/runs``, which all experiments of ``OUT`` share.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mixseg.core.errors import MixsegError
from mixseg.core.files import write_json
from mixseg.core.schema import checked
from mixseg.core.text_files import read_json

FILE = "experiment.json"
RUNS = "runs"
FORMAT = 1
NOT_ENOUGH = "not enough scans"


@dataclass(frozen=True)
class Cell:
    """What is asked for one row and column.

    Attributes:
        row: The row's label; where the paper has it, the key in paper_values.json.
        column: "set-3", "all", or the label of another column; as in paper_values.json too.
        outputs: The outputs to report, the method's answer first.
        runs: Seed -> name of the run, in ``OUT/runs``. Empty if ``missing``.
        series: The curve that it belongs to, or "".
        x: Where it lies on the curve's axis, if that is known.
        missing: Why there can be no run ("not enough scans"), or "".
        budget: What the partial labels of the train scans cost: "voxels" and "strokes"; empty where nobody asks.
    """

    row: str
    column: str
    outputs: tuple[str, ...]
    runs: Mapping[int, str] = field(default_factory=dict)
    series: str = ""
    x: float | None = None
    missing: str = ""
    budget: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class PlannedRun:
    """One run.

    Attributes:
        name: Its folder in ``OUT/runs``; says what differs from the preset's plain run, and so is the same in every
            experiment that takes it.
        settings: The config keys that it is trained with.
        steps: How many it takes.
        needs: The name of the run whose proposals it is fed, or "".
    """

    name: str
    settings: Mapping[str, Any]
    steps: int
    needs: str = ""


@dataclass(frozen=True)
class Plan:
    """One experiment on one dataset.

    Attributes:
        experiment: A name of EXPERIMENTS, or that of a comparison of one's own.
        title: What its table is called.
        dataset: "acdc", "la", "phantom", or the name of a folder: ``<dataset>-<experiment>`` is the paper's table.
        scans: The folder of scans.
        layout: How they lie there.
        split: The file that says who is train, val and test; "" for the one beside the scans.
        preset: Where settings come from.
        quick: Whether it is a trial of the machinery, whose figures mean little.
        test: Whether the test scans are scored; else the validation scans alone.
        seeds: Of every cell.
        varies: Head of the first column.
        columns: What tells the other columns apart.
        axis: What ``x`` counts, or "".
        measured: Whether its figures are measured (complexity.json beside) and not trained.
        cells: In the order of the table.
        runs: In an order in which each comes after what it needs.
        settings: Config keys that the user gave for all runs, but the split.
        labels: What the user said about the ids of label maps: fields of LabelFlags.
        as_printed: Whether the paper's figures on this dataset are about the same structure and kind of label.
        words: How the command line asks for it, where that is not its name.
    """

    experiment: str
    title: str
    dataset: str
    scans: str
    layout: str
    split: str
    preset: str
    quick: bool
    test: bool
    seeds: tuple[int, ...]
    varies: str
    columns: str
    axis: str
    measured: bool
    cells: tuple[Cell, ...]
    runs: tuple[PlannedRun, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, Any] = field(default_factory=dict)
    as_printed: bool = True
    words: tuple[str, ...] = ()


def write_plan(out: Path, plan: Plan) -> Path:
    """Write ``out/NAME/experiment.json``; returns the experiment's folder."""
    folder = out / plan.experiment
    write_json(folder / FILE, {"format": FORMAT, **dataclasses.asdict(plan)})
    return folder


def read_plan(folder: Path) -> Plan:
    """The plan in an experiment's folder."""
    path = folder / FILE
    if not path.exists():
        raise MixsegError(
            f"{folder} holds no experiment (no {FILE}): name OUT/NAME of `mixseg experiment NAME -o OUT`.",
            "not-an-experiment",
            folder=folder,
        )
    content = dict(read_json(path, dict[str, Any]))
    if content.pop("format", None) != FORMAT:
        raise MixsegError(
            f"{path} is of another version: repeat `mixseg experiment`, which writes it anew.",
            "other-version",
            file=path,
        )
    checked(content, Plan, path)
    cells = [
        Cell(**{**cell, "outputs": tuple(cell["outputs"]), "runs": {int(s): n for s, n in cell["runs"].items()}})
        for cell in content.pop("cells")
    ]
    runs = [PlannedRun(**run) for run in content.pop("runs")]
    lists = {key: tuple(content[key]) for key in ("seeds", "words") if key in content}
    return Plan(**{**content, **lists, "cells": tuple(cells), "runs": tuple(runs)})


def left_out(before: Plan, now: Plan) -> int:
    """How many runs of an earlier plan of the experiment a narrower one does not show."""
    return len({run.name for run in before.runs} - {run.name for run in now.runs})


def is_experiment(folder: Path) -> bool:
    """Whether ``folder`` is that of an experiment."""
    return (folder / FILE).exists()


def experiments_in(out: Path) -> list[Path]:
    """The folders of all experiments of ``out``."""
    return sorted(path.parent for path in out.glob(f"*/{FILE}"))


def run_path(folder: Path, name: str) -> Path:
    """Where the run ``name`` of the experiment in ``folder`` lies."""
    return folder.parent / RUNS / name


def in_order(runs: Sequence[PlannedRun]) -> list[PlannedRun]:
    """The runs, each once, those that others need first."""
    by_name = {run.name: run for run in runs}
    ordered: dict[str, PlannedRun] = {}

    def add(run: PlannedRun) -> None:
        if run.needs and run.needs not in ordered:
            add(by_name[run.needs])
        ordered[run.name] = run

    for run in runs:
        add(run)
    return list(ordered.values())
