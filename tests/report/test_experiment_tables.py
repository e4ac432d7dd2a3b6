"""The table of an experiment: hand-computed values, the paper's beside them, and gaps that say why."""

import re

import numpy as np
import pytest
from scipy import stats

from found_runs import cell, row, run_of, write_experiment, write_run
from mixseg.experiments.plan import Cell
from mixseg.experiments.states import record_failure
from mixseg.report.experiment.results import read_results
from mixseg.report.experiment.tables import score_records, score_table
from mixseg.report.experiment.tables_latex import escape, latex
from mixseg.report.experiment.tables_markdown import markdown
from mixseg.report.experiment.tables_paper import paper_value
from mixseg.report.experiment.tables_tests import paired_tests, reference
from mixseg.report.experiment.tables_tests import table_of_tests as written

SCANS = [f"p{number}" for number in range(8)]


def table_of(folder):
    """The lines of the table as dictionaries, by group; the two columns "paper" are told apart."""
    table = score_table(read_results(folder))
    head = list(table.head)
    for measure in ("DSC", "HD95"):
        if "paper" in head:
            head[head.index("paper")] = f"paper {measure}"
    return {group.heading: [dict(zip(head, line, strict=True)) for line in group.lines] for group in table.groups}


@pytest.fixture
def main(tmp_path):
    """kl-ent with two of three seeds, a lower bound that failed, a single that was stopped, others that never ran."""
    kl_ent = cell("kl-ent", ("bottom", "top"), seeds=(0, 1, 2))
    others = [cell("lower-bound"), cell("single"), cell("kl", ("bottom", "top"))]
    never = Cell("kl-ent", "set-10", ("bottom",), missing="not enough scans")
    folder = write_experiment(tmp_path, [kl_ent, *others, never])
    for seed, shift in ((0, 0.0), (1, 0.1)):
        last = {"bottom": {"a": 0.5 + shift, "b": 0.7 + shift}, "top": {"a": 0.3, "b": 0.5}}
        best = {"bottom": {"a": 0.9, "b": 0.8}, "top": {"a": 0.4, "b": 0.4}}
        far = {"bottom": {"a": 4.0, "b": 8.0 + 20 * shift}}
        write_run(run_of(tmp_path, kl_ent, seed), last, best, hd95=far, method="kl-ent", seed=seed)
    record_failure(run_of(tmp_path, others[0]), "the disk was full.")
    write_run(run_of(tmp_path, others[1]), {}, finished=False, method="single", log=[{"step": 30, "loss": 1.0}])
    return folder


def test_a_cell_is_the_mean_over_seeds_of_the_mean_over_scans_with_its_spread_and_the_papers_value(main):
    teacher, student = table_of(main)["Set-3"][:2]
    assert (student["output"], student["seeds"]) == ("student", "2 of 3")
    # Seeds have 60 and 70: mean 65, sd sqrt(50) = 7.07. The paper prints 86.94.
    assert student["DSC last"] == "65.00 ± 7.07 (-21.94)"
    assert student["DSC best"] == "85.00 ± 0.00 (-1.94)"
    assert student["paper DSC"] == "86.94"
    # Seeds have 6 and 7; the paper prints 8.84.
    assert student["HD95 last"] == "6.50 ± 0.71 (-2.34)"
    assert student["paper HD95"] == "8.84"
    assert (teacher["output"], teacher["DSC last"]) == ("teacher", "40.00 ± 0.00 (-38.38)")


def test_a_cell_without_a_value_says_why(main):
    lines = {(line["method"], line["output"]): line for line in table_of(main)["Set-3"]}
    assert lines["lower-bound", "network"]["DSC last"] == "failed"
    assert lines["single", "network"]["HD95 best"] == "not finished"
    assert lines["kl", "student"]["DSC best"] == "not run"
    assert lines["kl", "student"]["paper DSC"] == "71.49", "what the paper has is said all the same"
    assert lines["kl", "teacher"]["seeds"] == "0 of 1"
    assert table_of(main)["Set-10"][0]["DSC last"] == "not enough scans"
    cells = [text for group in score_table(read_results(main)).groups for line in group.lines for text in line]
    assert all(text.strip() for text in cells)


def test_several_classes_are_averaged_within_each_seed(tmp_path):
    two = cell("kl-ent", ("bottom",))
    folder = write_experiment(tmp_path, [two])
    extra = [row("a", 0.2, 1.0, "bottom", "last", label="RV"), row("b", 0.4, 1.0, "bottom", "last", label="RV")]
    write_run(run_of(tmp_path, two), {"bottom": {"a": 0.6, "b": 0.8}}, rows=extra)
    assert table_of(folder)["Set-3"][0]["DSC last"] == "50.00 (-36.94)"


