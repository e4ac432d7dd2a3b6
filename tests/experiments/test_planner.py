from dataclasses import replace
from pathlib import Path

import pytest

from grids import write_scans
from mixseg.core.errors import MixsegError
from mixseg.datasets import load
from mixseg.datasets.simulate import Recipe, simulate, simulate_phantom
from mixseg.datasets.split import Split
from mixseg.experiments.paper import EXPERIMENTS
from mixseg.experiments.plan import Plan, PlannedRun, in_order, read_plan, write_plan
from mixseg.experiments.planner import Request, make_plan
from mixseg.experiments.protocol import PROTOCOLS, Scans, find_scans, strong_grid
from mixseg.methods import METHODS
from mixseg.report.experiment.tables_paper import beside
from mixseg.runs.config import make_config, settings_of

TRAINED = [name for name, experiment in EXPERIMENTS.items() if not experiment.measured]


def patients(count):
    return Split(tuple(f"p{number}" for number in range(count)))


def plan_of(name, request=None, *, dataset="acdc", train=60) -> Plan:
    scans = Scans(dataset, Path("scans"), dataset, [], PROTOCOLS[dataset])
    return make_plan(EXPERIMENTS[name], request or Request(), scans, patients(train))


def effective(settings):
    """What a run does, whichever way it is asked for."""
    config = make_config(**settings)
    told = settings_of(config.changed(weights=config.method.all_weights))
    return {key: str(value) for key, value in told.items()}


@pytest.mark.parametrize("request_", [Request(), Request(quick=True), Request(preset="strong", seeds=(4,))])
def test_a_name_stands_for_one_config_and_a_config_for_one_name(request_):
    by_name, by_config = {}, {}
    for name in TRAINED:
        for run in plan_of(name, request_).runs:
            config = tuple(effective(run.settings).items())
            assert by_name.setdefault(run.name, config) == config
            assert by_config.setdefault(config, run.name) == run.name
            # RunFolder compares configs as they are written, so they must be the same there too.
            written = make_config(**run.settings)
            assert by_name.setdefault((run.name, "written"), written) == written


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("lr", (0.0012345678, 0.0012345699, 0.00123457)),
        ("target", (["\u53f3\u5fc3\u5ba4"], ["\u5de6\u5fc3\u5ba4"], ["LV_a"], ["LV"])),
        ("validate_every", (3, 5, 0)),
    ],
)
def test_values_that_look_alike_are_runs_of_their_own(key, values):
    names = {plan_of("main", Request(seeds=(0,), settings={key: value})).runs[0].name for value in values}
    assert len(names) == len(values)


@pytest.mark.parametrize(
    ("settings", "same"),
    [
        ({}, True),
        ({"lr": 0.1, "target": ["LV"]}, True),
        ({"target": ["RV"]}, False),
        ({"partial": "points"}, False),
        ({"ratio": 2}, False),
    ],
)
def test_the_papers_figures_stand_beside_what_they_are_about(settings, same):
    plan = plan_of("main", Request(settings=settings))
    (cell,) = [cell for cell in plan.cells if (cell.row, cell.column) == ("kl-ent", "set-3")]
    assert (beside(plan, cell, "bottom", "dsc") == 86.94) is same
    assert (beside(plan, cell, "bottom", "dsc") is None) is not same


def test_sets_and_seeds_that_are_named_twice_count_once():
    plan = plan_of("main", Request(sets=(5, 3, 5), seeds=(1, 0, 1)))
    assert plan == plan_of("main", Request(sets=(5, 3), seeds=(1, 0)))
    # One setting is enough where columns are none, however often it is named.
    assert plan_of("glmi-weights", Request(sets=(3, 3))) == plan_of("glmi-weights")


def test_made_scans_are_tested_where_there_are_test_patients():
    scans = Scans("phantom", Path("hearts"), "phantom", [], PROTOCOLS["phantom"])
    held_out = replace(patients(60), test=("p60",))
    assert make_plan(EXPERIMENTS["main"], Request(), scans, held_out).test
    assert not make_plan(EXPERIMENTS["main"], Request(), scans, patients(60)).test
    assert not make_plan(EXPERIMENTS["complexity"], Request(), scans, patients(0)).test


