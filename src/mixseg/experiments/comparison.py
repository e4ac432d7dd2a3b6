"""Experiments that nobody has named: methods times values of config keys, from flags or from a TOML file."""

from __future__ import annotations

import itertools
import math
import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mixseg.core.errors import MixsegError, did_you_mean
from mixseg.data.prepare.build import digest
from mixseg.experiments.grid import Experiment, Recipe, Row
from mixseg.experiments.paper import EXPERIMENTS
from mixseg.experiments.plan import RUNS
from mixseg.methods import METHODS
from mixseg.runs.config import flat
from mixseg.runs.typed_json import build, merged

Grid = Mapping[str, Sequence[Any]]
"""Values by config key, such as ``{"lr": [1e-3, 3e-4], "weights.distill": [10, 50]}``: every combination is a row."""

SETS = (3,)
LONGEST = 60
"""Letters of a folder's name."""


@dataclass(frozen=True)
class Comparison:
    """What is compared, before a run is planned.

    Attributes:
        name: Of the experiment and of its folder.
        methods: Rows of METHODS, each with every combination of ``grid``.
        grid: See Grid.
        rows: Further ones, written out.
        title: What its table is called.
        seeds: Where the file names some.
        sets: The N of Set-N.
        preset: Where the file names one.
        settings: Config keys of every run.
        words: How the command line asks for it.
    """

    name: str
    methods: tuple[str, ...] = ()
    grid: Grid = field(default_factory=dict)
    rows: tuple[Row, ...] = ()
    title: str = ""
    seeds: tuple[int, ...] | None = None
    sets: tuple[int, ...] | None = None
    preset: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    words: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """How many rows there are; none is made for it."""
        return len(self.rows) + len(self.methods) * math.prod(len(values) for values in self.grid.values())

    def experiment(self) -> Experiment:
        """The same in the language of all experiments."""
        rows = (
            *self.rows,
            *(
                Row(_label(method, chosen), Recipe(method, _settings(chosen)))
                for method in self.methods
                for chosen in _combinations(self.grid)
            ),
        )
        twice = next((label for label, count in Counter(row.label for row in rows).items() if count > 1), None)
        if twice:
            raise MixsegError(
                f"Two rows of {self.name} are called {twice!r}: name one otherwise.",
                "duplicate-name",
                kind="row",
                name=twice,
            )
        title = self.title or f"Comparison of {', '.join(dict.fromkeys(row.recipe.method for row in rows))}"
        return Experiment(self.name, title, title, rows, sets=self.sets or SETS, words=self.words)


def from_grid(methods: Sequence[str], grid: Grid, words: Sequence[str] = ()) -> Comparison:
    """Every method with every combination of values; its name says what is compared.

    Raises:
        MixsegError: A method is unknown, or a key.
    """
    for method in methods:
        _check_method(method, "--methods")
    _check_grid(grid, "--set")
    name = "_".join(re.sub(r"[^\w.+-]+", "-", word) for word in ("-".join(methods), *grid))
    if grid or len(name) > LONGEST:  # other values are another comparison, with a folder of its own
        name = f"{name[:LONGEST]}_{digest(name, sorted(grid.items()))[:6]}"
    elif name in EXPERIMENTS:
        name = f"of_{name}"
    return Comparison(name, tuple(dict.fromkeys(methods)), grid, words=tuple(words))


@dataclass(frozen=True)
class RowFile:
    """A row as a file writes it: a method, what differs from the preset, and what it is called."""

    method: str = ""
    name: str = ""
    settings: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class ComparisonFile:
    """The keys of a TOML file. Values in ``grid`` are lists; its ``method`` is a list of methods."""

    title: str = ""
    seeds: tuple[int, ...] | None = None
    sets: tuple[int, ...] | None = None
    preset: str | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    grid: Mapping[str, object] = field(default_factory=dict)
    rows: tuple[RowFile, ...] = ()


def read_comparison(path: Path) -> Comparison:
    """The comparison that a TOML file describes: docs/how-to/experiments.md has one.

    Raises:
        MixsegError: It cannot be read, or a key or a method in it is unknown.
    """
    content: ComparisonFile = build(ComparisonFile, _toml(path), str(path))
    grid = {key: value if isinstance(value, list) else [value] for key, value in content.grid.items()}
    methods = tuple(grid.pop("method", ("kl-ent",) if grid else ()))
    for method in (*methods, *(row.method for row in content.rows)):
        _check_method(method, str(path))
    _check_grid(grid, str(path))
    if not methods and not content.rows:
        raise MixsegError(
            f"{path} compares nothing: give it a [grid] with method = [...], or [[rows]], each with a method.",
            "nothing-to-compare",
            file=path,
        )
    _check_name(path)
    rows = tuple(
        Row(
            each.name or _label(each.method, tuple(each.settings.items())),
            Recipe(each.method, flat(each.settings, str(path))),
        )
        for each in content.rows
    )
    return Comparison(
        name=path.stem,
        methods=methods,
        grid=grid,
        rows=rows,
        title=content.title,
        seeds=content.seeds,
        sets=content.sets,
        preset=content.preset,
        settings=flat(content.settings, str(path)),
        words=(str(path),),
    )


def _check_name(path: Path) -> None:
    """Nothing, or one sentence about a file whose name is no name for a folder beside those of other experiments."""
    name = path.stem
    if not re.fullmatch(r"\w[\w.+-]*", name) or name in (*EXPERIMENTS, RUNS, "scans"):
        raise MixsegError(
            f"{path} would be the experiment {name!r}, which is no name for one of your own: rename the file.",
            "name-taken",
            file=path,
            name=name,
        )


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise MixsegError(f"{path} does not exist: check the path.", "file-missing", file=path) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise MixsegError(f"{path} is no TOML ({error}): correct it.", "wrong-content", file=path) from None


def _check_method(name: object, where: str) -> None:
    if name not in METHODS:
        raise MixsegError(
            f"Unknown method {name!r} in {where}: {did_you_mean(str(name), METHODS)}",
            "unknown-name",
            kind="method",
            name=name,
            where=where,
        )


def _check_grid(grid: Grid, where: str) -> None:
    """Nothing, or one sentence about a key that no config has, or that has no values."""
    for key, values in grid.items():
        _settings(((key, None),), where)
        if not values:
            raise MixsegError(f"{key!r} in {where} has no values: give it some.", "key-missing", key=key, where=where)


def _combinations(grid: Grid) -> list[tuple[tuple[str, Any], ...]]:
    return [tuple(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def _settings(chosen: Sequence[tuple[str, Any]], where: str = "the grid") -> dict[str, Any]:
    """``(("weights.distill", 10),)`` as settings."""
    found: dict[str, Any] = {}
    for key, value in chosen:
        *groups, last = key.split(".")
        nested: dict[str, Any] = {last: value}
        for group in reversed(groups):
            nested = {group: nested}
        found = merged(found, flat(nested, where))
    return found


def _label(method: str, chosen: Sequence[tuple[str, Any]]) -> str:
    return ", ".join((method, *(f"{key.rpartition('.')[2]} {value}" for key, value in chosen)))
