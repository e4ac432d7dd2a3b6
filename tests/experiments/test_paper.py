"""The experiments say what the paper says: names, rows, columns and values tried."""

import json
from importlib.resources import files

import pytest

from mixseg.datasets.partial_labels import GENERATORS
from mixseg.experiments import paper
from mixseg.experiments.paper import EXPERIMENTS
from mixseg.experiments.planner import outputs_of
from mixseg.methods import METHODS
from mixseg.runs.build import build
from mixseg.runs.config import make_config

PAPER = json.loads(files("mixseg.experiments").joinpath("paper_values.json").read_text())
NAMES = """main proposals self-training semi-supervised kl-ent-distill-weight kl-ent-weak-weight divergence
    single-weak-weight kl-distill-weight single-entropy-weight ua-mt-consistency-weight glmi-weights ssco-weights
    complexity partial-ratio annotation-budget normalisation"""
SMALL = {"preset": "quick", "width": 2, "depth": 2}


def rows_of(name):
    return {(row.label, row.column): row for row in EXPERIMENTS[name].rows}


def test_the_experiments_have_the_names_that_were_agreed():
    assert set(EXPERIMENTS) == set(NAMES.split())
    assert all(experiment.name == name for name, experiment in EXPERIMENTS.items())


@pytest.mark.parametrize("name", [name for name in PAPER if name.startswith(("acdc-", "la-"))])
def test_every_row_of_the_paper_is_a_row_here(name):
    experiment = EXPERIMENTS[name.split("-", 1)[1]]
    rows = rows_of(experiment.name)
    if "columns" in PAPER[name]:
        wanted = {(row, f"{column:g}") for row in PAPER[name]["rows"] for column in PAPER[name]["columns"]}
        assert wanted == set(rows)
        return
    settings = [key for key in PAPER[name] if key.startswith("set-")]
    assert settings == [f"set-{n}" for n in experiment.sets]
    for setting in settings:
        assert {(row, "") for row in PAPER[name][setting]} <= set(rows)


def test_the_main_table_reports_the_outputs_that_the_paper_prints():
    for setting in ("set-3", "all"):
        for label, outputs in PAPER["acdc-main"][setting].items():
            assert set(outputs) == set(outputs_of(rows_of("main")[label, ""]))


@pytest.mark.parametrize(
    ("name", "term"),
    [
        ("kl-ent-distill-weight", "distill"),
        ("kl-ent-weak-weight", "weak"),
        ("single-weak-weight", "weak"),
        ("kl-distill-weight", "distill"),
        ("ua-mt-consistency-weight", "consistency"),
    ],
)
def test_a_sweep_changes_one_weight_to_what_its_label_says(name, term):
    for row in EXPERIMENTS[name].rows:
        assert row.recipe.changes == {"weights": {term: float(row.label)}}
        assert name.startswith(row.recipe.method)
        assert row.x == float(row.label)


def test_two_weights_are_swept_over_rows_and_columns():
    for name, (first, second) in {
        "glmi-weights": ("global", "local"),
        "ssco-weights": ("self-paced", "consistency"),
    }.items():
        for (label, column), row in rows_of(name).items():
            assert row.recipe.changes == {"weights": {first: float(label), second: float(column)}}


def test_rounds_of_self_training_are_proposals_of_proposals():
    for row in EXPERIMENTS["self-training"].rows:
        assert row.recipe.depth == row.x
        assert row.recipe.root.method == row.series
    assert max(row.x for row in EXPERIMENTS["self-training"].rows) == 5


def test_the_ratio_goes_from_0_to_10():
    ratios = [row.recipe.changes["ratio"] for row in EXPERIMENTS["partial-ratio"].rows]
    assert ratios == sorted(ratios)
    assert (ratios[0], ratios[-1]) == (0, 10)


def test_the_annotation_budget_knows_every_kind_of_partial_label():
    assert set(paper.GENERATORS) == set(GENERATORS)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_recipe_is_a_config_whose_method_has_the_outputs(name):
    outputs = {method: build(make_config(method=method, **SMALL), channels=1, classes=2).outputs for method in METHODS}
    for row in EXPERIMENTS[name].rows:
        recipe = row.recipe
        assert make_config(method=recipe.method, preset="paper", **recipe.changes).method.name == recipe.method
        assert outputs_of(row) == outputs[recipe.method][: row.shown]
        assert (recipe.source is None) == (METHODS[recipe.method].sees != "proposals")
