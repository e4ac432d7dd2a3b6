"""From files to runs and back: label maps are as predict writes them, there as a whole or not at all; old ones go."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

import mixseg
import mixseg.evaluation.evaluate as evaluation
from dataset_folders import MAKERS
from mixseg.cli import main
from mixseg.core.errors import MixsegError
from mixseg.core.text_files import read_json
from mixseg.core.types import Volume
from mixseg.datasets import formats, load
from mixseg.datasets.folds import make_folds
from mixseg.datasets.layouts import nnunet
from mixseg.datasets.simulate import Recipe, simulate_phantom
from mixseg.datasets.split import Split, write_folds, write_split
from mixseg.evaluation.scores import read_metrics
from mixseg.inference.folder import predict_folder
from mixseg.runs.config import make_config
from mixseg.runs.device import Hardware
from mixseg.training import folder
from mixseg.training.folder import find_split, train_folder
from refusals import refused
from scans import write_case

CPU = Hardware("cpu")
SMALL = {"preset": "quick", "method": "single", "steps": 4, "width": 2, "depth": 2, "validate_every": 2}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Scans of 20 x 20 pixels and a run that trains on them at 16 x 16."""
    root = tmp_path_factory.mktemp("made")
    recipe = Recipe(partial="erosion-3x3", keep_full=1)
    simulate_phantom(root / "scans", recipe, kind="heart", size=20, seed=0, patients=4, val=1, test=1)
    run = train_folder(root / "scans", root / "run", settings={**SMALL, "size": [16, 16]}, hardware=CPU, test=True)
    return root, run


@pytest.fixture
def copied(made, tmp_path):
    shutil.copytree(made[0], tmp_path / "copied", symlinks=True)
    return tmp_path / "copied"


def test_a_fold_is_looked_for_in_nnunets_file_and_one_split_in_the_other(made, tmp_path):
    cases = load(made[0] / "scans")
    one, *folds = Split(("patient001",)), *make_folds(cases, count=2)
    write_split(tmp_path / "splits.json", one)
    write_folds(tmp_path / "splits_final.json", folds, cases)
    assert find_split(tmp_path, cases, make_config()) == one
    assert [find_split(tmp_path, cases, make_config(fold=number)) for number in (0, 1)] == folds


def test_a_run_with_a_split_goes_on_and_proposes_from_another_folder(copied, tmp_path, monkeypatch):
    scans, run = copied / "scans", copied / "named"
    settings = {**SMALL, "method": "kl", "split": "scans/splits.json"}
    monkeypatch.chdir(copied)
    train_folder(scans, run, settings=settings, hardware=CPU)
    monkeypatch.chdir(tmp_path)
    longer = {**settings, "split": "copied/scans/splits.json", "steps": 6}
    assert train_folder(scans, run, settings=longer, hardware=CPU).config.training.steps == 6
    took = {"method": "proposals", "proposals_from": str(run)}
    assert train_folder(scans, copied / "taught", settings=took, hardware=CPU).finished
    (copied / "other.json").write_text('{"train": ["patient001", "patient002"], "val": ["patient003"]}')
    with pytest.raises(MixsegError, match=r"on other data .*, or on another split of them"):
        train_folder(scans, run, settings={**longer, "split": "copied/other.json"}, hardware=CPU)


def test_folds_leave_out_the_test_patients_of_the_split_beside_the_scans(copied, capsys):
    scans, page = copied / "scans", str(copied / "page.html")
    assert (
        main(["inspect", str(scans), "-o", page, "--write-split", str(scans / "splits_final.json"), "--folds", "5"])
        == 0
    )
    assert "1 test patients are in none" in capsys.readouterr().out
    folds = [find_split(scans, load(scans), make_config(dataset="phantom", fold=number)) for number in (0, 1)]
    for fold in folds:
        assert set(fold.train) | set(fold.val) == {"patient001", "patient002", "patient003"}
        assert fold.test == ("patient004",)
    assert {patient for fold in folds for patient in fold.val} == {"patient001", "patient003"}, "those with full masks"


def test_patients_that_the_split_does_not_name_are_told(made, tmp_path, capsys):
    path, cases = tmp_path / "splits.json", load(made[0] / "scans")
    write_split(path, Split(("patient003",), ("patient001",)))
    find_split(tmp_path, cases, make_config())
    told = f"2 patients are in no part of {path} and not used: patient002, patient004.\n"
    assert capsys.readouterr().out == told
    write_split(path, Split(("patient003", "patient002"), ("patient001",), ("patient004",)))
    find_split(tmp_path, cases, make_config())
    assert capsys.readouterr().out == ""