def test_a_dataset_that_the_paper_does_not_have_gets_no_column_of_its_values(tmp_path):
    folder = write_experiment(tmp_path, [cell("kl-ent", ("bottom",))], dataset="phantom")
    table = score_table(read_results(folder))
    assert "paper" not in table.head
    assert "The paper prints no values of this on phantom." in table.reading


@pytest.mark.parametrize(
    ("experiment", "where", "output", "expected"),
    [
        ("main", Cell("kl", "set-5", ("bottom", "top")), "top", (80.64, 23.25)),
        ("main", Cell("upper-bound", "all", ("top",)), "top", (93.31, 3.46)),
        ("proposals", Cell("proposals-kl", "set-10", ("top",)), "top", (89.26, 7.98)),
        ("proposals", Cell("min-entropy", "set-3", ("bottom",)), "bottom", (None, None)),
        ("semi-supervised", Cell("kl-ent", "set-3", ("bottom", "top")), "top", (None, None)),
        ("glmi-weights", Cell("2", "1", ("top",)), "top", (74.7, None)),
        ("single-entropy-weight", Cell("0.0", "set-5", ("top",)), "top", (70.73, 51.34)),
        ("self-training", Cell("kl, round 1", "set-3", ("top",)), "top", (None, None)),
    ],
)
def test_values_of_the_paper_are_found_in_every_kind_of_its_tables(experiment, where, output, expected):
    found = tuple(paper_value("acdc", experiment, where, output, metric) for metric in ("dsc", "hd95_vox"))
    assert found == expected


def compared(tmp_path, labels, *, experiment="main", dataset="acdc", **series):
    """An experiment whose rows have 8 scans; the n-th is 0.05 n better on all but the last scan."""
    cells = [cell(label, ("top",), series=series.get(label, "")) for label in labels]
    folder = write_experiment(tmp_path, cells, experiment=experiment, dataset=dataset)
    for number, each in enumerate(cells):
        scores = {scan: 0.5 + 0.04 * i + (0.05 if i < 7 else -0.1) * number for i, scan in enumerate(SCANS)}
        write_run(folder.parent / "runs" / each.runs[0], {"top": scores}, method="lower-bound")
    return folder, cells


def table_of_tests(folder):
    results = read_results(folder)
    return written(results, paired_tests(results))


def test_tests_are_paired_over_patients_and_corrected_by_holm(tmp_path):
    folder, _ = compared(tmp_path, ["single", "kl-ent", "lower-bound"])
    (group,) = table_of_tests(folder).groups
    dsc = [line for line in group.lines if line[2] == "DSC (points)"]
    assert [line[:5] for line in dsc] == [
        ("kl-ent, network", "single, network", "DSC (points)", "8", "1"),
        ("kl-ent, network", "lower-bound, network", "DSC (points)", "8", "1"),
    ]
    # First minus second: 7 patients by +5 and one by -10 points; 7 by -5 and one by +10.
    differences = [np.array([5.0] * 7 + [-10]), np.array([-5.0] * 7 + [10])]
    assert [float(line[5]) for line in dsc] == pytest.approx([25 / 8, -25 / 8], abs=0.006)
    p = [stats.wilcoxon(each).pvalue for each in differences]
    assert [float(line[8]) for line in dsc] == pytest.approx(p, abs=5e-5)
    assert [float(line[9]) for line in dsc] == pytest.approx([2 * each for each in p], abs=5e-5), "two equal ones"
    assert [line[7] for line in dsc] == ["+0.56", "-0.56"], "ranks 4 each for seven and 8 for one: (28 - 8) / 36"


def test_seeds_that_disagree_about_a_scan_are_one_value_of_it(tmp_path):
    steady, torn = cell("steady", seeds=(0, 1)), cell("kl-ent", seeds=(0, 1))
    folder = write_experiment(tmp_path, [steady, torn])
    for seed, shift in ((0, 0.3), (1, -0.3)):
        write_run(run_of(tmp_path, steady, seed), {"top": dict.fromkeys(SCANS, 0.5)}, seed=seed)
        write_run(run_of(tmp_path, torn, seed), {"top": dict.fromkeys(SCANS, 0.5 + shift)}, seed=seed)
    line, _ = table_of_tests(folder).groups[0].lines
    assert (line[3:6], line[8:]) == (("8", "2", "+0.00"), ("1.0000", "1.0000"))


