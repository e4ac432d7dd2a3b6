"""One experiment from its name to its finished runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from mixseg.core.errors import MixsegError, UsageError, known
from mixseg.core.types import Device
from mixseg.data.prepare.files import some_images
from mixseg.data.prepare.store import Prepared
from mixseg.datasets.labels import LabelFlags
from mixseg.datasets.split import Split
from mixseg.experiments.annotation_cost import budget_of
from mixseg.experiments.complexity import measure_all, rows_named
from mixseg.experiments.executors.base import Resources, make_executor
from mixseg.experiments.grid import Experiment
from mixseg.experiments.paper import EXPERIMENTS
from mixseg.experiments.plan import Plan, PlannedRun, experiments_in, read_plan, run_path, write_plan
from mixseg.experiments.planner import Request, asked_of, make_plan, rows_of
from mixseg.experiments.protocol import BUILT_IN, PROTOCOLS, Scans, find_scans, layout_of, made_in, strong_grid
from mixseg.experiments.scheduler import Status, run_plan
from mixseg.methods import METHODS, terms_of
from mixseg.runs.config import KEYS, make_config
from mixseg.runs.device import Hardware
from mixseg.runs.folder import RunFolder
from mixseg.runs.presets import PRESETS
from mixseg.training.assemble import seen_by
from mixseg.training.checks import check_before_reading
from mixseg.training.folder import ScanFolder
from mixseg.training.plan.intensities import choose_intensities
from mixseg.training.plan.settings import PLANNED, PUBLISHED, plan_for

Show = Callable[[Status], None]


def run_experiment(
    name: str | Experiment,
    dataset: str,
    out: Path,
    request: Request,
    *,
    on: str = "local",
    resources: Resources | None = None,
    flags: LabelFlags | None = None,
    show: Show = lambda status: None,
) -> tuple[Path, Status | None]:
    """Plan the experiment, prepare its data, see its runs through; returns its folder and where the runs stand.

    Args:
        name: One of EXPERIMENTS, or an experiment of one's own.
        dataset: "phantom", or a folder of scans.
        out: Holds the experiment, the runs, and whatever other experiments on the same scans share them.
        request: Which part of it, with what settings.
        on: One of EXECUTORS.
        resources: What the executor may use.
        flags: What label ids mean.
        show: Is given the board whenever it has been looked at.
    """
    experiment = name if isinstance(name, Experiment) else EXPERIMENTS[known("experiment", name, EXPERIMENTS)]
    resources = resources or Resources(out)
    _check_before_reading(experiment, dataset, out, request, resources.device if on == "local" else "auto")
    if experiment.measured:
        return _measure(experiment, dataset, out, request, resources, flags), None
    with closing(make_executor(on, resources)) as executor:
        scans = find_scans(dataset, out, flags)
        source = ScanFolder(scans.folder, scans.layout, flags, scans.cases)
        scans = _on_one_grid(scans, source, request, resources)
        split = source.split(make_config(dataset=scans.layout, **_splits(scans, request)))
        plan = make_plan(experiment, request, scans, split, flags)
        _check_scans_unchanged(plan, out)
        plan = _prepare(experiment, plan, out, source, split)
        folder = write_plan(out, plan)
        return folder, run_plan(plan, folder, executor, device=resources.device, flags=flags, show=show)


def _check_before_reading(experiment: Experiment, dataset: str, out: Path, request: Request, device: Device) -> None:
    """Nothing, or one sentence about options that suit no scans, before any are made or read."""
    if experiment.measured:
        _check_no_training_options(experiment, request)
    rows = () if experiment.measured else rows_of(experiment, request)
    if request.preset is not None:
        known("preset", request.preset, PRESETS)
    for key in request.settings:
        if flag := KEYS[key].traits.flag:
            raise UsageError(
                f"--set {key} is nothing that the runs of an experiment have in common: use {flag}.",
                "setting-not-applicable",
                key=key,
            )
    weights = request.settings.get("weights")
    for term in weights if isinstance(weights, Mapping) else ():
        known("term of a loss", term, sorted({name for method in METHODS for name in terms_of(method)}))
    layout = layout_of(dataset)
    common = {**PROTOCOLS.get(layout, {}), "preset": request.preset_for(layout), "seed": min(request.seeds or (0,))}
    if request.sets:
        common["set"] = min(request.sets)
    for recipe in (row.recipe.root for row in rows):  # later runs of a chain have its settings
        check_before_reading(
            {**common, "method": recipe.method, **asked_of(recipe, request)}, RunFolder(out), Hardware(device)
        )


def _check_no_training_options(experiment: Experiment, request: Request) -> None:
    """Nothing, or one sentence about options of runs where there are none."""
    rows_named(request.only)
    for flag, given in (("--test", request.test), ("--seeds", request.seeds), ("--sets", request.sets)):
        if given:
            raise MixsegError(
                f"The experiment {experiment.name} trains nothing and scores no scans: leave {flag} out.",
                "flag-not-applicable",
                flag=flag,
                experiment=experiment.name,
            )


def _measure(
    experiment: Experiment, dataset: str, out: Path, request: Request, resources: Resources, flags: LabelFlags | None
) -> Path:
    """An experiment that trains nothing, and of the scans wants to know whether they are volumes."""
    built_in = Scans(BUILT_IN, made_in(out), BUILT_IN, (), PROTOCOLS[BUILT_IN])
    scans = built_in if dataset == BUILT_IN else find_scans(dataset, out, flags)
    request = replace(request, preset=request.preset or ("quick" if request.quick else "paper"))
    settings = {"dims": scans.settings["dims"], **request.settings}
    plan = make_plan(experiment, replace(request, only=()), scans, Split(()), flags)
    folder = write_plan(out, plan)
    measure_all(folder, preset=plan.preset, settings=settings, only=request.only, device=resources.device)
    return folder


def _on_one_grid(scans: Scans, source: ScanFolder, request: Request, resources: Resources) -> Scans:
    """For a preset that plans its grid from the scans and the memory: the same grid for all runs, wherever they are."""
    preset, images = request.preset_for(scans.dataset), lambda: some_images(source.cases)
    if preset == PUBLISHED:
        return scans
    if preset != PLANNED:
        grey, _ = choose_intensities(images, {**scans.settings, **request.settings})
        return replace(scans, settings={**scans.settings, **grey})
    common = {**scans.settings, **strong_grid(scans.dataset, request.settings)}
    given_settings = {"preset": preset, "dataset": scans.layout, **common, **request.settings}
    plan = plan_for(source.headers, given_settings, Hardware(resources.device), images)
    grid = {key: value for key, value in plan.settings.items() if key != "batch"}  # which is a method's own
    return replace(scans, settings={**common, **grid})


def _splits(scans: Scans, request: Request) -> dict[str, Any]:
    """The settings that a split depends on, as all runs have them."""
    settings = {**scans.settings, **request.settings}
    return {key: settings[key] for key in ("split", "target") if key in settings}


def _check_scans_unchanged(plan: Plan, out: Path) -> None:
    """The runs of one ``--out`` share names, and so must share their scans."""
    for folder in experiments_in(out):
        other = read_plan(folder)
        if (Path(other.scans).resolve(), other.split) != (Path(plan.scans).resolve(), plan.split):
            raise MixsegError(
                f"{out} holds the experiment {other.experiment} on {other.scans} with "
                f"{other.split or 'the split beside them'}: choose another --out for other scans or another split.",
                "data-differ",
                folder=out,
            )


def _prepare(experiment: Experiment, plan: Plan, out: Path, source: ScanFolder, split: Split) -> Plan:
    """Make the arrays that the runs share, once, before several processes want them; count labels where asked.

    Of the runs that are there already, none may have been trained on other arrays or with other settings.
    """
    grids: dict[str, Prepared] = {}
    made: dict[str, Prepared] = {}
    for run in plan.runs:
        config = make_config(**run.settings)
        key, folder = str(config.data.prepare_options), RunFolder(run_path(out / plan.experiment, run.name))
        if key not in grids:
            grids[key] = source.prepare(config, folder.path)
        made[run.name] = grids[key]
        _check_same_run(folder, run, made[run.name], split)
    if not experiment.counts_labels:
        return plan
    settings = {run.name: run.settings for run in plan.runs}
    counted = {name: budget_of(make_config(**settings[name]), made[name], split) for name in settings}
    cells = [replace(cell, budget=counted[min(cell.runs.values())] if cell.runs else {}) for cell in plan.cells]
    return replace(plan, cells=tuple(cells))


def _check_same_run(there: RunFolder, run: PlannedRun, made: Prepared, split: Split) -> None:
    """Nothing, or one sentence if a run of this name was trained otherwise, which its finished scores would hide."""
    if not there.begun:
        return
    config = make_config(**run.settings)
    # What there were scans for, and where files lie from there, a run writes down as it found it.
    there.check_unchanged(config, compared=lambda key: key.effect and not key.settled and not key.located)
    before = str(there.facts.get("data", ""))
    data: dict[str, Any] = {"data": before if made.holds(before) else made.content}
    if not run.needs:  # who is seen by a run that is fed proposals depends on these
        seen = seen_by(config, made, split)
        data |= {"classes": list(seen.classes), "protocol": dict(seen.protocol)}
    there.check_same_data({**there.facts, **data})
