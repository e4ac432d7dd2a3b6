"""``mixseg experiment`` from the command line, its runs done in this process."""

import json
import shlex
import shutil

import pytest

from grids import Here, small, write_scans
from mixseg.cli import main
from mixseg.core.errors import MixsegError
from mixseg.experiments.paper import EXPERIMENTS
from mixseg.experiments.plan import read_plan
from mixseg.experiments.planner import Request
from mixseg.experiments.protocol import find_scans
from mixseg.experiments.run_experiment import run_experiment
from mixseg.report.experiment.missing import command
from mixseg.report.experiment.results import read_results

FLAGS = ["--preset", "quick", "--sets", "1", "--seeds", "0"]
for key, value in {"steps": 2, "size": "[32,32]", "width": 2, "depth": 2, "ratio": 1, "target": '["LV"]'}.items():
    FLAGS += ["--set", f"{key}={value}"]


@pytest.fixture(scope="module")
def scans(tmp_path_factory):
    return write_scans(tmp_path_factory.mktemp("data") / "scans")


@pytest.fixture(autouse=True)
def here(unpainted, monkeypatch):
    monkeypatch.setattr("mixseg.experiments.run_experiment.make_executor", lambda name, place: Here(place))
    monkeypatch.setattr("mixseg.experiments.scheduler.SECONDS_BETWEEN_REFRESHES", 0.0)


def test_the_list_teaches_every_name(capsys):
    assert main(["experiment", "--list"]) == 0
    listed = capsys.readouterr().out
    assert all(f"\n{name} " in listed for name in EXPERIMENTS)
    assert main(["experiment"]) == 0
    assert capsys.readouterr().out == listed
    with pytest.raises(SystemExit):
        main(["experiment", "--help"])
    assert "--list" in capsys.readouterr().out


def test_a_misspelt_name_is_one_sentence(capsys, tmp_path):
    assert main(["experiment", "self-trainin", "--out", str(tmp_path)]) == 4
    assert "did you mean 'self-training'" in capsys.readouterr().err


def test_a_misspelt_method_is_one_sentence_before_scans_are_made(capsys, tmp_path):
    assert main(["experiment", "main", "--out", str(tmp_path / "out"), "--methods", "klent"]) == 4
    assert capsys.readouterr().err == "Unknown row of main 'klent': did you mean 'kl-ent'?\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--preset", "papr"), "Unknown preset 'papr': did you mean 'paper'?"),
        (("--set", "stpes=3"), "Unknown key 'stpes' in the config: did you mean 'steps'?"),
        (("--set", "weights=3"), "'weights' in the config is 3"),
        (("--set", "weights.distil=3"), "Unknown term of a loss 'distil': did you mean 'distill'?"),
        (("--set", "depth=9"), "A network of depth 9 halves the image 9 times"),
        (
            ("--set", "method=kl"),
            "--set method is nothing that the runs of an experiment have in common: use --methods.",
        ),
        (("--sets", "3", "0"), "'set' in the config is 0: it is at least 1."),
        (("--seeds", "1", "-1"), "'seed' in the config is -1: it is at least 0."),
        (("--split", "nowhere.json"), "nowhere.json does not exist"),
        (("--device", "mps"), "torch sees no mps device here"),
        (("--dataset", "nowhere"), "nowhere is no folder here"),
        (("--seeds",), "--seeds has no value: give at least one, or leave --seeds out."),
        (("--sets",), "--sets has no value"),
        (("--methods",), "--methods has no value"),
        (("--slurm", "partition=gpu"), "--slurm says nothing to --on local: add --on slurm, or leave --slurm out."),
        (("--on", "ray", "--slurm", "partition=gpu"), "--slurm says nothing to --on ray"),
        (("--ray-address", "auto"), "--ray-address says nothing to --on local: add --on ray, or leave it out."),
        (
            ("--on", "slurm", "--slurm", "partition"),
            "--slurm partition is no setting: write key=value, such as --slurm partition=gpu.",
        ),
    ],
)
def test_what_suits_no_scans_is_told_before_any_are_made(capsys, tmp_path, monkeypatch, words, said):
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    code = 2 if said.startswith("--") else 4  # flags that contradict each other, or what they name
    assert main(["experiment", "main", "--quick", "--out", str(tmp_path / "out"), *words]) == code
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_place_that_is_not_there_is_told_before_scans_are_made(tmp_path, monkeypatch):
    def absent(name, place):
        raise MixsegError("No SLURM here", "no-slurm")

    monkeypatch.setattr("mixseg.experiments.run_experiment.make_executor", absent)
    with pytest.raises(MixsegError, match="No SLURM here"):
        run_experiment("main", "phantom", tmp_path / "out", Request(quick=True), on="slurm")
    assert not (tmp_path / "out").exists()