def test_the_interval_of_a_mean_is_that_over_patients_and_seeds(main):
    _, student = table_of(main)["Set-3"][:2]
    found = next(each for each in read_results(main).filled if each.cell.row == "kl-ent")
    within = found.estimate("dsc", part="test", output="bottom")
    assert (within.patients, within.seeds) == (2, 2)
    assert student["95 % interval"] == "-" or within.known
    table = score_table(read_results(main))
    at = table.head.index("DSC last") + 1
    assert table.head[at] == "95 % interval"
    assert table.groups[0].lines[1][at] == f"[{100 * within.low:.1f}, {100 * within.high:.1f}]"
    numbers = next(
        each for each in score_records(read_results(main)) if (each["output"], each["score"]) == ("bottom", "dsc")
    )
    assert (numbers["mean"], numbers["low"], numbers["high"]) == pytest.approx((within.mean, within.low, within.high))
    assert numbers["sd_over_seeds"] == pytest.approx(np.std([0.6, 0.7], ddof=1))


def test_the_reference_is_chosen_without_a_look_at_our_scores(tmp_path):
    def held(labels, **more):
        results = read_results(compared(tmp_path / "-".join(labels), labels, **more)[0])
        return reference(results, results.filled).cell.row

    assert held(["single", "kl-ent"]) == "kl-ent"
    assert held(["kl", "alpha-2", "alpha-5"], experiment="divergence") == "alpha-2", "the paper's best"
    assert held(["1", "2"], dataset="phantom", experiment="partial-ratio") == "1", "the first"


def test_each_curve_has_a_reference_of_its_own(tmp_path):
    series = {"one, 0": "one", "one, 1": "one", "two, 0": "two", "two, 1": "two"}
    folder, _ = compared(tmp_path, list(series), experiment="self-training", **series)
    (group,) = table_of_tests(folder).groups
    assert [line[:2] for line in group.lines[::2]] == [
        ("one, 0, network", "one, 1, network"),
        ("two, 0, network", "two, 1, network"),
    ]


def test_without_two_finished_rows_there_is_nothing_to_test(tmp_path):
    assert table_of_tests(compared(tmp_path, ["single"])[0]) is None


ODD = r"50% of a_b & {c} \d #1 $x$ ~^ | <i>*"


@pytest.fixture
def odd(tmp_path):
    """A table with a row that every format has to escape."""
    folder = write_experiment(tmp_path, [cell("x", ("top",)), Cell(ODD, "set-3", ("top",), {0: "odd"})], title=ODD)
    write_run(tmp_path / "runs" / "odd", {"top": {"a": 0.5, "b": 0.25}})
    return score_table(read_results(folder))


def test_latex_is_balanced_and_every_line_has_as_many_cells_as_there_are_columns(odd):
    text = latex(odd, "acdc-main")
    unlabeled = re.sub(r"\\[\\{}&%$#_]", "", "\n".join(line for line in text.splitlines() if not line.startswith("%")))
    assert unlabeled.count("{") == unlabeled.count("}")
    depth = np.cumsum([{"{": 1, "}": -1}.get(letter, 0) for letter in unlabeled])
    assert depth.min() == 0
    assert unlabeled.count("$") % 2 == 0
    assert not set(unlabeled) & {"%", "#", "_", "~", "^", "±"}
    assert re.findall(r"\\begin\{(.*?)\}", text) == re.findall(r"\\end\{(.*?)\}", text)[::-1]
    columns = len(re.search(r"\\begin\{tabular\}\{([lr]+)\}", text)[1])
    assert columns == len(odd.head)
    body = text.split(r"\toprule")[1].split(r"\bottomrule")[0]
    lines = [line for line in body.splitlines() if line and "multicolumn" not in line]
    assert all(line.endswith(r"\\") for line in lines)
    assert [len(re.findall(r"(?<!\\)&", line)) for line in lines] == [columns - 1] * 3


def test_the_caption_is_short_and_how_to_read_the_table_is_a_comment(odd):
    text = latex(odd, "x")
    assert len(re.search(r"\\caption\{(.*)\}", text)[1]) < 3 * len(ODD)
    beginning = text.split(r"\begin{table*}")[0].splitlines()
    assert all(line.startswith("%") for line in beginning if line)
    assert odd.reading[:40] in text


def test_latex_labels_hold_letters_digits_and_hyphens_alone(odd):
    assert r"\label{tab:heart-50-b-main-tests}" in latex(odd, "heart 50%&#_b-main-tests")


def test_latex_sets_values_in_mathematical_type_and_words_as_they_are(main):
    text = latex(score_table(read_results(main)), "x")
    assert r"$65.00 \pm 7.07$ {\scriptsize $(-21.94)$}" in text
    assert " & not enough scans & " in text
    assert escape(r"a\b") == r"a\textbackslash{}b"


def test_markdown_has_as_many_cells_in_every_line_and_no_stray_marks(odd):
    text = markdown(odd)
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {len(odd.head) + 1}
    assert r"\<i\>\*" in text
    assert r"a\_b" in text
