"""The record of what runs found: a line per run, tables made from the lines, pages that match them."""

import json
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from conftest import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

import results
import results_cells
import results_curves
import results_groups
import results_tables
import results_variants
from mixseg.core.errors import MixsegError
from mixseg.runs.build import build
from mixseg.runs.config import from_dict, grouped, make_config, read_config, settings_of, to_dict

FACTS = {
    "python": "3.12",
    "versions": {"torch": "2.9"},
    "device": "cpu: x",
    "commit": "abc",
    "source": "s1",
    "command": "/home/somebody/run.py --data /home/somebody/acdc.zip",
    "data": "d1",
    "classes": ["background", "LV"],
    "protocol": {"full": ["a"], "partial": ["b", "c"], "unlabeled": [], "val": ["d"], "test patients": ["e"]},
}


@pytest.fixture(autouse=True)
def _one_known_commit(monkeypatch):
    def known(commit, repository):
        if commit != "abc":
            raise subprocess.CalledProcessError(128, "git")
        return "s1"

    monkeypatch.setattr(results, "source_hash_of", known)


@pytest.mark.parametrize("facts", [{"commit": None}, {"commit": "abc-dirty"}, {"commit": "abd"}, {"source": "s2"}])
def test_a_run_of_other_sources_than_those_of_a_commit_is_not_added(tmp_path, facts):
    run = make_run(tmp_path / "run", facts=facts)
    with pytest.raises(MixsegError):
        results.make_record(run)


def entry(dsc, *, part, checkpoint="last", branch="top"):
    known = {"mean": dsc, "sd": 0.1}
    none = {"mean": None, "sd": None}
    where = {"part": part, "checkpoint": checkpoint, "branch": branch, "class": "LV", "cases": 2, "left_out": 0}
    return {
        **where,
        "dsc": known,
        "hd95_vox": {"mean": 7.0, "sd": None},
        "hd95_mm": none,
        "assd_vox": known,
        "assd_mm": none,
    }


def make_run(folder, *, seed=0, dsc=0.5, finished=True, method="lower-bound", facts=None, **settings):
    """The files of a run on ACDC; its scores are ``dsc`` on test and a tenth more on val, for every output."""
    told = {"preset": "paper", "dataset": "acdc", "target": ["LV"], "partial": "erosion-3x3", "set": 3, **settings}
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(to_dict(make_config(method=method, seed=seed, **told))))
    (folder / "environment.json").write_text(json.dumps({**FACTS, **(facts or {})}))
    branches = ("bottom", "top", "ensemble") if method.startswith(("kl", "decoupled")) else ("top",)
    look = {
        "loss": 1.0,
        "terms": {"full": 0.5},
        "weights": {"full": 1.0},
        "dsc": {name: {"LV": dsc} for name in branches},
    }
    watch = {"shares": [0.9, 0.1], "expected": [0.98, 0.02], "entropy": 0.1, "divergence": 0.1}
    log = [{"step": step, "score": score, **look, "watch": watch} for step, score in ((10, 0.4), (20, 0.6), (30, 0.6))]
    (folder / "log.jsonl").write_text("".join(json.dumps(each) + "\n" for each in log))
    places = [
        (part, checkpoint, name) for part in ("val", "test") for checkpoint in ("last", "best") for name in branches
    ]
    figures = [entry(dsc + 0.1 * (part == "val"), part=part, checkpoint=c, branch=name) for part, c, name in places]
    done = {
        "training_seconds": 9.0,
        "seconds": 10.0,
        "peak_gpu_gib": None,
        "test": True,
        "steps": 30,
        "summary": figures,
    }
    if finished:
        (folder / "finished.json").write_text(json.dumps(done))
    return folder


@pytest.fixture
def book(tmp_path):
    """A runs.jsonl of its own, and a way to add runs to it."""
    path = tmp_path / "runs.jsonl"

    def add(name, *, replace=False, **told):
        results.add([make_run(tmp_path / name, **told)], replace=replace, path=path)
        return results.read_runs(path)

    return SimpleNamespace(path=path, add=add, folder=tmp_path)


def test_a_line_holds_what_a_reader_needs_and_no_path_of_the_machine(book):
    (line,) = book.add("a", method="kl-ent", split="/home/somebody/splits.json")
    assert line["config"]["data"]["split"] == "splits.json"
    assert line["counts"]["partial"] == 2
    assert line["best_step"] == 20, "the first of equals, as training chooses"
    assert (line["commit"], line["versions"]["torch"], line["training_seconds"]) == ("abc", "2.9", 9.0)
    assert {(f["part"], f["checkpoint"], f["branch"]) for f in line["figures"]} >= {("test", "best", "bottom")}
    assert "hd95_mm" not in line["figures"][0]
    assert "somebody" not in book.path.read_text()


