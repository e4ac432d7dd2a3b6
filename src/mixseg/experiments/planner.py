"""An experiment and a dataset -> the plan: which runs fill which cells, under names that say what they are."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from mixseg.core.errors import MixsegError, known
from mixseg.data.prepare.build import digest
from mixseg.datasets.labels import LabelFlags
from mixseg.datasets.split import NO_TEST, Split
from mixseg.experiments.grid import Experiment, Recipe, Row
from mixseg.experiments.plan import NOT_ENOUGH, Cell, Plan, PlannedRun, in_order
from mixseg.experiments.protocol import BUILT_IN, Scans, steps_of
from mixseg.methods import METHODS, terms_of
from mixseg.runs.config import Config, keys_where, make_config, settings_of
from mixseg.runs.typed_json import merged
from mixseg.training.self_training import SEEDS_APART

SEEDS = (0, 1, 2)
QUICK_SET, QUICK_SEED, QUICK_STEPS = 3, 0, 200
LONGEST_NAME = 120

NAMED = frozenset(keys_where(lambda key: key.effect and not key.flag and not key.located))
"""Keys that a run's name tells; the others all runs of an ``--out`` have in common, or the name says otherwise."""


@dataclass(frozen=True)
class Request:
    """What the user asks for.

    Attributes:
        quick: The preset quick, Set-3, one seed, few steps.
        preset: Where settings come from; None is "paper", and "quick" for the built-in data.
        seeds: None is 0, 1, 2.
        sets: The N of Set-N; None is the experiment's own, or the labels as they are in a folder that has a mixture.
        only: Labels or methods of the rows to run; empty is all.
        settings: Config keys of every run; what an experiment varies wins over them.
        test: Score the test scans too. Those of the built-in data are always scored.
    """

    quick: bool = False
    preset: str | None = None
    seeds: tuple[int, ...] | None = None
    sets: tuple[int, ...] | None = None
    only: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    test: bool = False

    def preset_for(self, dataset: str) -> str:
        """The preset on ``dataset``."""
        return self.preset or ("quick" if self.quick or dataset == BUILT_IN else "paper")


def make_plan(
    experiment: Experiment, request: Request, scans: Scans, split: Split, flags: LabelFlags | None = None
) -> Plan:
    """The cells and runs of ``experiment``; a cell for which there are too few patients says so and has no runs."""
    if request.test and not split.test:
        raise MixsegError(NO_TEST, "no-test-patients")
    preset = request.preset_for(scans.dataset)
    seeds = seeds_of(request)
    made: dict[str, PlannedRun] = {}
    cells = []
    for row, n in _rows_and_sets(experiment, request, scans):
        chains = {seed: _chain(row.recipe, n, seed, preset, request, scans) for seed in seeds}
        missing = _missing(chains[seeds[0]][-1], n, split)
        if missing:
            chains = {}
        made |= {run.name: run for chain in chains.values() for run in chain}
        names = {seed: chain[-1].name for seed, chain in chains.items()}
        column = row.column or setting(row.recipe.method, n)
        cells.append(Cell(row.label, column, outputs_of(row), names, row.series, row.x, missing))
    if cells and not made:
        raise MixsegError(
            f"{NOT_ENOUGH}: there are {len(split.train)} train patients, and every setting of {experiment.name} takes "
            "more; ask for smaller ones with --sets.",
            "too-few-patients",
            count=len(split.train),
            experiment=experiment.name,
        )
    return Plan(
        experiment=experiment.name,
        title=experiment.title,
        dataset=scans.dataset,
        scans=str(scans.folder),
        layout=scans.layout,
        preset=preset,
        quick=request.quick,
        test=request.test or (scans.dataset == BUILT_IN and bool(split.test)),
        split=str(request.settings.get("split", "")),
        seeds=seeds,
        varies=experiment.varies,
        columns=experiment.columns,
        axis=experiment.axis,
        measured=experiment.measured,
        cells=tuple(cells),
        runs=tuple(in_order(list(made.values()))),
        settings={key: value for key, value in request.settings.items() if key != "split"},
        as_printed=_as_printed(request, scans),
        words=experiment.words,
        labels=_flags_as_json(flags or LabelFlags()),
    )


def _flags_as_json(flags: LabelFlags) -> dict[str, Any]:
    """What the user says about the ids, as JSON has it, without what nothing is said of; 0 is an id."""
    given = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(flags).items()}
    return {key: value for key, value in given.items() if value not in (None, []) and value is not False}


def outputs_of(row: Row) -> tuple[str, ...]:
    """The outputs that a row reports, the method's answer first."""
    return METHODS[row.recipe.method].outputs[: row.shown]


def seeds_of(request: Request) -> tuple[int, ...]:
    """Of every cell."""
    return tuple(dict.fromkeys(request.seeds or ((QUICK_SEED,) if request.quick else SEEDS)))


def _as_printed(request: Request, scans: Scans) -> bool:
    """Whether the runs learn what those of the paper did."""
    usual = {"ratio": Config().data.ratio, **scans.settings}
    return all(
        request.settings.get(key, usual[key]) == usual[key] for key in keys_where(lambda key: key.task) if key in usual
    )


def rows_of(experiment: Experiment, request: Request) -> list[Row]:
    """Those of its rows that are asked for."""
    choices = {name for row in experiment.rows for name in (row.label, row.recipe.method)}
    for name in request.only:
        known(f"row of {experiment.name}", name, choices)
    return [row for row in experiment.rows if not request.only or {row.label, row.recipe.method} & set(request.only)]