def test_experiments_share_the_runs_that_they_have_in_common():
    main = {run.name for run in plan_of("main").runs}
    for name in (
        "proposals",
        "semi-supervised",
        "divergence",
        "kl-ent-weak-weight",
        "single-entropy-weight",
        "partial-ratio",
    ):
        assert main & {run.name for run in plan_of(name).runs}
    assert "kl-ent_set-3_seed-0" in main


def test_steps_follow_the_slices_of_the_set():
    steps = {run.settings["set"]: run.steps for run in plan_of("main").runs if run.settings["method"] == "kl-ent"}
    assert steps == {3: 3000, 5: 5000, 10: 10500}
    # Half as many full slices a step pass over them in twice as many steps: 13, 20 and 43 a pass.
    semi = plan_of("semi-supervised", Request(sets=(3, 5, 10), only=("ua-mt",)))
    assert {run.settings["set"]: run.steps for run in semi.runs} == {3: 6500, 5: 10000, 10: 21500}
    between = plan_of("main", Request(sets=(4, 7), only=("kl-ent",)))
    assert {run.settings["set"]: run.steps for run in between.runs} == {4: 4000, 7: 7500}
    assert {run.steps for run in plan_of("main", dataset="la", train=80).runs} == {6000}


def test_a_term_that_only_some_methods_have_can_be_switched_off_for_all():
    plan = plan_of("main", Request(preset="strong", settings={"weights": {"cutmix": 0.0}}, sets=(3,)))
    mixed = [run for run in plan.runs if METHODS[run.settings["method"]].sees == "mixed"]
    assert mixed
    assert all(make_config(**run.settings).method.weights["cutmix"] == 0.0 for run in mixed)
    assert all("mix-0" in run.name for run in mixed)
    dice = plan_of("main", Request(settings={"weights": {"dice": 1.0}}, sets=(3,)))
    assert all("dice-1" in run.name for run in dice.runs)


def test_a_setting_with_too_few_patients_says_so_and_has_no_runs():
    plan = plan_of("main", dataset="la", train=30)
    missing = {cell.column for cell in plan.cells if cell.missing}
    assert missing == {"set-10"}
    assert {cell.missing for cell in plan.cells} == {"", "not enough scans"}
    assert not any("set-10" in run.name for run in plan.runs)
    with pytest.raises(MixsegError, match="not enough scans"):
        plan_of("main", Request(sets=(10,), only=("kl",)), train=59)
    assert plan_of("partial-ratio", train=33).cells[-1].missing == ""
    assert plan_of("partial-ratio", train=32).cells[-1].missing == "not enough scans"


def test_test_scores_without_test_patients_are_refused_before_anything_runs():
    with pytest.raises(MixsegError, match="There are no test patients: leave the test out"):
        plan_of("main", Request(test=True))


def test_the_upper_bound_is_one_cell_however_many_settings():
    cells = [cell for cell in plan_of("main").cells if cell.row == "upper-bound"]
    assert [cell.column for cell in cells] == ["all"]
    assert sorted(cells[0].runs) == [0, 1, 2]


def test_runs_come_after_those_they_need_and_are_fed_from_them():
    plan = plan_of("self-training")
    seen = set()
    for run in plan.runs:
        assert run.needs == run.settings.get("proposals_from", "")
        assert not run.needs or run.needs in seen
        seen.add(run.name)
    last = next(cell for cell in plan.cells if cell.row == "kl, round 5")
    runs = {run.name: run for run in plan.runs}
    chain = [runs[last.runs[2]]]
    while chain[-1].needs:
        chain.append(runs[chain[-1].needs])
    assert [run.settings["method"] for run in chain] == ["proposals"] * 5 + ["kl"]
    assert [run.settings["seed"] for run in chain] == [5002, 4002, 3002, 2002, 1002, 2]


def test_quick_is_one_setting_one_seed_and_few_steps():
    plan = plan_of("main", Request(quick=True), dataset="phantom")
    assert plan.preset == "quick"
    assert {cell.column for cell in plan.cells} == {"set-3", "all"}
    assert len(plan.runs) == len(EXPERIMENTS["main"].rows)
    assert all(run.settings["seed"] == 0 and run.steps <= 300 for run in plan.runs)