def test_the_same_run_is_added_once_and_another_of_its_config_only_on_request(book):
    book.add("a")
    results.add([book.folder / "a"], replace=False, path=book.path)
    assert len(results.read_runs(book.path)) == 1
    with pytest.raises(MixsegError, match="--replace"):
        book.add("b", dsc=0.7)
    results.add([book.folder / "b"], replace=True, path=book.path)
    (line,) = results.read_runs(book.path)
    assert line["figures"][-1]["dsc"]["mean"] == 0.7


def test_other_seeds_settings_data_and_patients_are_other_runs(book):
    book.add("a")
    book.add("b", seed=1)
    book.add("c", norm="instance")
    book.add("d", facts={"data": "d2"})
    lines = book.add("e", facts={"protocol": {**FACTS["protocol"], "val": ["x"]}})
    assert len({line["id"] for line in lines}) == 5


def test_a_key_that_is_added_to_the_config_later_does_not_rename_a_run():
    config = settings_of(make_config(preset="paper"))
    older = {key: value for key, value in config.items() if key != "mlflow"}
    assert results.run_id(config, FACTS) == results.run_id(older, FACTS)


def test_the_groups_do_not_rename_a_run_and_neither_do_the_keys_that_went_with_them():
    settings = settings_of(make_config(preset="paper", method="kl", batch={"partial": 4}))
    ids = {
        results.run_id(each, FACTS)
        for each in (settings, grouped(settings), {**settings, "average": 0.0, "init": "xavier"})
    }
    # What 0.1.0 made of this config.
    assert ids == {"a5217f374fcc0b64"}


def without_groups(folder):
    """Write the config of a run as version 0.1.0 did."""
    settings = {**read_config(folder / "config.json"), "average": 0.0, "init": "xavier"}
    (folder / "config.json").write_text(json.dumps(settings))


def test_a_run_from_before_the_groups_is_known_again_and_is_one_with_later_seeds(book):
    older = make_run(book.folder / "older", split="/home/somebody/splits.json", dsc=0.5)
    without_groups(older)
    for _ in range(2):
        results.add([older], replace=False, path=book.path)
    (line,) = results.read_runs(book.path)
    assert (line["config"]["split"], line["config"]["average"]) == ("splits.json", 0.0)
    with pytest.raises(MixsegError, match="another run of the same config"):
        book.add("newer", split="elsewhere/splits.json", dsc=0.9)
    lines = book.add("other", seed=1, dsc=0.6)
    assert "split" not in lines[1]["config"], "it is in its group"
    (group,) = results_groups.gather(lines)
    assert group.score("dsc", part="test", output="top").seeds == 2
    assert "| `lower-bound` | top | 2 | 55.00 ± 7.07" in results_tables.page("acdc", [group])


def test_every_line_of_the_results_makes_a_run_again():
    shapes = {}
    for line in results.read_runs():
        config = from_dict(line["config"], where=line["id"])
        assert from_dict(to_dict(config)) == config
        assert config.data.target == tuple(line["config"]["target"])
        assert config.training.batch.full == line["config"]["batch"]["full"]
        method, network = line["config"]["method"], line["config"]["network"]
        assert (config.method.name, config.network.name) == (method, network)
        shapes[method, str(config.network), str(config.ablation), config.data.dims] = config
    with torch.device("meta"):
        for config in shapes.values():
            assert build(config, channels=1, classes=2).outputs


def test_an_unfinished_run_is_refused(book):
    with pytest.raises(MixsegError, match="not finished"):
        book.add("a", finished=False)


def test_seeds_make_one_group_with_mean_and_sd(book):
    book.add("a", dsc=0.5)
    (group,) = results_groups.gather(book.add("b", seed=1, dsc=0.6))
    found = group.score("dsc", part="test", output="top")
    assert found.seeds == 2
    assert found.mean == pytest.approx(0.55)
    assert found.sd == pytest.approx(0.005**0.5)


