"""Results as objects: tables that a second reader agrees with, figures, and what is missing said in a sentence."""

import sys

import numpy as np
import pandas
import pytest
from matplotlib.figure import Figure

import mixseg
from fake_runs import write_run
from mixseg.cli import main
from mixseg.core.errors import MixsegError
from mixseg.report.comparison import compare_runs
from mixseg.report.wording import verdict
from mixseg.runs.log import read_log

ATRIUM = ("background", "atrium")


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    write_run(root / "lower", method="lower-bound", branches={"top": 0.3}, classes=ATRIUM, scans=4)
    write_run(root / "ours", classes=ATRIUM, scans=4)
    write_run(root / "half", classes=ATRIUM, finished=False)
    return {path.name: path for path in root.iterdir()}


@pytest.fixture(scope="module")
def run(paths):
    return mixseg.open_run(str(paths["ours"]))


def test_scores_are_those_of_the_file(run, paths):
    theirs = pandas.read_csv(paths["ours"] / "metrics.csv")
    assert set(run.scores.columns) == set(theirs.columns)
    assert len(run.scores) == len(theirs) == 4 * 3 * 2
    for column in ("dsc", "hd95_vox", "assd_vox"):
        assert run.scores[column].to_numpy() == pytest.approx(theirs[column].to_numpy())
    assert list(run.scores["case"]) == list(theirs["case"])


def test_the_summary_is_the_mean_that_pandas_finds(run):
    ours = run.summary.set_index(["part", "checkpoint", "branch"])["dsc"]
    theirs = run.scores.groupby(["part", "checkpoint", "branch"])["dsc"].mean()
    assert ours.sort_index().to_numpy() == pytest.approx(theirs.sort_index().to_numpy())


def test_the_history_has_a_line_for_each_entry_of_the_log(run, paths):
    log = read_log(paths["ours"] / "log.jsonl")
    assert list(run.history["step"]) == [entry["step"] for entry in log]
    assert run.history["dsc/bottom/atrium"].iloc[-1] == log[-1]["dsc"]["bottom"]["atrium"]
    assert run.history["terms/distill"].iloc[0] == log[0]["terms"]["distill"]


def test_label_maps_are_listed_and_read(run, paths):
    with np.load(paths["ours"] / "predictions.npz") as held:
        assert len(run.predictions) == len(held.files)
        case = run.predictions["case"].iloc[0]
        assert np.array_equal(run.prediction(case), held[f"last/bottom/{case}"])
        assert np.array_equal(run.prediction(case, output="top", checkpoint="best"), held[f"best/top/{case}"])
    with pytest.raises(MixsegError) as refused:
        run.prediction("nobody")
    assert refused.value.code == "unknown-name"


def test_figures_are_drawn_when_asked_for_and_once(run, unpainted):
    assert isinstance(run.figures["learning curves"], Figure)
    figures = run.figures
    assert figures["loss"] is figures["loss"]
    with pytest.raises(KeyError, match="learning curves"):
        figures["lessons"]
    for name in figures:
        assert isinstance(figures[name], Figure), name


def test_a_notebook_is_shown_the_sentence_and_the_scores(run):
    shown = run._repr_html_()
    assert verdict(run.files) in shown
    assert "<table" in shown
    assert repr(run).startswith("Run(")


def test_a_run_that_is_not_finished_shows_what_there_is(paths):
    run = mixseg.open_run(paths["half"])
    assert not run.finished
    assert run.scores.empty
    assert run.predictions.empty
    assert not run.history.empty
    assert "not finished" in run._repr_html_()
    with pytest.raises(MixsegError) as refused:
        run.figures["every scan"]
    assert refused.value.code == "nothing-to-draw"


def test_a_folder_without_a_run_is_one_sentence(tmp_path):
    with pytest.raises(MixsegError) as refused:
        mixseg.open_run(tmp_path)
    assert refused.value.code == "not-a-run"


def test_without_pandas_tables_say_what_to_install(paths, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MixsegError) as refused:
        _ = mixseg.open_run(paths["ours"]).scores
    assert (refused.value.code, refused.value.fields) == ("not-installed", {"package": "pandas"})


def test_a_comparison_says_what_the_command_line_says(paths, tmp_path, unpainted):
    found = mixseg.compare(paths["lower"], paths["ours"])
    assert found.verdict == compare_runs([paths["lower"], paths["ours"]]).verdict
    assert found.verdict in found._repr_html_()
    test = found.tests.iloc[0]
    scores = found.scores.query("score == 'dsc' and `class` == 'atrium'").set_index(["method", "output"])["mean"]
    assert test["difference"] == pytest.approx(scores["kl-ent", "bottom"] - scores["lower-bound", "top"])
    assert found.write(tmp_path / "page.html")[0].exists()


def test_a_page_of_one_run_and_of_two_from_python(paths, tmp_path, unpainted):
    assert mixseg.write_report(paths["ours"], tmp_path / "one.html").exists()
    assert "ahead" in mixseg.write_report([paths["lower"], paths["ours"]], tmp_path / "two.html").read_text()
    assert mixseg.open_run(paths["ours"]).report(tmp_path / "again.html").exists()


def test_an_evaluation_from_python_is_that_of_the_command_line(tmp_path):
    sizes = ["--patients", "4", "--val", "1", "--test", "1", "--size", "32", "--keep-full", "all"]
    assert main(["simulate", str(tmp_path / "scans"), "--phantom", "heart", *sizes]) == 0
    masks = tmp_path / "scans" / "labelsTr"
    found = mixseg.evaluate(masks, masks, out=tmp_path / "scores")
    assert (found.scores["dsc"].dropna() == 1).all()
    assert len(pandas.read_csv(tmp_path / "scores" / "metrics.csv")) == len(found.scores)
    assert "<table" in found._repr_html_()
