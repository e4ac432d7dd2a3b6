"""Runs side by side: seeds belong together, tests are paired, and unfair comparisons are said to be unfair."""

import re
import shutil

import numpy as np
import pytest

from fake_runs import write_run
from mixseg.cli import main
from mixseg.core.errors import MixsegError
from mixseg.core.files import read_json, write_json
from mixseg.evaluation.scores import read_metrics, wilcoxon
from mixseg.report.comparison import comparison_rows, write_comparison
from mixseg.report.contenders import folder_names, gather

ATRIUM = ("background", "atrium")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A lower bound, and two seeds of the method."""
    root = tmp_path_factory.mktemp("runs")
    write_run(root / "lower", method="lower-bound", branches={"top": 0.3}, classes=ATRIUM)
    for seed in (0, 1):
        write_run(root / f"ours-{seed}", seed=seed, classes=ATRIUM)
    return [root / "lower", root / "ours-0", root / "ours-1"]


@pytest.fixture(scope="module")
def page(runs, tmp_path_factory):
    return write_comparison(runs, tmp_path_factory.mktemp("page") / "comparison.html").read_text(encoding="utf-8")


def answer(path, branch="bottom"):
    return [row for row in read_metrics(path / "metrics.csv") if (row.checkpoint, row.branch) == ("last", branch)]


def test_runs_that_differ_in_their_seed_alone_are_one_method(runs):
    assert [(each.name, len(each.runs)) for each in gather(runs)] == [("lower-bound", 1), ("kl-ent", 2)]


def test_runs_of_one_method_are_told_apart_by_what_differs(tmp_path):
    for name, ramp in (("a", 0.0), ("b", 0.3)):
        write_run(tmp_path / name, ramp=ramp, scans=2, classes=ATRIUM)
    assert [each.name for each in gather([tmp_path / "a", tmp_path / "b"])] == [
        "kl-ent (ramp 0.0)",
        "kl-ent (ramp 0.3)",
    ]


def test_runs_that_differ_in_more_than_a_name_can_say_are_told_apart_by_their_folders(tmp_path):
    write_run(tmp_path / "small", scans=2, classes=ATRIUM)
    more = {"ramp": 0.3, "width": 20, "temperature": 2.0, "divergence": "alpha-2", "schedule": "constant"}
    write_run(tmp_path / "large", **more, scans=2, classes=ATRIUM)
    found = gather([tmp_path / "small", tmp_path / "large"])
    assert [each.name for each in found] == ["kl-ent (small)", "kl-ent (large)"]


@pytest.mark.usefixtures("unpainted")
def test_folders_of_one_name_are_told_apart_by_those_above_them(tmp_path):
    more = {"ramp": 0.3, "width": 20, "temperature": 2.0, "divergence": "alpha-2", "schedule": "constant"}
    runs = [tmp_path / "A" / "run", tmp_path / "B2" / "run"]
    for path, changes in zip(runs, ({}, more), strict=True):
        write_run(path, **changes, scans=2, classes=ATRIUM)
    assert [each.name for each in gather(runs)] == ["kl-ent (A/run)", "kl-ent (B2/run)"]
    page = write_comparison(runs, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<td>kl-ent (B2/run), student</td><td>kl-ent (A/run), student</td>" in page
    assert ">A/run<" in page
    assert folder_names([tmp_path / "a" / "x" / "run", tmp_path / "b" / "x" / "run"]) == ["a/x/run", "b/x/run"]
    assert folder_names([tmp_path / "a" / "one", tmp_path / "two"]) == ["one", "two"]
    assert folder_names([tmp_path, tmp_path / tmp_path.name])[1].endswith(f"{tmp_path.name}/{tmp_path.name}")


def test_a_folder_that_is_named_twice_counts_once(runs):
    assert [len(each.runs) for each in gather([*runs, runs[1], runs[1].parent / "lower" / ".." / "ours-0"])] == [1, 2]


def test_a_copy_of_a_run_is_no_second_seed(runs, tmp_path):
    copy = shutil.copytree(runs[1], tmp_path / "copy")
    with pytest.raises(MixsegError, match=r"ours-0 and .*copy have the same config, data and seed: .* leave one"):
        gather([*runs, copy])


def test_runs_of_one_seed_on_the_proposals_of_different_runs_are_different_runs(tmp_path):
    origins = [{"methods": ["kl"], "checkpoint": checkpoint} for checkpoint in ("12", "34")]
    runs = [write_run_on(tmp_path / each["checkpoint"], proposals=each) for each in origins]
    assert [len(each.runs) for each in gather(runs)] == [2]


def test_runs_that_segment_nothing_in_common_are_not_compared(tmp_path):
    write_run(tmp_path / "atria", scans=2, classes=ATRIUM)
    write_run(tmp_path / "livers", scans=2, classes=("background", "liver"))
    with pytest.raises(MixsegError, match=r"no class in common \(.*atria: .*; .*livers: liver\)"):
        gather([tmp_path / "atria", tmp_path / "livers"])


def write_run_on(path, *, seed=0, **facts):
    """A run with other facts about its data."""
    write_run(path, seed=seed, scans=2, classes=ATRIUM)
    write_json(path / "environment.json", read_json(path / "environment.json") | facts)
    return path


def test_runs_on_different_data_are_no_seeds_of_one_method(tmp_path):
    hearts = write_run_on(tmp_path / "a", folder="scans", data="1234567890")
    livers = write_run_on(tmp_path / "b", folder="scans", data="abcdefghij")
    assert [each.name for each in gather([hearts, livers])] == [
        'kl-ent (data "scans 12345678")',
        'kl-ent (data "scans abcdefgh")',
    ]


def test_the_same_data_is_the_same_whatever_its_folder_is_called(tmp_path):
    names = (("a", "scans"), ("b", "arrays"), ("c", ""))
    runs = [write_run_on(tmp_path / run, seed=at, folder=folder) for at, (run, folder) in enumerate(names)]
    assert [(each.name, len(each.runs)) for each in gather(runs)] == [("kl-ent", 3)]


def test_the_rows_hold_the_means_over_scans_and_seeds(runs):
    head, *lines = comparison_rows(runs)
    assert head[:3] == ("method", "output", "seeds")
    assert [line[:3] for line in lines] == [
        ("lower-bound", "network (top)", "1"),
        ("kl-ent", "student (bottom)", "2"),
        ("kl-ent", "teacher (top)", "2"),
        ("kl-ent", "both (ensemble)", "2"),
    ]
    values = [100 * row.dsc for path in runs[1:] for row in answer(path)]
    assert lines[1][head.index("DSC (%)")] == f"{np.mean(values):.2f} ± {np.std(values, ddof=1):.2f}"
    assert lines[1][head.index("scans")] == "8"


def test_the_page_holds_every_cell_of_the_rows(runs, page):
    for line in comparison_rows(runs):
        for cell in line:
            assert f">{cell}<" in page


def test_the_paired_test_is_that_of_the_answers_with_seeds_averaged(runs, page):
    found = wilcoxon([row for path in runs[1:] for row in answer(path)], answer(runs[0], "top"))
    row = re.search(r"<tr><td>kl-ent, student</td><td>lower-bound, network</td>(.*?)</tr>", page)[1]
    assert re.findall(r">([^<>]+)<", row) == ["8", f"{100 * found.difference:+.2f}", f"{found.p:.4f}"]
    assert "<td>kl-ent, teacher</td>" in page


def test_the_first_sentence_says_who_is_ahead(runs, page):
    means = [np.mean([100 * row.dsc for path in of for row in answer(path, branch)])
             for of, branch in ((runs[:1], "top"), (runs[1:], "bottom"))]  # fmt: skip
    assert (
        f"kl-ent is ahead with {means[1]:.1f} % DSC on 8 validation scans, "
        f"{means[1] - means[0]:.1f} points above lower-bound."
    ) in page


def test_different_data_and_different_scans_are_said_aloud(runs, tmp_path):
    other = tmp_path / "other"
    write_run(other, classes=ATRIUM, scans=5, steps=300)
    facts = read_json(other / "environment.json")
    write_json(other / "environment.json", {**facts, "data": "another hash"})
    page = write_comparison([runs[0], other], tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count('class="warning"') == 2
    assert "trained on different data" in page
    assert "scored on different scans" in page


def test_a_fair_comparison_has_no_warning(page):
    assert 'class="warning"' not in page


def test_a_run_without_predictions_leaves_its_panels_empty(runs, tmp_path):
    write_run(tmp_path / "unlabeled", classes=ATRIUM)
    (tmp_path / "unlabeled" / "predictions.npz").unlink()
    assert "The same slices" in write_comparison([runs[0], tmp_path / "unlabeled"], tmp_path / "page.html").read_text()


def test_the_test_set_is_compared_only_where_every_run_opened_it(runs, tmp_path):
    for seed in (2, 3):
        write_run(tmp_path / f"open-{seed}", seed=seed, classes=ATRIUM, scans=2, test=True)
    opened = [tmp_path / "open-2", tmp_path / "open-3"]
    assert comparison_rows(opened)[1][4] == "4"
    assert comparison_rows([runs[1], *opened])[1][4] == "8"


def test_an_unfinished_run_is_refused(runs, tmp_path):
    write_run(tmp_path / "half", finished=False)
    with pytest.raises(MixsegError, match="half has no scores yet"):
        comparison_rows([*runs, tmp_path / "half"])


def test_nothing_to_compare_is_one_sentence():
    with pytest.raises(MixsegError, match="nothing to compare"):
        comparison_rows([])


def test_the_command_line_compares_several_runs(runs, tmp_path, capsys):
    assert main(["report", *map(str, runs), "--out", str(tmp_path / "page.html")]) == 0
    assert "kl-ent" in capsys.readouterr().out
    assert "Wilcoxon" in (tmp_path / "page.html").read_text(encoding="utf-8")
