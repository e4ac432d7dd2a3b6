"""The command line, in process: each verb does its work; bad input is one sentence, exit code 2, nothing written."""

import errno
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from io import BytesIO, TextIOWrapper
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from conftest import ROOT
from dataset_folders import AFFINE, SHAPE, dataset_json, image, make_acdc, make_nnunet, make_own, mask, nifti
from mixseg import cli
from mixseg.cli import VERBS, doctor, main, verb_of
from mixseg.cli.doctor import Gpu, Machine, remarks
from mixseg.cli.flags import parse
from mixseg.core.console import exit_code
from mixseg.core.errors import MixsegError
from mixseg.core.types import IGNORE
from mixseg.data.prepare.store import Prepared
from mixseg.datasets import formats, load
from mixseg.datasets.simulate import Recipe, simulate_phantom


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder of its own to stand in, apart from the data."""
    place = tmp_path / "here"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


@pytest.fixture
def raw(tmp_path):
    return make_nnunet(tmp_path / "raw")


# What users get wrong. Each makes one file or folder bad and says what the sentence must name.


def truncated(root):
    path = root / "labelsTr" / "a.nii.gz"
    path.write_bytes(path.read_bytes()[:-30])
    return "a.nii.gz cannot be read, it is truncated"


def zero_bytes(root):
    (root / "imagesTr" / "a_0000.nii.gz").write_bytes(b"")
    return "a_0000.nii.gz is empty (zero bytes)"


def another_size(root):
    nifti(root / "labelsTr" / "a.nii.gz", mask()[:-1])
    return "8 x 7 x 4 and 7 x 7 x 4 voxels"


def another_spacing(root):
    nifti(root / "labelsTr" / "a.nii.gz", mask(), AFFINE * np.array([1.01, 1, 1, 1]))
    return "the spacings are 1.5 x 1.5 x 8 and 1.515 x 1.5 x 8 mm"


def undeclared_id(root):
    nifti(root / "labelsTr" / "a.nii.gz", mask() + np.uint8(70) * (mask() == 3))
    return "a.nii.gz holds the undeclared label 73"


def mask_of_nan(root):
    nifti(root / "labelsTr" / "a.nii.gz", np.full(SHAPE, np.nan, np.float32))
    return "a.nii.gz holds nan"


def image_with_nan(root):
    nifti(root / "imagesTr" / "a_0000.nii.gz", np.where(mask() == 3, np.nan, image()))
    return f"a_0000.nii.gz holds nan or inf in {(mask() == 3).sum()} of its {mask().size} voxels"


def image_in_colour(root):
    colour = np.zeros(SHAPE, [(name, np.uint8) for name in "RGB"])
    colour["R"] = 200
    nifti(root / "imagesTr" / "a_0000.nii.gz", colour)
    return "a_0000.nii.gz is in colour"


def link_in_a_circle(root):
    link = root / "imagesTr" / "f_0000.nii.gz"
    link.symlink_to(link)
    return "f_0000.nii.gz"


def two_scans_with_one_id(root):
    nifti(root / "imagesTr" / "a_0000.nii", image())
    return "a_0000.nii.gz"


def empty_folder(root):
    shutil.rmtree(root)
    root.mkdir()
    return "raw is empty: give the folder"


def no_folder(root):
    shutil.rmtree(root)
    return "raw does not exist"


BAD_FILES = [
    truncated,
    zero_bytes,
    another_size,
    another_spacing,
    undeclared_id,
    mask_of_nan,
    image_with_nan,
    image_in_colour,
    link_in_a_circle,
]
BAD_FOLDERS = [two_scans_with_one_id, empty_folder, no_folder]


@pytest.mark.parametrize("spoil", [*BAD_FILES, *BAD_FOLDERS], ids=lambda spoil: spoil.__name__)
def test_prepare_refuses_bad_input_in_one_sentence_and_writes_no_index(raw, here, capsys, spoil):
    clause = spoil(raw)
    assert main(["prepare", str(raw), "arrays"]) == 4
    said = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("preparing")]
    assert len(said) == 1
    assert clause in said[0]
    assert ": " in said[0], "a remedy after a colon"
    left = [path for path in here.rglob("*") if path.is_file()]
    assert all(path.parents[1].name == "entries" for path in left), "what is whole need not be made again"


@pytest.mark.parametrize("spoil", BAD_FILES, ids=lambda spoil: spoil.__name__)
def test_inspect_lists_a_bad_file_and_exits_with_3(raw, capsys, spoil):
    clause = spoil(raw)
    assert main(["inspect", str(raw)]) == 3
    said = capsys.readouterr().out
    assert sum(clause in line for line in said.splitlines()) == 1
    assert Path("inspect-raw.html").read_text().count(clause) >= 1


@pytest.mark.parametrize("spoil", BAD_FOLDERS, ids=lambda spoil: spoil.__name__)
def test_inspect_refuses_a_bad_folder_in_one_sentence(raw, here, capsys, spoil):
    clause = spoil(raw)
    assert main(["inspect", str(raw)]) == 4
    said = capsys.readouterr()
    assert said.out == ""
    assert clause in said.err
    assert said.err.count("\n") == 1
    assert list(here.iterdir()) == []


def test_inspect_lists_all_bad_files_one_per_line(raw, capsys):
    clauses = [truncated(raw), link_in_a_circle(raw), another_spacing(second_mask_as_first(raw))]
    assert main(["inspect", str(raw)]) == 3
    lines = capsys.readouterr().out.split("Bad files:\n")[1].split("\n\n")[0].splitlines()
    assert len(lines) == 3
    for clause in clauses:
        assert sum(clause in line for line in lines) == 1


def second_mask_as_first(raw):
    """A place whose labelsTr/a.nii.gz is the second mask of ``raw``, so that another file can be spoilt alike."""
    place = raw.parent / "view"
    place.mkdir()
    (place / "labelsTr").mkdir()
    (place / "labelsTr" / "a.nii.gz").symlink_to(raw / "labelsTr" / "e.nii.gz")
    return place


def test_header_noise_is_no_bad_input(raw, capsys):
    nifti(raw / "labelsTr" / "a.nii.gz", mask(), AFFINE * (1 + 1e-8))
    assert main(["inspect", str(raw)]) == 0
    assert "Bad files" not in capsys.readouterr().out


def test_a_folder_without_permission_is_one_sentence(tmp_path, monkeypatch, capsys):
    root = make_acdc(tmp_path / "acdc")
    listing = os.listdir

    def guarded(path="."):
        if Path(path).name == "patient010":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return listing(path)

    monkeypatch.setattr(os, "listdir", guarded)  # root may read everything, so a chmod would prove nothing
    assert main(["inspect", str(root)]) == 4
    assert "patient010 may not be listed (no permission)" in capsys.readouterr().err


def test_inspect_says_what_there_is(raw, capsys):
    assert main(["inspect", str(raw), "-o", "page.html"]) == 0
    said = capsys.readouterr().out
    assert "5 of 5 patients" in said
    assert "dataset.json calls 4 ignore" in said
    assert "Pictures: page.html" in said
    assert Path("page.html").read_text().startswith("<!doctype html>")


def test_flags_say_what_ids_mean(raw, capsys):
    assert main(["inspect", str(raw), "--unlabeled", "3"]) == 4
    assert "3 is LV (dataset.json calls 4 ignore), but a flag says unlabeled" in capsys.readouterr().err


def test_inspect_tells_scribbles_from_the_full_masks_beside_them(tmp_path, capsys):
    dataset_json(tmp_path, labels={"background": 0, "RV": 1, "Myo": 2, "LV": 3})
    full, drawn = np.zeros((2, *SHAPE), np.uint8)
    full[1:6, 1:6], drawn[3, 2:4, 0], drawn[7, 0, 0] = 1, 1, 4
    for name, label in {"full": full, "drawn": drawn}.items():
        nifti(tmp_path / "imagesTr" / f"{name}.nii.gz", image())
        nifti(tmp_path / "labelsTr" / f"{name}.nii.gz", label)
    assert main(["inspect", str(tmp_path), "-o", str(tmp_path / "page.html")]) == 4
    assert "--scribble-background ID" in capsys.readouterr().err
    assert main(["inspect", str(tmp_path), "-o", str(tmp_path / "page.html"), "--scribble-background", "4"]) == 0
    assert "1 scribbles (drawn.nii.gz), 1 full masks (full.nii.gz)" in capsys.readouterr().out


def test_simulate_keeps_the_first_masks_and_hides_the_others(tmp_path):
    source = make_acdc(tmp_path / "acdc")
    arguments = ["simulate", "made", "--from", str(source), "--partial", "points", "--keep-full", "1"]
    assert main(arguments) == 0
    cases = {case.id: case for case in load(Path("made"))}
    truth = {case.id: formats.read_labels(case.full).array for case in load(source)}
    assert {case.patient: case.kind for case in cases.values()} == {"patient001": "full", "patient010": "partial"}
    for name, case in cases.items():
        label = formats.read_labels(case.full or case.partial).array
        assert ((label == truth[name]) | (label == IGNORE)).all()
        assert (case.hidden is None) == (case.kind == "full")
        if case.hidden is not None:
            assert np.array_equal(formats.read_labels(case.hidden).array, truth[name])
        original = formats.read(tmp_path / "acdc" / case.patient / f"{name}.nii.gz")
        assert np.array_equal(formats.read(case.image[0]).array, original.array)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--from", "P", "--patients", "4"], "--patients says nothing to --from: leave it out."),
        (["--from", "P", "--size", "64"], "--size says nothing to --from: leave it out."),
        (["--phantom", "heart", "--split", "x.json"], "--split says nothing to --phantom: leave it out."),
    ],
)
def test_simulate_refuses_what_would_have_no_effect(here, capsys, flags, said):
    Path("P").mkdir()
    assert main(["simulate", "made", *flags]) == 2
    assert said in capsys.readouterr().err
    assert [path.name for path in here.iterdir()] == ["P"]


def test_simulate_takes_train_patients_in_the_order_of_a_split(tmp_path):
    source = make_acdc(tmp_path / "acdc")
    split = tmp_path / "splits.json"
    split.write_text('{"train": ["patient010", "patient001"], "val": [], "test": []}')
    arguments = ["simulate", "made", "--from", str(source), "--partial", "none", "--keep-full", "1"]
    assert main([*arguments, "--split", str(split)]) == 0
    kinds = {case.patient: case.kind for case in load(Path("made"))}
    assert kinds == {"patient001": "unlabeled", "patient010": "full"}
    assert Path("made", "splits.json").is_file()


def test_commands_that_are_printed_and_kept_can_be_pasted(monkeypatch, capsys):
    phantom = ["--phantom", "heart", "--patients", "3", "--val", "1", "--test", "1", "--size", "16"]
    assert main(["simulate", "my scans", *phantom, "--keep-full", "all"]) == 0
    assert "Look at it: mixseg inspect 'my scans'\n" in capsys.readouterr().out
    small = [word for each in ("steps=2", "size=[16,16]", "width=2", "depth=2") for word in ("--set", each)]
    words = ["train", "my scans", "--out", "a run", "--preset", "quick", "-device", "cpu", *small]
    monkeypatch.setattr(sys, "argv", ["mixseg", *words])
    assert main(words) == 0
    assert capsys.readouterr().out.endswith("Finished: a run\nA page about it: mixseg report 'a run'\n")
    assert shlex.split(json.loads(Path("a run/environment.json").read_text())["command"]) == ["mixseg", *words]


def test_simulate_takes_the_split_beside_the_source_and_says_so(capsys):
    phantom = ["--phantom", "heart", "--patients", "5", "--val", "1", "--test", "1", "--size", "16"]
    assert main(["simulate", "source", *phantom, "--keep-full", "all"]) == 0
    assert main(["simulate", "made", "--from", "source", "--partial", "points", "--keep-full", "1"]) == 0
    assert "Split: source/splits.json, whose 1 val and 1 test patients keep" in capsys.readouterr().out
    kinds = {case.patient: case.kind for case in load(Path("made"))}
    assert list(kinds.values()) == ["full", "partial", "partial", "full", "full"]
    assert Path("made", "splits.json").read_text() == Path("source", "splits.json").read_text()


def test_simulate_keeps_the_references_of_scans_that_have_partial_labels_already(tmp_path):
    source = make_acdc(tmp_path / "acdc")
    options = ["--partial", "drawn", "--keep-full", "1"]
    assert main(["simulate", "once", "--from", str(source), *options]) == 0
    assert main(["simulate", "twice", "--from", "once", *options]) == 0
    hidden = {case.id: case.hidden for case in load(Path("once")) if case.hidden}
    assert {case.id for case in load(Path("twice")) if case.hidden} == set(hidden) != set()
    for case in load(Path("twice")):
        if case.hidden:
            assert np.array_equal(formats.read_labels(case.hidden).array, formats.read_labels(hidden[case.id]).array)


def test_simulate_without_partial_labels_takes_away_those_that_are_drawn_too(tmp_path):
    source = make_acdc(tmp_path / "acdc")
    for path in (source / "patient010").glob("*_gt.nii.gz"):
        path.unlink()
    assert {case.kind for case in load(source) if case.patient == "patient010"} == {"partial"}
    for partial, left in (("none", "unlabeled"), ("points", "partial")):
        assert main(["simulate", partial, "--from", str(source), "--partial", partial, "--keep-full", "1"]) == 0
        kinds = {case.patient: case.kind for case in load(Path(partial))}
        assert kinds == {"patient001": "full", "patient010": left}


def test_simulate_uses_drawn_strokes_as_they_are(tmp_path):
    source = make_acdc(tmp_path / "acdc")
    assert main(["simulate", "made", "--from", str(source), "--partial", "drawn", "--keep-full", "0"]) == 0
    drawn = {case.id: formats.read_labels(case.partial).array for case in load(source)}
    for case in load(Path("made")):
        assert np.array_equal(formats.read_labels(case.partial).array, drawn[case.id])


def test_simulate_makes_the_phantom_without_any_data():
    arguments = ["simulate", "made", "--phantom", "heart", "--patients", "5", "--val", "1", "--test", "1"]
    assert main([*arguments, "--size", "32", "--keep-full", "1"]) == 0
    kinds = {case.patient: case.kind for case in load(Path("made"), "phantom")}
    assert list(kinds.values()) == ["full", "partial", "partial", "full", "full"], "val and test stay complete"
    assert [path.name for path in Path.cwd().iterdir()] == ["made"]


@pytest.mark.parametrize(
    ("arguments", "clause"),
    [
        (["made"], "either --from FOLDER or --phantom"),
        (["made", "--phantom", "heart", "--from", "x"], "either --from FOLDER or --phantom"),
        (["made", "--phantom", "heart", "--partial", "scribble"], "did you mean 'scribbles'?"),
        (["made", "--phantom", "heart", "--keep-full", "-1"], "--keep-full is -1"),
        (["made", "--phantom", "heart", "--patients", "3"], "leave none to train on"),
        (["made", "--phantom", "heart", "--seed", "-1"], "--seed is -1"),
        (["made", "--phantom", "heart", "--size", "0"], "Slices of 0 x 0 pixels hold nothing"),
    ],
)
def test_simulate_refuses_what_makes_no_sense(here, capsys, arguments, clause):
    assert main(["simulate", *arguments]) == (2 if clause.startswith("either") else 4)
    assert clause in capsys.readouterr().err
    assert list(here.iterdir()) == []


def test_simulate_never_writes_over_anything(raw, here, capsys):
    (here / "made").mkdir()
    (here / "made" / "precious.txt").write_text("x")
    for source in (["--phantom", "heart"], ["--from", str(raw)]):
        assert main(["simulate", "made", "--keep-full", "1", *source]) == 4
        assert "made" in capsys.readouterr().err
    assert [path.name for path in here.rglob("*")] == ["made", "precious.txt"]


def test_the_current_folder_is_no_target_and_said_to_be_so_before_the_work(raw, here, capsys):
    for words in (
        ["simulate", ".", "--phantom", "heart"],
        ["simulate", ".", "--from", str(raw)],
        ["prepare", str(raw), "."],
    ):
        assert main(words) == 4
        said = [line for line in capsys.readouterr().err.splitlines() if line]
        assert said == [". is the current folder, which cannot be replaced by a new one: name another folder."]
        assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--pack", "--target", "LV"], "with all their labels: give --target where it is unpacked or trained on"),
        (["--pack", "--partial", "none"], "give --partial where it is unpacked"),
        (["--pack", "--long-side", "64"], "give --long-side where it is unpacked"),
        (["--dims", "3", "--size", "16", "16"], "--size is for slices: leave it out, or give --dims 2."),
    ],
)
def test_prepare_refuses_what_would_have_no_effect(raw, here, capsys, flags, said):
    assert main(["prepare", str(raw), "scans.zip", *flags]) == 2
    assert said in capsys.readouterr().err
    assert list(here.iterdir()) == []


def test_prepare_packs_chosen_scans_and_unpacks_them_elsewhere(raw, capsys):
    options = ["--size", "16", "16"]
    assert main(["prepare", str(raw), "scans.zip", "--pack", "--cases", "a", "b"]) == 0
    assert main(["prepare", "scans.zip", "arrays", *options]) == 0
    assert main(["prepare", str(raw), "direct", "--cases", "a", "b", *options]) == 0
    unpacked, direct = Prepared(Path("arrays")), Prepared(Path("direct"))
    assert [case.id for case in unpacked.cases] == ["a", "b"]
    for first, second in zip(unpacked.cases, direct.cases, strict=True):
        assert np.array_equal(unpacked.image(first), direct.image(second))
    assert main(["prepare", str(raw), "other", "--cases", "aa"]) == 4
    assert "Unknown scan or patient 'aa'" in capsys.readouterr().err


def test_evaluate_scores_a_folder_against_masks_or_a_dataset(raw, capsys):
    shutil.copytree(raw / "labelsTr", "predictions", ignore=shutil.ignore_patterns("[be]*"))
    for references in (raw, raw / "labelsTr"):
        assert main(["evaluate", "-i", "predictions", "--references", str(references), "-o", "scores"]) == 0
        said = capsys.readouterr().out
        assert "100.00" in said
        assert "metrics.csv" in said
        assert Path("scores", "summary.json").is_file()
    assert main(["evaluate", "-i", "predictions", "--references", "nowhere", "-o", "scores"]) == 4
    assert "nowhere is no folder" in capsys.readouterr().err


def test_evaluate_does_not_overwrite_the_metrics_of_a_run(raw, capsys):
    shutil.copytree(raw / "labelsTr", "predictions", ignore=shutil.ignore_patterns("[be]*"))
    Path("run").mkdir()
    for name in ("config.json", "environment.json", "metrics.csv"):
        Path("run", name).write_text("{}")
    assert main(["evaluate", "-i", "predictions", "-r", str(raw), "-o", "run"]) == 4
    assert "run is a run, whose metrics.csv would be lost: choose another -o." in capsys.readouterr().err
    assert Path("run", "metrics.csv").read_text() == "{}"
    assert not Path("run", "summary.json").exists()


@pytest.fixture
def pipeline(monkeypatch):
    """Notes what the verbs about runs ask for."""
    calls = {}

    def note(name):
        def noted(*positional, **options):
            calls[name] = (positional, options)
            return SimpleNamespace(finished={"summary": []})

        return noted

    monkeypatch.setattr("mixseg.cli.train._print_scores", lambda run: None)  # there are none
    for module, name in (("training.cross_validation", "train_and_estimate"), ("inference.folder", "predict_folder")):
        fake = ModuleType(f"mixseg.{module}")
        setattr(fake, name, note(name))
        monkeypatch.setitem(sys.modules, fake.__name__, fake)
    return calls


def test_train_settles_file_flags_and_set_in_this_order(pipeline, here):
    (here / "config.json").write_text('{"method": "kl", "lr": 0.1, "batch": {"full": 2, "partial": 6}}')
    words = "train scans -o run --config config.json --method single --set batch.full=4 --set lr=1e-3 --c -device cpu"
    assert main(words.split()) == 0
    (folder, out), options = pipeline["train_and_estimate"]
    assert (folder, out) == (Path("scans"), Path("run"))
    assert options["settings"] == {"method": "single", "lr": 0.001, "batch": {"full": 4, "partial": 6}}
    assert options["hardware"].device == "cpu"
    assert not options["test"]


def test_settings_name_their_group_or_not_and_the_last_one_wins(pipeline, here):
    (here / "config.json").write_text('{"training": {"steps": 5, "batch": {"partial": 6}}, "method": {"name": "kl"}}')
    words = "train scans -o run --config config.json --set method=single --set method.ramp=0.5 --set data.dims=3"
    more = "--set steps=7 --set training.batch.full=4 --set network=vnet --set network.width=8 --set training.steps=9"
    assert main([*words.split(), *more.split()]) == 0
    assert pipeline["train_and_estimate"][1]["settings"] == {
        **{"method": "single", "ramp": 0.5, "dims": 3, "network": "vnet", "width": 8},
        **{"steps": 9, "batch": {"full": 4, "partial": 6}},
    }


def test_a_misspelt_key_of_a_config_file_is_suggested(pipeline, here, capsys):
    (here / "config.json").write_text('{"metod": "kl"}')
    assert main(["train", "scans", "--out", "run", "--config", "config.json"]) == 4
    assert "Unknown key 'metod' in config.json: did you mean 'method'?" in capsys.readouterr().err
    assert not pipeline


def test_predict_takes_nnunets_short_flags(pipeline):
    words = "predict run -i images -o out --entropy --checkpoint last --branch both -device cpu"
    assert main([*words.split(), "--window", "uniform", "--overlap", "0.25", "--overwrite", "--format", "nrrd"]) == 0
    positional, options = pipeline["predict_folder"]
    assert positional == (Path("run"), (Path("images"),), Path("out"))
    assert options == {
        **{"checkpoint": "last", "device": "cpu", "probabilities": False, "entropy": True},
        **{"branch": "both", "window": "uniform", "overlap": 0.25, "overwrite": True},
        **{"format": "nrrd", "nested": None},
    }
    assert main([*words.split(), "--nested", "lesion:liver", "cyst:lesion"]) == 0
    assert pipeline["predict_folder"][1]["nested"] == ("lesion:liver", "cyst:lesion")
    assert main([*words.split(), "--nested"]) == 0
    assert pipeline["predict_folder"][1]["nested"] == ()


def test_settings_nest_and_hold_json_or_text():
    assert parse(["a.b=1", "a.c=[1, 2]", "d=true", "e=kl-ent", "f=x=y"]) == {
        "a": {"b": 1, "c": [1, 2]},
        "d": True,
        "e": "kl-ent",
        "f": "x=y",
    }
    for wrong in ("steps", "=3", "batch.=3"):
        with pytest.raises(MixsegError, match="write key=value"):
            parse([wrong])


def test_folds_without_a_file_to_write_them_to_are_refused(raw, capsys):
    assert main(["inspect", str(raw), "--folds", "5"]) == 2
    assert "say with --write-split FILE" in capsys.readouterr().err


@pytest.mark.parametrize("told", ["", "Stopped at step 412 of 3000; ..."])
def test_an_interrupt_says_how_to_go_on(monkeypatch, capsys, told):
    def interrupted(words):
        raise KeyboardInterrupt(told)

    monkeypatch.setattr(cli, "_call", interrupted)
    assert main(["train"]) == 130
    assert capsys.readouterr().err == f"{told or 'stopped; run the same command to continue'}\n"


def test_a_terminal_without_our_signs_gets_others_in_their_place(monkeypatch):
    written = BytesIO()
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(written, encoding="ascii"))
    assert exit_code(lambda: print("90.6 ± 0.9")) == 0
    assert written.getvalue() == b"90.6 ? 0.9\n"


PRINT = """
from pathlib import Path
from mixseg.core.console import exit_code
def command():
    for number in range(20_000):
        print(number)
    Path("written").touch()
