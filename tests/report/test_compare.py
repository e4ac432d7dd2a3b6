"""Runs side by side: seeds belong together, tests are paired, and unfair comparisons are said to be unfair."""

import csv
import dataclasses
import re
import shutil

import numpy as np
import pytest
from scipy import stats

import found_runs
from fake_runs import write_run
from mixseg.cli import main
from mixseg.core.errors import MixsegError
from mixseg.core.files import write_json
from mixseg.core.text_files import read_json
from mixseg.evaluation.scores import read_metrics, write_metrics
from mixseg.report.comparison import compare_runs, write_comparison
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


def page_of(runs, out, **more):
    return write_comparison(compare_runs(runs, **more), out)[0].read_text(encoding="utf-8")


def score_rows(runs, **more):
    """The head of the scores and their lines."""
    scores = compare_runs(runs, **more).tables[0]
    return [scores.head, *scores.groups[0].lines]


@pytest.fixture(scope="module")
def page(runs, tmp_path_factory):
    return page_of(runs, tmp_path_factory.mktemp("page") / "comparison.html")


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
    page = page_of(runs, tmp_path / "page.html")
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
    head, *lines = score_rows(runs)
    assert head[:4] == ("method", "output", "class", "seeds")
    assert [(*line[:2], line[3]) for line in lines] == [
        ("lower-bound", "network (top)", "1"),
        ("kl-ent", "student (bottom)", "2"),
        ("kl-ent", "teacher (top)", "2"),
        ("kl-ent", "both (ensemble)", "2"),
    ]
    values = [100 * row.dsc for path in runs[1:] for row in answer(path)]
    assert lines[1][head.index("DSC (%)")] == f"{np.mean(values):.2f} ± {np.std(values, ddof=1):.2f}"
    assert lines[1][head.index("scans")] == "8"


def test_distances_stand_in_one_unit_and_the_file_for_programs_has_both(tmp_path):
    for name in ("a", "b"):
        write_run(tmp_path / name, classes=ATRIUM, scans=2, steps=600 if name == "a" else 300)
        metrics = tmp_path / name / "metrics.csv"
        write_metrics(metrics, [dataclasses.replace(row, hd95_mm=2 * row.hd95_vox) for row in read_metrics(metrics)])
    head, *_ = score_rows([tmp_path / "a", tmp_path / "b"])
    assert [each for each in head if each.startswith("HD95")] == ["HD95 (mm)"]
    write_comparison(compare_runs([tmp_path / "a", tmp_path / "b"]), tmp_path / "page.html")
    with (tmp_path / "page.csv").open() as file:
        assert {"hd95_vox", "hd95_mm", "assd_vox"} <= {row["score"] for row in csv.DictReader(file)}


def test_the_page_holds_every_cell_of_the_rows(runs, page):
    for line in score_rows(runs):
        for cell in line:
            assert f">{cell}<" in page


def by_patient(*runs, branch):
    """DSC of each patient, in the mean over its classes and the runs."""
    rows = [row for path in runs for row in answer(path, branch)]
    return np.array(
        [np.mean([row.dsc for row in rows if row.patient == each]) for each in sorted({r.patient for r in rows})]
    )


def test_the_paired_test_is_that_of_scipy_on_the_answers(runs, page):
    ours, theirs = by_patient(*runs[1:], branch="bottom"), by_patient(runs[0], branch="top")
    teacher = by_patient(*runs[1:], branch="top")
    p = [stats.wilcoxon(ours - theirs).pvalue, stats.wilcoxon(ours - teacher).pvalue]
    corrected = [min(1, 2 * each) if each == min(p) else max(each, min(1, 2 * min(p))) for each in p]
    found = re.findall(r"<tr><td>kl-ent, student</td><td>(.*?)</td><td>DSC \(points\)</td>(.*?)</tr>", page)
    assert [name for name, _ in found] == ["lower-bound, network", "kl-ent, teacher"]
    for (_, cells), other, raw, holm in zip(found, (theirs, teacher), p, corrected, strict=True):
        patients, _, difference, interval, effect, *ps = re.findall(r">([^<>]+)<", cells)
        assert patients == "8"
        assert difference == f"{100 * (ours - other).mean():+.2f}"
        low, high = map(float, interval.strip("[]").split(", "))
        assert low <= 100 * (ours - other).mean() <= high
        ranks = stats.rankdata(abs(ours - other))
        assert effect == f"{(ranks * np.sign(ours - other)).sum() / ranks.sum():+.2f}"
        assert ps == [f"{raw:.4f}", f"{holm:.4f}"]


def test_the_first_sentence_names_interval_patients_and_seeds(runs, page):
    (test,) = [t for t in compare_runs(runs).tests if t.metric == "dsc" and t.second == "lower-bound, network"]
    found = test.found
    assert found.settled
    assert (
        f"kl-ent is ahead of lower-bound by {100 * found.difference:.1f} points of DSC (95 % interval "
        f"{100 * found.low:.1f} to {100 * found.high:.1f}; 8 validation patients; 2 and 1 seed"
        in page.replace(", 2", "; 2")
    )


def test_nobody_is_ahead_where_the_interval_holds_0(tmp_path):
    """Of twelve patients one fails: a point in the mean, and nothing to be sure of."""
    for name, scores in (("a", {}), ("b", {"patient011": 0.3})):
        found = {f"patient{i:03}": 0.8 + 0.01 * i for i in range(12)}
        found_runs.write_run(
            tmp_path / name, {"top": found | scores}, method="lower-bound" if name == "a" else "single"
        )
    comparison = compare_runs([tmp_path / "b", tmp_path / "a"])
    assert not comparison.tests[0].found.settled
    assert "ahead" not in comparison.verdict
    assert "12 test patients, 1 seed each" in comparison.verdict
    assert "One seed says nothing" in comparison.tables[1].reading