def test_what_the_experiment_varies_wins_over_settings_and_those_over_the_preset():
    request = Request(settings={"steps": 7, "weights": {"weak": 0.5, "distill": 2.0}}, seeds=(0,), sets=(3,))
    # The paper's own weight goes without saying.
    runs = {run.settings["weights"].get("weak", 0.001): run for run in plan_of("kl-ent-weak-weight", request).runs}
    assert sorted(runs) == [0.0001, 0.001, 0.01, 0.1, 1.0]
    assert all(run.steps == 7 and run.settings["weights"]["distill"] == 2.0 for run in runs.values())
    # A method without the term is left as it is.
    plan = plan_of("main", request)
    assert {run.settings["method"]: run.settings["weights"] for run in plan.runs}["lower-bound"] == {}


def test_the_default_has_a_grid_of_its_own_on_the_papers_scans_that_gives_way_to_what_is_asked_for():
    assert strong_grid("la", {"steps": 4}) == {"spacing": [1.0, 1.0, 1.0], "patch": [128, 96, 64]}
    assert strong_grid("acdc", {"depth": 3}) == {"size": [192, 192], "long_side": 256}
    for asked in ({"dims": 2}, {"depth": 6}, {"spacing": None}, {"patch": [64, 64, 64]}):
        assert strong_grid("la", asked) == {}
    assert strong_grid("mine", {"dims": 3}) == {}


def test_a_folder_with_a_mixture_of_labels_is_taken_as_it_is(tmp_path):
    recipe = Recipe(partial="scribbles", keep_full=2)
    write_scans(tmp_path / "phantom")
    mixed = simulate(load(tmp_path / "phantom"), tmp_path / "Dataset007_Mine", recipe, name="mine")
    scans = find_scans(str(mixed), tmp_path)
    assert (scans.dataset, scans.layout, scans.as_labelled) == ("Dataset007_Mine", "nnunet", True)
    assert scans.settings == {"dims": 2, "partial": "drawn"}
    plan = make_plan(EXPERIMENTS["main"], Request(seeds=(0,)), scans, patients(6))
    assert {cell.column for cell in plan.cells} == {"as-labelled", "all"}
    assert all(run.settings["set"] is None for run in plan.runs)
    asked = make_plan(EXPERIMENTS["main"], Request(seeds=(0,), sets=(1,)), scans, patients(6))
    assert {cell.column for cell in asked.cells} == {"set-1", "all"}


def test_a_phantom_in_a_folder_is_a_folder_like_any_other(tmp_path):
    simulate_phantom(tmp_path / "mine", Recipe(keep_full=2), kind="heart", size=16, seed=0, patients=6, val=1, test=1)
    scans = find_scans(str(tmp_path / "mine"), tmp_path)
    assert (scans.dataset, scans.as_labelled) == ("mine", True)
    assert scans.settings == {"dims": 2, "partial": "drawn"}


def test_only_the_rows_that_are_named():
    plan = plan_of("main", Request(only=("kl", "upper-bound"), sets=(3,), seeds=(1,)))
    assert [(cell.row, cell.column) for cell in plan.cells] == [("kl", "set-3"), ("upper-bound", "all")]
    with pytest.raises(MixsegError, match="did you mean 'kl-ent'"):
        plan_of("main", Request(only=("kl_ent",)))
    with pytest.raises(MixsegError, match="one setting"):
        plan_of("glmi-weights", Request(sets=(3, 5)))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_plan_is_read_as_it_was_written(tmp_path, name):
    plan = plan_of(name)
    folder = write_plan(tmp_path, plan)
    assert folder == tmp_path / name
    assert read_plan(folder) == plan


def test_a_folder_without_a_plan_is_one_sentence(tmp_path):
    with pytest.raises(MixsegError, match="holds no experiment"):
        read_plan(tmp_path)


def test_runs_are_ordered_by_need():
    runs = [PlannedRun(name, {}, 1, needs) for name, needs in (("c", "b"), ("b", "a"), ("d", ""), ("a", ""))]
    assert [run.name for run in in_order(runs)] == ["a", "b", "c", "d"]