def test_a_preset_of_measurements_is_checked_too(capsys, tmp_path):
    assert main(["experiment", "complexity", "--out", str(tmp_path / "out"), "--preset", "papr"]) == 4
    assert capsys.readouterr().err == "Unknown preset 'papr': did you mean 'paper'?\n"


@pytest.mark.parametrize("flag", [("--test",), ("--seeds", "1"), ("--sets", "5")])
def test_measurements_have_no_runs(capsys, tmp_path, flag):
    assert main(["experiment", "complexity", "--out", str(tmp_path / "out"), *flag]) == 4
    said = capsys.readouterr().err
    assert said == f"The experiment complexity trains nothing and scores no scans: leave {flag[0]} out.\n"
    assert not (tmp_path / "out").exists()


def test_a_row_that_is_not_measured_is_told_with_those_that_are(capsys, tmp_path):
    assert main(["experiment", "complexity", "--out", str(tmp_path / "out"), "--methods", "ssc"]) == 4
    assert capsys.readouterr().err == "Unknown row of complexity 'ssc': did you mean 'ssco'?\n"
    assert main(["experiment", "complexity", "--out", str(tmp_path / "out"), "--methods", "lower-bound"]) == 4
    said = capsys.readouterr().err
    assert "'ssco, 2 + 2'" in said
    assert said.count("single") == said.count("ua-mt") == 1


def test_some_rows_are_measured_at_a_size_of_ones_own(capsys, tmp_path):
    small = ["--set", "width=2", "--set", "depth=2", "--set", "size=[16,16]", "--device", "cpu"]
    assert main(["experiment", "complexity", "--out", str(tmp_path), "--methods", "ssco", "dual-branch", *small]) == 0
    written = json.loads((tmp_path / "complexity" / "complexity.json").read_text())
    assert [row["row"] for row in written["rows"]] == ["dual-branch", "ssco", "ssco, 2 + 2"]
    assert written["grid"] == [16, 16]
    assert "dual-branch" in capsys.readouterr().out


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize("preset", [None, "paper", "strong"])
def test_no_experiment_is_refused_as_it_is(tmp_path, monkeypatch, name, preset):
    class ReadError(Exception):
        pass

    def read(*arguments):
        raise ReadError

    # On "meta", where networks are tried, drawing the first weights takes most of the time and gives none.
    monkeypatch.setattr("mixseg.networks.initialise", lambda network: None)
    monkeypatch.setattr("mixseg.experiments.run_experiment.find_scans", read)
    monkeypatch.setattr("mixseg.experiments.run_experiment._measure", read)
    with pytest.raises(ReadError):
        run_experiment(name, "phantom", tmp_path / "out", Request(preset=preset))