def test_a_misspelt_patient_of_the_split_is_told_before_scans_are_prepared(copied):
    path = copied / "scans" / "splits.json"
    path.write_text(path.read_text().replace("patient001", "patient01"))
    with pytest.raises(MixsegError, match=r"splits\.json names patient01 in train.* nearest name is patient001"):
        train_folder(copied / "scans", copied / "new" / "run", settings=SMALL, hardware=CPU)
    assert not (copied / "new").exists()


@pytest.fixture(scope="module")
def of_three_kinds(tmp_path_factory):
    """To train on, a patient with full masks, four with partial labels and one without any; and a run that proposes."""
    scans = tmp_path_factory.mktemp("kinds") / "scans"
    recipe = Recipe(partial="erosion-3x3", keep_full=1)
    simulate_phantom(scans, recipe, kind="heart", size=16, seed=0, patients=8, val=1, test=1)
    for labels in (scans / "labelsTr").glob("patient006*"):
        labels.unlink()
    train_folder(scans, scans.parent / "source", settings={**SMALL, "size": [16, 16]}, hardware=CPU)
    return scans


@pytest.mark.parametrize(
    ("settings", "learns"),
    [
        ({"method": "kl-ent"}, "1 fully annotated, 4 partly labelled, 1 without labels"),
        ({"method": "lower-bound"}, "1 fully annotated, 5 not used"),
        ({"method": "ua-mt"}, "1 fully annotated, 5 without labels"),
        ({"method": "single", "set": 1, "ratio": 2}, "1 fully annotated, 2 partly labelled, 3 not used"),
        ({"method": "proposals", "proposals_from": "source"}, "1 fully annotated, 5 with proposed masks"),
    ],
)
def test_it_is_said_how_many_patients_a_run_learns_from_by_what_it_sees_of_them(
    of_three_kinds, capsys, settings, learns
):
    out = of_three_kinds.parent / settings["method"]
    train_folder(of_three_kinds, out, settings={**SMALL, "size": [16, 16], **settings}, hardware=CPU)
    said = f"Patients to train on: {learns}; to validate on: 1; to test on: 1.\n"
    assert capsys.readouterr().out.count(said) == 1


def test_patients_who_have_no_mask_to_be_scored_by_are_named_and_not_counted(of_three_kinds, tmp_path, capsys):
    train_on, split = [f"patient00{number}" for number in (1, 2, 3)], tmp_path / "split.json"
    parts = {"train": train_on, "val": ["patient007", "patient004"], "test": ["patient005", "patient008", "patient006"]}
    split.write_text(json.dumps(parts))
    settings = {**SMALL, "size": [16, 16], "split": str(split)}
    run = train_folder(of_three_kinds, tmp_path / "run", settings=settings, hardware=CPU, test=True)
    said = capsys.readouterr().out
    assert "1 fully annotated, 2 partly labelled; to validate on: 1; to test on: 1.\n" in said
    assert (
        "Of those to validate and test on, 3 have no full mask and are neither scored nor trained on: "
        "patient004, patient005, patient006.\n"
    ) in said
    protocol, rows = run.facts["protocol"], read_metrics(run.path / "metrics.csv")
    assert (protocol["test patients"], protocol["unscored"]) == (
        ["patient005", "patient008", "patient006"],
        ["patient004", "patient005", "patient006"],
    )
    assert {row.case.split("_")[0]: row.part for row in rows} == {"patient007": "val", "patient008": "test"}
    proposing = {**settings, "method": "proposals", "proposals_from": str(run.path)}
    other = train_folder(of_three_kinds, tmp_path / "other", settings=proposing, hardware=CPU)
    assert other.facts["protocol"]["unscored"] == protocol["unscored"]
    before = {key: value for key, value in protocol.items() if key != "unscored"}  # as earlier versions wrote it
    (run.path / "environment.json").write_text(json.dumps({**run.facts, "protocol": before}))
    longer = {**settings, "steps": run.config.training.steps + 1}
    assert train_folder(of_three_kinds, run.path, settings=longer, hardware=CPU).finished["steps"] == longer["steps"]


def test_a_run_records_the_name_of_the_folder_of_its_scans_and_no_path(made):
    assert made[1].facts["folder"] == "scans"


def label_maps(folder):
    return {path.name: formats.read(path).array for path in sorted(folder.glob("*.nii.gz"))}