def test_of_a_seed_that_was_trained_twice_the_first_run_counts_and_both_are_listed(book):
    book.add("a", dsc=0.5)
    book.add("b", seed=1, dsc=0.6)
    (group,) = results_groups.gather(book.add("c", dsc=0.9, facts={"data": "prepared anew"}))
    found = group.score("dsc", part="test", output="top")
    assert (found.seeds, found.mean) == (2, pytest.approx(0.55))
    listed = results_variants.costs([group]).splitlines()[2:]
    assert [row.split("|")[5].strip() for row in listed] == ["0", "1", "0, again"]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ()),
        ({"compile": False, "validate_every": 7, "weights": {"distill": 50}}, ()),
        ({"on_collapse": "stop", "tensorboard": True, "mlflow": True}, ()),
        ({"detach": False}, ("detach=false",)),
        ({"weights": {"distill": 10}}, ("weights.distill=10.0",)),
        ({"partial": "erosion-10x10"}, ("partial=erosion-10x10",)),
        ({"batch": {"full": 4}, "temperature": 2}, ("batch.full=4", "temperature=2.0")),
    ],
)
def test_changes_name_what_differs_from_the_preset(settings, expected):
    told = {"preset": "paper", "dataset": "acdc", "target": ["LV"], "partial": "erosion-3x3", "set": 3, **settings}
    assert set(results_groups.changes(settings_of(make_config(method="kl-ent", **told)))) == set(expected)


def test_a_setting_of_a_term_is_none_of_a_method_without_it():
    told = {"preset": "paper", "dataset": "acdc", "target": ["LV"], "set": 3, "weak_over": "voxels", "ramp": 0.5}
    for method, expected in {
        "lower-bound": (),
        "single": ("weak_over=voxels",),
        "kl-ent": ("ramp=0.5", "weak_over=voxels"),
    }.items():
        assert results_groups.changes(settings_of(make_config(method=method, **told))) == expected


def test_a_line_from_before_a_key_was_made_has_its_default_and_not_the_presets():
    config = settings_of(make_config(preset="paper", method="kl", dataset="acdc", target=["LV"], set=3))
    assert results_groups.changes(config) == ()
    del config["weak_over"]
    assert results_groups.changes(config) == ("weak_over=voxels",)


def test_larger_sets_take_as_many_epochs():
    told = {"preset": "paper", "dataset": "acdc", "target": ["LV"], "partial": "erosion-3x3"}
    for n, factor in {3: 1, 5: 10 / 6, 10: 21 / 6}.items():
        steps = round(make_config(preset="paper").training.steps * factor)
        assert results_groups.changes(settings_of(make_config(**told, set=n, steps=steps))) == ()


@pytest.mark.parametrize(("method", "steps"), [("ua-mt", 6500), ("lower-bound", 3000)])
def test_methods_that_take_fewer_slices_a_step_take_as_many_epochs(method, steps):
    told = {"preset": "paper", "dataset": "acdc", "target": ["LV"], "partial": "erosion-3x3", "set": 3}
    for asked, expected in ((steps, ()), (steps + 1, (f"steps={steps + 1}",))):
        config = make_config(method=method, steps=asked, **told)
        assert results_groups.changes(settings_of(config)) == expected


def test_the_page_shows_ours_beside_the_papers_and_says_what_was_not_run(book):
    book.add("a", dsc=0.5)
    page = results_tables.page("acdc", results_groups.gather(book.add("b", seed=1, dsc=0.6)))
    set_3 = page.split("## Set-3\n")[1].split("\n## ")[0]
    assert "| `lower-bound` | top | 2 | 55.00 ± 7.07 (+0.34) | 55.00 ± 7.07 (+0.34) | 54.66 |" in set_3
    assert "| `kl-ent` | student | 0 | not run | not run | 86.94 | not run | not run | 8.84 |" in set_3
    assert "None has been run yet." in page


def test_variants_are_judged_on_validation_alone(book):
    book.add("a", method="kl-ent", dsc=0.5)
    page = results_tables.page("acdc", results_groups.gather(book.add("b", method="kl-ent", dsc=0.25, detach=False)))
    section = page.split("## Readings and variants\n")[1].split("\n## ")[0]
    assert "| `detach=false` | Set-3 | `kl-ent` | 1 | 35.00 (-25.00) | 35.00 (-25.00) |" in section
    assert "25.00 (-" not in section.replace("35.00 (-25.00)", ""), "the test figure is 25"


def test_a_sweep_takes_its_own_runs_and_the_preset_for_the_presets_value(book):
    book.add("a", method="kl-ent", dsc=0.5)
    lines = book.add("b", method="kl-ent", dsc=0.6, weights={"distill": 10})
    page = results_tables.page("acdc", results_groups.gather(lines))
    sweep = page.split("Weight of the distillation term in `kl-ent`")[1].split("**")[1]
    assert re.search(r"\| 10 \| 1 \| 60\.00 \(-25\.87\)", sweep)
    assert re.search(r"\| 50 \| 1 \| 50\.00 \(-36\.94\)", sweep)
    assert "| 100 | 0 | not run" in sweep