raise SystemExit(exit_code(command))
"""


def test_a_reader_that_has_seen_enough_is_no_error():
    command = [sys.executable, "-c", PRINT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"0\n"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0
    assert Path("written").exists()


@pytest.mark.parametrize("kind", ["pipe", "terminal"])
def test_a_training_goes_on_when_nobody_reads_what_it_prints(tmp_path, kind):
    simulate_phantom(Path("scans"), Recipe(), kind="heart", size=16, seed=0, patients=6, val=1, test=1)
    settings = {"preset": "quick", "steps": 40, "width": 2, "depth": 2, "size": [16, 16]}
    Path("small.json").write_text(json.dumps(settings))
    ours, theirs = os.pipe() if kind == "pipe" else os.openpty()
    command = [sys.executable, "-m", "mixseg", "train", "scans", "--out", "run", "--config", "small.json"]
    # In a session of its own: closing a terminal hangs up on those alone that it controls.
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    assert b"0 = background" in os.read(ours, 200)
    os.close(ours)
    assert process.wait(timeout=120) == 0
    assert Path("run/finished.json").exists()
    assert Path("run/predictions").is_dir()


def test_train_ends_with_the_scores_of_the_run_and_tells_a_new_one_from_a_finished_one(tmp_path, capsys):
    simulate_phantom(Path("scans"), Recipe(), kind="heart", size=16, seed=0, patients=6, val=1, test=1)
    small = [word for key in ("steps=4", "width=2", "depth=2", "size=[16,16]") for word in ("--set", key)]
    words = ["train", "scans", "--out", "run", "--preset", "quick", "--test", "--set", 'target=["LV"]', *small]
    ends = []
    for _ in range(2):
        assert main(words) == 0
        ends.append(capsys.readouterr().out.split("Scores on the training grid:\n")[1].splitlines())
    first, second = ends
    assert "Finished: run" in first
    assert "Finished: run" not in second
    assert any(line.startswith("run is finished already; ") for line in second)
    rows = [re.split(r" {2,}", line) for line in first if " LV " in line]
    assert [row[:3] for row in rows] == [
        [part, "last", branch] for part in ("val", "test") for branch in ("student", "teacher")
    ]
    scores = {
        (entry["part"], entry["branch"]): entry["dsc"]["mean"]
        for entry in json.loads(Path("run/finished.json").read_text())["summary"]
        if entry["checkpoint"] == "last"
    }
    means = [100 * scores[part, branch] for part in ("val", "test") for branch in ("bottom", "top")]
    assert [row[6].split(" ")[0] for row in rows] == [f"{mean:.2f}" for mean in means]
    assert second[: second.index("")] == first[: first.index("")]


def test_debug_shows_the_traceback(capsys):
    with pytest.raises(MixsegError):
        main(["inspect", "nowhere", "--debug"])


def test_a_misspelt_verb_is_suggested(capsys):
    assert main(["inspct"]) == 2
    assert "did you mean 'inspect'?" in capsys.readouterr().err


def test_an_unknown_flag_exits_with_2(capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["inspect", "x", "--unlabel", "3"])
    assert exit_.value.code == 2
    assert "--unlabel" in capsys.readouterr().err


def test_a_flag_of_an_earlier_version_is_understood(raw, here):
    assert main(["inspect", str(raw), "--unlabelled", "4"]) == main(["inspect", str(raw), "--unlabeled=4"])


@pytest.mark.parametrize(
    ("words", "hints"),
    [
        ("train scans --out run --steps 150", ["steps=150"]),
        ("train scans --out run --batch.full=4 --weak-share --lr 1e-3", ["batch.full=4", "lr=1e-3"]),
        ("self-train scans --from a --out b --seed 3", ["seed=3"]),
        ("experiment main --dataset phantom --out x --steps 9", ["steps=9"]),
        ("train scans --out run --dims 5 --on_collapse never", []),
        ("predict run -i images -o maps --steps 9", []),
        ("train scans --out run --training.steps 9", ["training.steps=9"]),
        ("train scans --out run --data scans", []),
    ],
)
def test_a_key_of_the_config_written_as_a_flag_is_told_where_it_belongs(words, hints, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(words.split())
    assert exit_.value.code == 2
    told = [line for line in capsys.readouterr().err.splitlines() if "is a key of the config" in line]
    assert told == [f"{hint.split('=')[0]} is a key of the config: write --set {hint}" for hint in hints]


@pytest.mark.parametrize("verb", ["train", "self-train"])
def test_a_verb_without_words_says_what_it_needs(verb, capsys):
    with pytest.raises(SystemExit) as exit_:
        main([verb])
    assert exit_.value.code == 2
    assert "Required" in capsys.readouterr().err


def test_an_out_that_is_a_file_is_told_as_such(tmp_path, capsys):
    (tmp_path / "out").write_text("mine")
    assert main(["train", str(make_nnunet(tmp_path / "scans")), "--out", str(tmp_path / "out")]) == 4
    assert "is a file: choose a folder as --out" in " ".join(capsys.readouterr().err.split())
    assert (tmp_path / "out").read_text() == "mine"


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_teaches_with_an_example_and_has_help(name, capsys):
    function = verb_of(name)
    assert f"$ mixseg {name}" in function.__doc__
    with pytest.raises(SystemExit) as exit_:
        main([name, "--help"])
    assert exit_.value.code == 0
    assert f"$ mixseg {name}" in capsys.readouterr().out


HEAVY = ("torch", "SimpleITK", "nibabel", "h5py", "matplotlib", "scipy", "skimage", "lightning_fabric", "numpy", "tyro")


@pytest.mark.parametrize(("verb", "allowed"), [([], ()), (["train"], ("numpy", "tyro"))])
def test_help_imports_nothing_that_takes_long(verb, allowed):
    code = (
        "import sys; from mixseg.cli import main\n"
        f"try: main({[*verb, '--help']!r})\n"
        "except SystemExit: pass\n"
        f"print('HEAVY', [name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == f"HEAVY {list(allowed)}"


def test_the_overview_names_every_verb(capsys):
    assert main([]) == 0
    said = capsys.readouterr().out
    assert all(f"  {name}" in said for name in VERBS)


def test_doctor_prints_what_there_is(capsys):
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert all(word in said for word in ("mixseg", "torch", "GPUs that torch sees", "free disk"))


def test_doctor_names_extras_that_there_are(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "installed", lambda library: None)
    assert main(["doctor"]) == 0
    named = re.findall(r"pip install mixseg\[(\S+)\]", " ".join(capsys.readouterr().out.split()))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(named) == set(extras) - {"dev"}
    for extra in named:
        assert extras[extra][0].startswith(doctor.LIBRARY_OF.get(extra, extra))


GPU = Gpu("New", 80, bf16=True)


@pytest.mark.parametrize(
    ("machine", "clause"),
    [
        (Machine("2.9.1+cu128"), "3D convolutions"),
        (Machine("2.13.0+cpu", driver=True), "built for the CPU alone"),
        (Machine("2.13.0", cuda_build="12.8", driver=True), "sees no GPU"),
        (Machine("2.13.0", "12.8", True, (Gpu("Old", 11, bf16=False),)), "Old has no fast bfloat16"),
        (Machine("2.13.0", "12.8", True, (GPU,), compiler_lacks="gcc"), "cannot be compiled for the GPU"),
        (Machine("2.13.0", cores=8, threads=1), "1 of 8 cores"),
        (Machine("2.13.0", free_gib=1.0), "Only 1.0 GiB"),
    ],
)
def test_doctor_warns_of_what_is_known_to_be_slow(machine, clause):
    assert any(clause in sentence for sentence in remarks(machine))


def test_doctor_has_nothing_to_say_about_a_good_machine():
    assert remarks(Machine("2.13.0", "12.8", True, (GPU,), cores=8, threads=8)) == []


def test_doctor_knows_what_the_compiler_needs(monkeypatch):
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    assert doctor.compiler_lacks() == "the package triton"
    monkeypatch.setattr(doctor, "find_spec", lambda name: object())
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    assert doctor.compiler_lacks().startswith("a C compiler")
    monkeypatch.setattr(doctor.shutil, "which", lambda name: name if name == "gcc" else None)
    monkeypatch.setattr(doctor.Path, "exists", lambda path: False)
    assert doctor.compiler_lacks().startswith("Python.h")
    monkeypatch.setattr(doctor.Path, "exists", lambda path: path.name == "Python.h")
    assert doctor.compiler_lacks() == ""


@pytest.mark.parametrize(
    ("told", "spins"), [({}, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "x"}, None)]
)
def test_waiting_threads_sleep_soon_unless_the_user_has_a_policy(told, spins):
    others = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    code = "import os, sys, mixseg; print(os.environ.get('GOMP_SPINCOUNT'), 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], env=others | told, capture_output=True, text=True, check=True)
    assert done.stdout == f"{spins} False\n", "set before torch reads it, from Python as from the command line"


def test_what_the_system_refuses_is_one_sentence(tmp_path, capsys):
    (tmp_path / "file").write_text("x")
    assert main(["simulate", str(tmp_path / "file" / "sim"), "--phantom", "heart", "--patients", "12"]) == 4
    said = capsys.readouterr().err
    assert "file" in said
    assert "Traceback" not in said
    assert main(["train", str(tmp_path), "--out", str(tmp_path / "run"), "--devices", "0"]) == 4
    assert "ask for at least 1" in capsys.readouterr().err


def test_a_folder_in_which_nothing_was_learnt_is_free_for_other_settings(tmp_path, capsys):
    scans = tmp_path / "scans"
    sizes = ["--patients", "4", "--val", "1", "--test", "1", "--size", "16", "--keep-full", "1"]
    assert main(["simulate", str(scans), "--phantom", "heart", *sizes]) == 0
    words = ["train", str(scans), "--out", str(tmp_path / "run"), "--preset", "quick", "-device", "cpu"]
    small = ["--set", "steps=2", "--set", "width=2", "--set", "depth=2"]
    assert main([*words, *small, "--set", "size=[15, 16]"]) == 4
    assert main([*words, *small, "--set", "size=[16, 16]"]) == 0
    assert main([*words, *small, "--set", "size=[32, 32]"]) == 4
    assert "holds a run with size" in capsys.readouterr().err
    assert main([*words, *small, "--set", "weights.full=-3"]) == 4
    assert "it is 0 or a positive number" in capsys.readouterr().err


def test_inspect_keeps_what_it_understood_beside_the_scans_and_says_it_to_programs(tmp_path, capsys, monkeypatch):
    root = make_own(tmp_path / "scans")
    monkeypatch.chdir(tmp_path)
    assert main(["inspect", str(root), "--write", "--json"]) == 0
    *rows, whole = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["kind"] for row in rows] == ["full", "partial", "unlabeled"]
    assert rows[1]["structures"]["liver"]["state"] == "strokes"
    assert (whole["layout"], whole["classes"], whole["questions"]) == ("own", ["background", "liver", "lesion"], [])
    content = json.loads((root / "mixseg.json").read_text())
    assert content["scans"]["Patient 02 T2"]["background"] == 3
    assert main(["inspect", str(root), "--full", "Patient 02*"]) == 0
    assert "Patient 02 T2-label.nii.gz" in capsys.readouterr().out
    assert main(["inspect", str(make_nnunet(tmp_path / "raw")), "--write"]) == 2