def test_a_run_leaves_the_label_maps_that_predict_writes(made, tmp_path):
    root, run = made
    for checkpoint in ("last", "best"):
        predict_folder(
            run.path, root / "scans" / "imagesTr", tmp_path / checkpoint, checkpoint=checkpoint, device="cpu"
        )
        written, left = label_maps(tmp_path / checkpoint), label_maps(run.path / "predictions" / checkpoint / "top")
        assert len(left) == 4, "two frames each of the patients that judge"
        for name, labels in left.items():
            assert labels.shape[:2] == (20, 20)
            np.testing.assert_array_equal(labels, written[name])


def test_label_maps_of_an_earlier_training_do_not_stay_behind(copied):
    old = copied / "run" / "predictions" / "last" / "top" / "gone.nii.gz"
    formats.write(old, np.zeros((4, 4, 2), np.uint8))
    settings = {**SMALL, "size": [16, 16], "steps": 6}
    train_folder(copied / "scans", copied / "run", settings=settings, hardware=CPU, test=True)
    assert not old.exists()
    assert len(label_maps(old.parent)) == 4


def test_label_maps_that_were_not_all_written_are_not_there(copied, monkeypatch):
    written = []

    def power_cut(path, labels, like):
        if written:
            raise KeyboardInterrupt
        path.parent.mkdir(parents=True)
        path.touch()
        written.append(path)

    shutil.rmtree(copied / "run" / "predictions")
    again = {"settings": {**SMALL, "size": [16, 16]}, "hardware": CPU, "test": True}
    with monkeypatch.context() as patched:
        patched.setattr(folder.formats, "write", power_cut)
        with pytest.raises(KeyboardInterrupt):
            train_folder(copied / "scans", copied / "run", **again)
    assert not (copied / "run" / "predictions").exists()
    train_folder(copied / "scans", copied / "run", **again)
    assert len(label_maps(copied / "run" / "predictions" / "best" / "top")) == 4


def test_scores_that_were_not_all_written_are_not_there_and_written_when_called_again(copied, monkeypatch):
    def power_cut(path, content):
        raise KeyboardInterrupt

    scores = {path.name: path.read_text() for path in (copied / "run" / "native").iterdir()}
    shutil.rmtree(copied / "run" / "native")
    again = {"settings": {**SMALL, "size": [16, 16]}, "hardware": CPU, "test": True}
    with monkeypatch.context() as patched:
        patched.setattr(evaluation, "write_json", power_cut)
        with pytest.raises(KeyboardInterrupt):
            train_folder(copied / "scans", copied / "run", **again)
    assert not (copied / "run" / "native").exists()
    train_folder(copied / "scans", copied / "run", **again)
    assert set(scores) == {path.name for path in (copied / "run" / "native").iterdir()}
    assert scores["metrics.csv"] == (copied / "run" / "native" / "metrics.csv").read_text()


def two_structures(annotated):
    """Scans of a bright disc (a) and a dark one (b) at random places, each outlined if it was looked for."""
    rng = np.random.default_rng(0)
    for number, looked_for in enumerate(annotated):
        middles = rng.uniform(8, 24, (2, 2, 1, 1, 4))
        distance = np.hypot(*np.moveaxis(np.indices((32, 32, 4))[:2] - middles, 1, 0))
        a, b = distance[0] < 6, (distance[1] < 6) & (distance[0] >= 6)
        image = 500 + 300 * a - 300 * b + rng.normal(0, 60, a.shape)
        mask = sum(index * one * (name in looked_for) for index, name, one in ((1, "a", a), (2, "b", b)))
        yield nnunet.Item(f"s{number}", (Volume(image.astype(np.int16)),), mask.astype(np.uint8), annotated=looked_for)


def test_classes_outlined_in_different_scans_are_learnt_together(tmp_path):
    items = two_structures([("a",), ("a",), ("b",), ("b",), ("a", "b"), ("a", "b")])
    nnunet.write_dataset(tmp_path / "scans", "two", ("background", "a", "b"), items)
    small = {"steps": 120, "size": [32, 32], "width": 6, "depth": 2, "batch": {"full": 4, "partial": 8}}
    settings = {"preset": "quick", "method": "kl-ent", **small}
    run = train_folder(tmp_path / "scans", tmp_path / "run", settings=settings, hardware=CPU)
    protocol = run.facts["protocol"]
    assert sorted(protocol["partial"]) == ["s0", "s1", "s2", "s3"]
    assert sorted(protocol["full"] + protocol["val"]) == ["s4", "s5"], "the drawn split leaves them to judge"
    rows = [row for row in read_metrics(run.path / "metrics.csv") if (row.branch, row.checkpoint) == ("bottom", "last")]
    assert {row.label: row.dsc > 0.5 for row in rows} == {"a": True, "b": True}  # by chance: 0.2 at the most