def _rows_and_sets(experiment: Experiment, request: Request, scans: Scans) -> list[tuple[Row, int | None]]:
    """Every row at every setting, in the order of the table."""
    rows = rows_of(experiment, request)
    asked = request.sets or ((QUICK_SET,) if request.quick else experiment.sets)
    sets: Sequence[int | None] = tuple(dict.fromkeys(asked))
    if scans.as_labelled and request.sets is None:
        sets = (None,)
    if len(sets) > 1 and any(row.column for row in rows):
        raise MixsegError(
            f"The columns of {experiment.name} are no settings: name one setting with --sets.",
            "several-sets",
            experiment=experiment.name,
        )
    several = [(row, n) for n in sets for row in rows if not _of_all(row)]
    return several + [(row, None) for row in rows if _of_all(row)]


def _of_all(row: Row) -> bool:
    """Whether it sees all train patients, and so is one cell however many settings there are."""
    return METHODS[row.recipe.method].ignores_set


def setting(method: str, n: int | None) -> str:
    """Whose labels a run sees: "set-3", or in a word."""
    return "all" if METHODS[method].ignores_set else "as-labelled" if n is None else f"set-{n}"


def _missing(run: PlannedRun, n: int | None, split: Split) -> str:
    """Why Set-N cannot be had, or ""."""
    ratio = run.settings.get("ratio", Config().data.ratio)
    return NOT_ENOUGH if n is not None and n + ratio * n > len(split.train) else ""


def _chain(recipe: Recipe, n: int | None, seed: int, preset: str, request: Request, scans: Scans) -> list[PlannedRun]:
    """The run of ``recipe``, after those that it needs."""
    before = _chain(recipe.source, n, seed, preset, request, scans) if recipe.source else []
    base: dict[str, Any] = {"method": recipe.method, "preset": preset, "dataset": scans.layout}
    usual = make_config(**base, **scans.settings)
    training = usual.training
    steps = steps_of(preset, scans.dataset, n, training.steps, training.batch.full)
    steps = QUICK_STEPS if request.quick else steps
    changes = merged({**scans.settings, "steps": steps}, asked_of(recipe, request))
    config = make_config(**base, **changes)
    # Runs of one name have one config, whichever experiment asks for them.
    changes["weights"] = _unusual(config, usual)
    # Rounds of one seed start from other weights than rounds of another.
    settings = {**base, **changes, "set": n, "seed": seed + SEEDS_APART * recipe.depth}
    if before:
        settings["proposals_from"] = before[-1].name
    name = run_name(recipe, config, usual, n, settings["seed"])
    return [*before, PlannedRun(name, settings, config.training.steps, needs=before[-1].name if before else "")]


def asked_of(recipe: Recipe, request: Request) -> dict[str, Any]:
    """The config keys that the user asks for, of which not every method has every term, and those of the row."""
    asked = dict(request.settings)
    if isinstance(asked.get("weights"), Mapping):
        asked["weights"] = {
            name: weight for name, weight in asked["weights"].items() if name in terms_of(recipe.method)
        }
    return merged(asked, recipe.changes)


def run_name(recipe: Recipe, config: Config, usual: Config, n: int | None, seed: int) -> str:
    """``kl-ent_set-3_distill-10_seed-0``: the method, the setting, what differs from the preset, the seed."""
    method = f"{recipe.method}-{recipe.depth}-{recipe.root.method}" if recipe.source else recipe.method
    where = setting(recipe.method, n)
    preset = [] if config.preset == "paper" else [config.preset]
    words = [*preset, method, where, *differences(config, usual), f"seed-{seed}"]
    name = "_".join(re.sub(r"(?:[^\w.+-]|_)+", "-", word).strip("-") for word in words)
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 9]}_{digest(name)[:8]}"


def differences(config: Config, usual: Config) -> list[str]:
    """``distill-10`` for each setting that is not the usual one; a weight that equals the method's own is usual."""
    differing = changed(settings_of(config), settings_of(usual))
    now, before = config.training.validate_every, usual.training.validate_every
    if now != before:  # the same training, but another choice of its best checkpoint
        differing["validate_every"] = now
    return [f"{key.removeprefix('weights.')}-{_text(value)}" for key, value in differing.items()]


def changed(config: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    """``{"weights.distill": 10.0}``: what a run does that is not usual; a weight that is not there is 0."""
    now, before = _effective(config), _effective(usual)
    return {key: now.get(key, 0.0) for key in {**now, **before} if now.get(key, 0.0) != before.get(key, 0.0)}


def _unusual(config: Config, usual: Config) -> dict[str, float]:
    """The weights that are neither the preset's nor the method's own."""
    own = {**METHODS[config.method.name].weights, **usual.method.weights}
    return {name: weight for name, weight in config.method.weights.items() if weight != own.get(name)}


def _effective(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a run does, flat: ``{"weights.distill": 50.0, "steps": 3000, ...}``."""
    content = {**config, "weights": {**METHODS[config["method"]].weights, **config["weights"]}}
    flat: dict[str, Any] = {}
    for key, value in content.items():
        if key in NAMED:
            flat |= {f"{key}.{part}": each for part, each in value.items()} if isinstance(value, dict) else {key: value}
    return flat


def _text(value: object) -> str:
    if isinstance(value, list):
        return "x".join(map(_text, value))
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return json.dumps(value)
    short = f"{value:g}"
    return short if float(short) == value else repr(value)  # another number is another run