def test_atria_have_a_page_of_their_own(book, tmp_path):
    told = {"dataset": "la", "target": [], "partial": "erosion-10x10", "dims": 3}
    lines = book.add("a", **told)
    (tmp_path / "docs" / "results").mkdir(parents=True)
    (tmp_path / "README.md").write_text(f"x\n{results_tables.BEGIN}\nold\n{results_tables.END}\ny\n")
    written = results_tables.write_pages(lines, tmp_path)
    assert [path.name for path in written] == ["la.md", "README.md"]
    assert "| `lower-bound` | top | 1 | 50.00 (+12.24)" in written[0].read_text()
    text = written[1].read_text()
    assert text.startswith("x\n")
    assert text.endswith("\ny\n")
    assert "old" not in text


def test_curves_of_runs_are_drawn(book):
    runs = [make_run(book.folder / name, method=name, steps=30) for name in ("lower-bound", "kl-ent")]
    results_curves.draw(runs, book.folder / "curves.png")
    assert (book.folder / "curves.png").read_bytes()[:4] == b"\x89PNG"


def test_proposals_are_named_after_the_method_that_made_them(book):
    facts = {"proposals": {"methods": ["kl"], "checkpoint": "c1"}}
    told = {"method": "proposals", "proposals_from": "/home/somebody/set3-kl", "dsc": 0.75, "facts": facts}
    lines = book.add("a", **told)
    assert lines[0]["config"]["method"]["proposals_from"] == "set3-kl"
    page = results_tables.page("acdc", results_groups.gather(lines))
    assert "| `proposals-kl` | top | 1 | 75.00 (+0.73)" in page
    assert "| `proposals-lower-bound` | top | 0 | not run | not run | 63.11" in page


def test_the_papers_values_are_at_hand():
    found = results_cells.printed("acdc", "set-3", "main", "semi-supervised")
    assert found["kl-ent"]["bottom"] == {"dsc": 86.94, "hd95_vox": 8.84}
    assert found["ua-mt"]["student"] == {"dsc": 70.62, "hd95_vox": 39.06}
    assert list(found["kl"]) == ["top", "bottom"]
    assert results_cells.printed("la", "all", "main") == {"upper-bound": {"top": {"dsc": 91.3, "hd95_vox": 5.01}}}


def test_the_committed_tables_are_those_of_the_committed_lines():
    made = results_tables.pages(results.read_runs(), ROOT)
    assert {path.name for path in made} == {"acdc.md", "la.md", "strong.md", "choosing.md", "README.md"}
    for path, text in made.items():
        assert path.read_text() == text, "run: python benchmarks/results.py tables"
    readme = (ROOT / "README.md").read_text()
    assert results_tables.BEGIN in readme


def test_no_line_and_no_page_of_results_holds_a_path_of_a_machine():
    for path in (ROOT / "docs" / "results").iterdir():
        assert not re.search(r"/(home|work|tmp|root|mnt|Users)/", path.read_text()), path


STRONG = {"preset": "strong", **results_groups.STRONG["acdc"]}


def test_the_preset_strong_has_a_page_where_a_term_that_is_off_is_a_change_and_what_the_masks_said_is_none(book):
    book.add("a", method="kl-ent", dsc=0.91, largest=[1], **STRONG)
    lines = book.add("b", method="kl-ent", dsc=0.88, weights={"cutmix": 0.0}, largest=[], **STRONG)
    assert [group.changes for group in results_groups.gather(lines)] == [(), ("weights.cutmix=0.0", "largest=[]")]
    page = results_tables.strong_page(results_groups.gather(lines))
    recipe, parts = page.split("## What each part is worth, Set-3")
    assert "| `kl-ent` | student | 1 | 91.00 | 7.00 | 101.00 | 86.94 | 8.84 |" in recipe
    assert "88.00" not in recipe
    assert "| `kl-ent` | `weights.cutmix=0.0`, `largest=[]` | 1 | 98.00 |" in parts
    block = results_tables.readme_block(results_groups.gather(lines))
    assert "| `kl-ent` | student | 91.00 | 7.00 | not run | not run | 86.94 | 8.84 |" in block
    assert "| `lower-bound` |  | not run | not run | not run | not run | 54.66 | 80.05 |" in block
    assert "91.00" not in results_tables.page("acdc", results_groups.gather(lines)), "the paper's page is the paper's"


def test_structures_drawn_by_hand_are_told_one_by_one(book):
    assert "## All three structures from hand-drawn scribbles\n\nnot run" in results_tables.strong_page([])
    lines = book.add("a", method="kl-ent", dsc=0.8, target=[], partial="drawn", ratio=19, **STRONG)
    section = results_tables.strong_page(results_groups.gather(lines)).split("## All three structures")[1]
    assert "| `kl-ent` | 0 outlined, 1 scribbled | 3000 | test | student | - | - | 80.00 | - | - |" in section
