"""Comparisons of one's own: what flags and TOML files stand for, and what is wrong with some of them."""

import pytest

from mixseg.cli.flags import split_grid
from mixseg.core.errors import MixsegError
from mixseg.experiments.comparison import from_grid, read_comparison

WHOLE = """
title = "Rates & weights"
seeds = [0, 4]
sets = [3, 5]
preset = "quick"
settings = { steps = 50, network = { width = 4 } }

[grid]
method = ["kl", "kl-ent"]
lr = [1e-3, 3e-4]
"weights.distill" = [10, 50]

[[rows]]
method = "lower-bound"

[[rows]]
method = "kl-ent"
name = "wide"
settings = { width = 16, weights = { weak = 0.1 } }
"""


def write(folder, text, name="mine.toml"):
    path = folder / name
    path.write_text(text)
    return path


def refusal(folder, text, name="mine.toml"):
    with pytest.raises(MixsegError) as refused:
        read_comparison(write(folder, text, name)).experiment()
    return refused.value


@pytest.mark.parametrize(
    ("assignment", "values"),
    [
        ("lr=1e-3,3e-4", [1e-3, 3e-4]),
        ("divergence=kl,alpha-2", ["kl", "alpha-2"]),
        ("size=[64,64],[96,96]", [[64, 64], [96, 96]]),
        ("detach=true,false", [True, False]),
    ],
)
def test_values_after_commas_are_several(assignment, values):
    key = assignment.partition("=")[0]
    assert split_grid(["steps=5", assignment]) == (["steps=5"], {key: values})


@pytest.mark.parametrize(
    "assignment", ["lr=1e-3", "size=[64,64]", 'target=["LV","RV"]', 'batch={"full":2,"partial":3}']
)
def test_a_list_in_brackets_is_one_value(assignment):
    assert split_grid([assignment]) == ([assignment], {})


def test_every_method_with_every_combination_is_a_row():
    rows = from_grid(("kl", "kl-ent"), {"lr": [1e-3, 3e-4], "weights.distill": [10, 50]}).experiment().rows
    assert [row.label for row in rows][:3] == [
        "kl, lr 0.001, distill 10",
        "kl, lr 0.001, distill 50",
        "kl, lr 0.0003, distill 10",
    ]
    assert len(rows) == len({row.label for row in rows}) == 8
    assert rows[-1].recipe.method == "kl-ent"
    assert rows[-1].recipe.changes == {"lr": 3e-4, "weights": {"distill": 50}}


def test_other_values_are_another_comparison_and_the_same_ones_the_same():
    names = [from_grid(("kl",), {"lr": values}).name for values in ([1e-3, 3e-4], [1e-3, 1e-4], [1e-3, 3e-4])]
    assert names[0] == names[2] != names[1]
    assert from_grid(("lower-bound", "kl-ent"), {}).name == "lower-bound-kl-ent"
    assert from_grid(("proposals",), {}).name != "proposals", "which is an experiment"


def test_a_file_says_all_of_it(tmp_path):
    found = read_comparison(write(tmp_path, WHOLE))
    assert (found.name, found.title, found.seeds, found.sets, found.preset) == (
        "mine",
        "Rates & weights",
        (0, 4),
        (3, 5),
        "quick",
    )
    assert found.settings == {"steps": 50, "width": 4}
    rows = {row.label: row.recipe for row in found.experiment().rows}
    assert len(rows) == found.count == 10
    assert rows["wide"].changes == {"width": 16, "weights": {"weak": 0.1}}
    assert rows["lower-bound"].changes == {}
    assert found.experiment().words == (str(tmp_path / "mine.toml"),)


@pytest.mark.parametrize(
    ("text", "code", "field", "value"),
    [
        ("titel = 'x'", "unknown-key", "key", "titel"),
        ("[grid]\nmethod = ['kl-end']", "unknown-name", "name", "kl-end"),
        ("[[rows]]\nmethod = 'kl-end'", "unknown-name", "name", "kl-end"),
        ("[[rows]]\nname = 'nameless'", "unknown-name", "name", ""),
        ("[[rows]]\nmethod = 'kl'\nsetings = {}", "unknown-key", "key", "setings"),
        ("[[rows]]\nmethod = 'kl'\nsettings = {lrr = 1}", "unknown-key", "key", "lrr"),
        ("[grid]\nlrr = [1, 2]", "unknown-key", "key", "lrr"),
        ("[grid]\nlr = []", "key-missing", "key", "lr"),
        ("seeds = 3\n[grid]\nlr = [1]", "wrong-type", "value", 3),
        ("title = 'x'", "nothing-to-compare", "file", None),
        ("[grid", "wrong-content", "file", None),
        ("[[rows]]\nmethod = 'kl'\n[[rows]]\nmethod = 'kl'", "duplicate-name", "name", "kl"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_name(tmp_path, text, code, field, value):
    error = refusal(tmp_path, text)
    assert error.code == code
    assert error.fields[field] == (value if value is not None else tmp_path / "mine.toml")
    assert code == "duplicate-name" or str(tmp_path / "mine.toml") in str(error)


@pytest.mark.parametrize("name", ["main.toml", "runs.toml", "scans.toml", ".hidden.toml"])
def test_a_file_that_would_take_the_folder_of_something_else_is_refused(tmp_path, name):
    assert refusal(tmp_path, "[grid]\nlr = [1, 2]", name).code == "name-taken"


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(MixsegError) as refused:
        read_comparison(tmp_path / "nowhere.toml")
    assert refused.value.code == "file-missing"
