"""The language in which experiments are written down: rows, each a way to train, over the settings Set-N."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Recipe:
    """A way to train, whatever the dataset, the Set-N and the seed.

    Attributes:
        method: A row of METHODS.
        changes: Config keys that differ from the preset's.
        source: For the method proposals: how the run is trained that proposes the masks.
    """

    method: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    source: Recipe | None = None

    @property
    def depth(self) -> int:
        """How many runs come before this one."""
        return 0 if self.source is None else 1 + self.source.depth

    @property
    def root(self) -> Recipe:
        """The recipe that the chain of proposals begins with: this one, if it needs no other."""
        return self if self.source is None else self.source.root


@dataclass(frozen=True)
class Row:
    """One row of a table, or one point of a curve.

    Attributes:
        label: What it is called; where the paper has it, the key in paper_values.json.
        recipe: How it is trained.
        shown: How many of the method's outputs are reported, its answer first.
        column: Of a table whose columns are no settings (such as glmi-weights), which column; else "".
        series: The curve that a point belongs to, where there are several.
        x: Where the point lies on its axis.
    """

    label: str
    recipe: Recipe
    shown: int = 1
    column: str = ""
    series: str = ""
    x: float | None = None


@dataclass(frozen=True)
class Experiment:
    """One table or figure.

    Attributes:
        name: What it is asked for by; ``<dataset>-<name>`` is its table in paper_values.json, if the paper has it.
        title: What the table is called.
        about: One clause for the list of experiments.
        rows: See Row. None for an experiment that is measured, not trained.
        varies: What tells the rows apart: the head of the first column.
        columns: What tells the columns apart.
        sets: The N of Set-N that it is run at.
        axis: What ``x`` of the rows counts; "" for a table that is no curve.
        counts_labels: Whether the partial labels of each cell are counted: voxels and strokes.
        measured: Whether it trains nothing: its figures come from ``experiments/complexity.py``.
        words: How the command line asks for it, where that is not its name.
    """

    name: str
    title: str
    about: str
    rows: tuple[Row, ...] = ()
    varies: str = "method"
    columns: str = "setting"
    sets: tuple[int, ...] = (3, 5, 10)
    axis: str = ""
    counts_labels: bool = False
    measured: bool = False
    words: tuple[str, ...] = ()