def test_a_scan_that_was_searched_for_the_target_alone_may_judge(tmp_path):
    nnunet.write_dataset(tmp_path, "two", ("background", "a", "b"), two_structures([("a",), ("a",), ("b",), ("b",)]))
    cases = load(tmp_path)
    assert find_split(tmp_path, cases, make_config()).val == ()
    assert set(find_split(tmp_path, cases, make_config(target=["a"])).val) < {"s0", "s1"}


DRAWN = "No split beside the scans: one is drawn patient-wise (name your own"
SAYS = "No split file beside the scans, but their folder says who is {}: "
KEPT = SAYS + "that is kept (name another"
VAL_DRAWN = SAYS + "who validates is drawn patient-wise from the others"


@pytest.mark.parametrize(
    ("parts", "fold", "told"),
    [
        (["", "", ""], None, DRAWN),
        (["", "", ""], 0, DRAWN),
        (["train", "", "train"], None, DRAWN),
        (["train", "train", "val", "test"], None, KEPT.format("val and test")),
        (["train", "train", "val"], None, KEPT.format("val")),
        (["train", "train", "test"], None, VAL_DRAWN.format("test") + " (name a split"),
        (["train", "train", "test"], 1, VAL_DRAWN.format("test") + " (name a split"),
        (["", "", "val"], 1, VAL_DRAWN.format("val") + "; its val patients are in no fold and not used (name a split"),
    ],
)
def test_it_is_said_what_of_a_split_is_drawn_and_what_the_folder_says(tmp_path, capsys, parts, fold, told):
    cases = [write_case(tmp_path, f"p{number}", split=part) for number, part in enumerate(parts)]
    split = find_split(tmp_path, cases, make_config(fold=fold))
    assert capsys.readouterr().out.startswith(told)
    named = tuple(f"p{number}" for number, part in enumerate(parts) if part == "val")
    assert (split.val == named) == ("that is kept" in told)


@pytest.mark.parametrize("layout", ["png", "acdc"])
def test_a_layout_with_parts_of_its_own_is_not_said_to_be_split_by_chance(tmp_path, capsys, layout):
    scans = MAKERS[layout](tmp_path / layout)
    find_split(scans, load(scans, layout), make_config())
    assert capsys.readouterr().out.startswith(KEPT.format("val and test") if layout == "png" else DRAWN)


@pytest.mark.parametrize("fold", [None, 0, 1])
def test_a_drawn_split_validates_on_a_scan_that_shows_the_target(tmp_path, fold):
    shown = {0: ("a", "b"), 1: (), 2: ("a", "b"), 3: ("b",), 4: ("b",), 5: ()}
    items = [replace(item, annotated=None) for item in two_structures(shown.values())]
    nnunet.write_dataset(tmp_path, "two", ("background", "a", "b"), items)
    split = find_split(tmp_path, load(tmp_path), make_config(target=["a"], fold=fold))
    assert len({"s0", "s2"} & set(split.val)) == 1
    split = find_split(tmp_path, load(tmp_path), make_config(fold=fold))
    assert {"s0", "s2", "s3", "s4"} & set(split.val)


def test_test_scores_without_test_patients_are_refused_before_scans_are_prepared(copied, tmp_path):
    parts = read_json(copied / "scans" / "splits.json")
    (copied / "scans" / "splits.json").write_text(json.dumps({**parts, "test": []}))
    with pytest.raises(MixsegError, match="There are no test patients: leave the test out"):
        train_folder(copied / "scans", tmp_path / "new" / "run", settings=SMALL, hardware=CPU, test=True)
    assert not (tmp_path / "new").exists()


def test_a_file_is_no_folder_for_a_run(copied, tmp_path):
    (tmp_path / "run").write_text("mine")
    with pytest.raises(MixsegError, match="run is a file: choose a folder as --out"):
        train_folder(copied / "scans", tmp_path / "run", settings=SMALL, hardware=CPU)
    assert (tmp_path / "run").read_text() == "mine"


def test_a_folder_as_it_lies_there_is_trained_on_from_python(tmp_path):
    root = MAKERS["own"](tmp_path / "scans")
    settings = {**SMALL, "dims": 2, "size": [16, 16], "steps": 2}
    model = mixseg.train(mixseg.inspect(root), out=tmp_path / "run", device="cpu", **settings)
    assert model.classes == ("background", "liver", "lesion")
    again = mixseg.train(str(root), out=tmp_path / "run", device="cpu", **settings)  # the same scans: it is finished
    assert again.classes == model.classes
    with refused("setting-not-applicable", key="classes"):
        mixseg.train(root, classes=("background", "liver"), out=tmp_path / "other")