def test_tables_of_several_settings_are_apart(scans, tmp_path, capsys):
    flags = [*FLAGS, "--sets", "1", "2", "--methods", "lower-bound"]
    assert main(["experiment", "main", "--dataset", str(scans), "-o", str(tmp_path), *flags]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert [lines[lines.index(head) - 1] for head in ("Set-1", "Set-2")] == ["", ""]


def test_a_table_from_one_line_and_a_failed_run_is_told(scans, tmp_path, capsys):
    out = tmp_path / "out"
    command = ["experiment", "main", "--dataset", str(scans), "-o", str(out), *FLAGS, "--methods", "lower-bound"]
    assert main([*command]) == 0
    printed = capsys.readouterr().out
    assert "1 of 1 runs done" in printed
    assert "lower-bound" in printed.split("1 of 1 runs done")[1]
    assert (out / "main" / "report.html").exists()
    # With such a rate it fails, which is another run; the first is left as it is.
    (done,) = (out / "runs").glob("*/finished.json")
    when = done.stat().st_mtime_ns
    assert main([*command, "--set", "lr=1e30"]) == 3
    printed = capsys.readouterr().out
    assert "Failed:" in printed
    (failed,) = (out / "runs").glob("*/failed.json")
    sentence = json.loads(failed.read_text())["sentence"]
    assert "no longer" in sentence
    assert f"{failed.parent.name}: {sentence}" in printed
    assert done.stat().st_mtime_ns == when


def test_the_command_on_the_page_goes_on_with_the_same_runs(scans, tmp_path):
    words = ["experiment", "main", "--dataset", str(scans), "-o", str(tmp_path), *FLAGS, "--set", "partial=points"]
    words += ["--set", "batch.full=2", "--methods", "kl", "lower-bound", "--background", "0"]
    assert main(words) == 0
    plan, runs = read_plan(tmp_path / "main"), sorted((tmp_path / "runs").iterdir())
    _, *again = shlex.split(command(read_results(tmp_path / "main")))
    assert main(again) == 0
    assert read_plan(tmp_path / "main") == plan
    assert sorted((tmp_path / "runs").iterdir()) == runs


def again(scans, tmp_path, *words):
    command = ["experiment", "main", "--dataset", str(scans), "-o", str(tmp_path / "out"), *FLAGS, *words]
    return main([*command, "--methods", "lower-bound"])


def test_a_finished_run_of_the_same_name_on_another_split_is_refused(scans, tmp_path, capsys):
    mine = shutil.copytree(scans, tmp_path / "scans")
    assert again(mine, tmp_path) == 0
    split = json.loads((mine / "splits.json").read_text())
    (mine / "splits.json").write_text(json.dumps({**split, "train": split["train"][::-1]}))
    assert again(mine, tmp_path) == 4
    assert "holds a run on other data (scans), or on another split of them" in capsys.readouterr().err


def test_a_finished_run_of_the_same_name_with_another_setting_is_refused(scans, tmp_path, capsys):
    assert again(scans, tmp_path) == 0
    assert again(scans, tmp_path, "--set", "compile=false") == 0, "which changes no figure"
    (stored,) = (tmp_path / "out" / "runs").glob("*/config.json")
    stored.write_text(stored.read_text().replace('"width": 2', '"width": 3'))
    assert again(scans, tmp_path) == 4
    assert "holds a run with width=3, not 2: choose another --out" in capsys.readouterr().err


def test_a_narrower_table_says_that_the_wider_one_is_not_lost(scans, tmp_path, capsys):
    words = ["experiment", "main", "--dataset", str(scans), "-o", str(tmp_path), *FLAGS, "--methods", "lower-bound"]
    assert main([*words, "single"]) == 0
    assert "table that was here" not in capsys.readouterr().out
    assert main(words) == 0
    said = f"1 run of the table that was here before is not in this one and stays in {tmp_path / 'runs'}"
    assert said in " ".join(capsys.readouterr().out.split())
    assert len(list((tmp_path / "runs").glob("*/finished.json"))) == 2


def test_rows_of_a_chain_are_run_in_order_and_labels_are_counted(scans, tmp_path):
    folder, status = run_experiment("self-training", str(scans), tmp_path, small("kl, round 2"))
    assert list(status.standing.values()) == ["done"] * 3
    assert [run.settings["method"] for run in read_plan(folder).runs] == ["kl", "proposals", "proposals"]
    # The erosion that the run of kl was fed with costs nothing new.
    folder, _ = run_experiment("annotation-budget", str(scans), tmp_path, small("points, 1 times"))
    (cell,) = read_plan(folder).cells
    assert cell.budget["scans"] == 2
    assert 0 < cell.budget["strokes"] <= cell.budget["voxels"]


def test_labels_are_counted_on_the_split_that_the_runs_draw(scans, tmp_path, monkeypatch):
    def asked_for(folder, cases, config):
        raise MixsegError(f"a split for {config.data.target}", "too-few-patients")

    monkeypatch.setattr("mixseg.training.folder.find_split", asked_for)
    with pytest.raises(MixsegError, match=r"a split for \('LV',\)"):
        run_experiment("main", str(scans), tmp_path, small("lower-bound"))


def test_other_scans_want_another_folder(scans, tmp_path):
    run_experiment("main", str(scans), tmp_path / "out", small("lower-bound"))
    other = shutil.copytree(scans, tmp_path / "other")
    with pytest.raises(MixsegError, match="choose another --out"):
        run_experiment("main", str(other), tmp_path / "out", small("lower-bound"))


def test_a_folder_that_is_not_there_says_how_to_name_one(tmp_path):
    with pytest.raises(MixsegError, match="--dataset phantom"):
        find_scans(str(tmp_path / "acdc"), tmp_path)


OWN = """
sets = [1]
seeds = [0]
preset = "quick"
[settings]
steps = 2
size = [32, 32]
width = 2
depth = 2
ratio = 1
target = ["LV"]
[grid]
method = ["lower-bound"]
lr = [1e-3, 1e-4]
"""


def test_a_comparison_of_ones_own_from_a_file_and_from_flags_shares_its_runs(scans, tmp_path, capsys):
    (tmp_path / "mine.toml").write_text(OWN)
    out = tmp_path / "out"
    assert main(["experiment", str(tmp_path / "mine.toml"), "--dataset", str(scans), "-o", str(out)]) == 0
    assert "lower-bound, lr 0.0001" in capsys.readouterr().out
    runs = sorted(out.glob("runs/*/finished.json"))
    assert len(runs) == 2
    assert {path.name for path in (out / "mine").iterdir()} >= {
        "report.html",
        "table.md",
        "table.tex",
        "table.csv",
        "tests.csv",
    }
    when = [path.stat().st_mtime_ns for path in runs]
    # The same from flags, and from the command that its page names.
    words = ["experiment", "--methods", "lower-bound", "--set", "lr=1e-3,1e-4"]
    assert main([*words, "--dataset", str(scans), "-o", str(out), *FLAGS]) == 0
    (folder,) = (path.parent for path in out.glob("lower-bound_lr*/experiment.json"))
    assert [cell.runs for cell in read_plan(folder).cells] == [cell.runs for cell in read_plan(out / "mine").cells]
    for each in (folder, out / "mine"):
        _, *again = shlex.split(command(read_results(each)))
        assert main(again) == 0
    assert [path.stat().st_mtime_ns for path in runs] == when


def test_ten_thousand_runs_are_asked_about_first(tmp_path, capsys):
    values = ",".join(str(number) for number in range(1, 101))
    words = ["experiment", "--set", f"ramp={','.join(f'0.{n:03}' for n in range(100))}", "--set", f"steps={values}"]
    assert main([*words, "--seeds", "0", "-o", str(tmp_path / "out"), "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["code"], error["count"]) == ("many-runs", 10_000)
    assert not (tmp_path / "out").exists()


def test_several_values_are_nothing_that_a_table_of_the_paper_takes(tmp_path, capsys):
    assert main(["experiment", "main", "--set", "lr=1e-3,1e-4", "-o", str(tmp_path / "out"), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "several-values"