def test_scans_of_one_patient_count_once(tmp_path):
    for name, shift in (("a", 0.0), ("b", 0.1)):
        scores = {f"patient{i:03}_frame0{frame}": 0.5 + 0.02 * i + shift for i in range(8) for frame in (1, 2)}
        found_runs.write_run(tmp_path / name, {"top": scores}, method="lower-bound" if name == "a" else "single")
    comparison = compare_runs([tmp_path / "a", tmp_path / "b"])
    assert comparison.tests[0].found.patients == 8
    head, line, _ = score_rows([tmp_path / "a", tmp_path / "b"])
    assert (line[head.index("scans")], line[head.index("patients")]) == ("16", "8")


@pytest.fixture
def other(runs, tmp_path):
    """A run on other data, that was scored on fewer scans."""
    write_run(tmp_path / "other", classes=ATRIUM, scans=5, steps=300)
    facts = read_json(tmp_path / "other" / "environment.json")
    write_json(tmp_path / "other" / "environment.json", {**facts, "data": "another hash"})
    return tmp_path / "other"


def test_runs_that_were_scored_on_different_scans_are_refused_with_the_difference(runs, other):
    with pytest.raises(MixsegError) as refused:
        compare_runs([runs[0], other])
    assert refused.value.code == "splits-differ"
    cases = [{row.case for row in read_metrics(path / "metrics.csv")} for path in (runs[0], other)]
    assert refused.value.fields["missing"] == sorted(cases[0] - cases[1])
    assert len(refused.value.fields["missing"]) == 3


def test_runs_on_different_data_are_refused_and_those_of_another_grid_are_not(tmp_path):
    here, there = (write_run_on(tmp_path / name, folder=name, data=f"{name} hash") for name in ("a", "b"))
    with pytest.raises(MixsegError) as refused:
        compare_runs([here, there])
    assert refused.value.code == "data-differ"
    config = read_json(there / "config.json")
    write_json(there / "config.json", {**config, "data": {**config["data"], "partial": "points"}})
    assert len(compare_runs([here, there]).contenders) == 2


def test_different_data_and_different_scans_are_said_aloud(runs, other, tmp_path):
    page = page_of([runs[0], other], tmp_path / "page.html", anyway=True)
    assert page.count('class="warning"') == 2
    assert "trained on different data" in page
    assert "scored on different scans" in page


def test_the_files_beside_the_page_say_the_same(runs, tmp_path):
    found = compare_runs(runs)
    written = write_comparison(found, tmp_path / "page.html")
    assert [path.name for path in written] == ["page.html", "page.md", "page.tex", "page.csv", "page-tests.csv"]
    with (tmp_path / "page.csv").open() as file:
        scores = list(csv.DictReader(file))
    dsc = next(row for row in scores if (row["method"], row["output"], row["score"]) == ("kl-ent", "bottom", "dsc"))
    assert float(dsc["mean"]) == pytest.approx(by_patient(*runs[1:], branch="bottom").mean())
    assert (dsc["patients"], dsc["seeds"]) == ("8", "2")
    with (tmp_path / "page-tests.csv").open() as file:
        tests = list(csv.DictReader(file))
    assert [float(row["p_holm"]) for row in tests] == pytest.approx([each.corrected for each in found.tests])
    for table in found.tables:
        for line in table.groups[0].lines:
            assert all(cell in (tmp_path / "page.md").read_text().replace("\\", "") for cell in line)
    assert (tmp_path / "page.tex").read_text().count(r"\toprule") == 2


def test_a_fair_comparison_has_no_warning(page):
    assert 'class="warning"' not in page


def test_a_run_without_predictions_leaves_its_panels_empty(runs, tmp_path):
    write_run(tmp_path / "unlabeled", classes=ATRIUM)
    (tmp_path / "unlabeled" / "predictions.npz").unlink()
    assert "The same slices" in page_of([runs[0], tmp_path / "unlabeled"], tmp_path / "page.html")


def test_the_test_set_is_compared_only_where_every_run_opened_it(runs, tmp_path):
    for seed in (2, 3):
        write_run(tmp_path / f"open-{seed}", seed=seed, classes=ATRIUM, test=True)
    opened = [tmp_path / "open-2", tmp_path / "open-3"]
    assert score_rows(opened)[1][4] == "4"
    assert score_rows([runs[1], *opened])[1][4] == "8"


def test_an_unfinished_run_is_refused(runs, tmp_path):
    write_run(tmp_path / "half", finished=False)
    with pytest.raises(MixsegError, match="half has no scores yet"):
        score_rows([*runs, tmp_path / "half"])


def test_nothing_to_compare_is_one_sentence():
    with pytest.raises(MixsegError, match="nothing to compare"):
        score_rows([])


@pytest.mark.parametrize("verb", ["report", "compare"])
def test_the_command_line_compares_several_runs(verb, runs, tmp_path, capsys):
    assert main([verb, *map(str, runs), "--out", str(tmp_path / "page.html")]) == 0
    said = capsys.readouterr().out
    assert compare_runs(runs).verdict in said
    assert "Wilcoxon" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_one_run_alone_is_no_comparison(runs, capsys):
    assert main(["compare", str(runs[0])]) == 2
