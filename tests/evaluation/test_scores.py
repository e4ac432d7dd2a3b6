"""Rows of scores: written and read back, summarised, compared."""

import math

import numpy as np
import pytest

from mixseg.core.errors import MixsegError
from mixseg.evaluation.metrics import METRICS, dice
from mixseg.evaluation.scores import (
    COLUMNS,
    Row,
    difference_text,
    interval_text,
    p_text,
    read_metrics,
    samples,
    score_case,
    summarise,
    table,
    write_metrics,
)
from mixseg.evaluation.statistics import compare, estimate

NAN = math.nan


def row(case, dsc, label="LV", hd95_mm=NAN, **where):
    return Row(case=case, label=label, dsc=dsc, hd95_vox=2.0, hd95_mm=hd95_mm, assd_vox=1.0, assd_mm=NAN, **where)


def test_columns_are_those_of_the_run_folder():
    assert COLUMNS[:9] == ("case", "class", "branch", "checkpoint", "dsc", "hd95_vox", "hd95_mm", "assd_vox", "assd_mm")


def test_rows_survive_writing_and_reading(tmp_path):
    rows = [
        row("a", 0.1 + 0.2, branch="bottom", checkpoint="last", part="test", hd95_mm=1 / 3),
        row("b, with a comma", NAN, label='a "name"'),
    ]
    write_metrics(tmp_path / "metrics.csv", rows)
    text = (tmp_path / "metrics.csv").read_text()
    assert text.splitlines()[0] == ",".join(COLUMNS)
    assert "nan" not in text
    again = read_metrics(tmp_path / "metrics.csv")
    assert [(r.case, r.label, r.branch, r.checkpoint, r.part) for r in again] == [
        (r.case, r.label, r.branch, r.checkpoint, r.part) for r in rows
    ]
    for metric in METRICS:
        np.testing.assert_equal([getattr(r, metric) for r in again], [getattr(r, metric) for r in rows])


def test_a_table_without_the_column_part_can_be_read(tmp_path):
    (tmp_path / "metrics.csv").write_text(",".join(COLUMNS[:9]) + "\na,LV,,,0.5,1,,1,\n")
    (only,) = read_metrics(tmp_path / "metrics.csv")
    assert (only.case, only.dsc, only.part) == ("a", 0.5, "")
    assert math.isnan(only.hd95_mm)


@pytest.mark.parametrize(
    ("content", "message"),
    [("case,class\na,b\n", "no column 'branch'"), (",".join(COLUMNS) + "\na,LV,,,many,1,,1,,\n", "case 'a'.*many")],
)
def test_a_broken_table_is_named(tmp_path, content, message):
    (tmp_path / "metrics.csv").write_text(content)
    with pytest.raises(MixsegError, match=message):
        read_metrics(tmp_path / "metrics.csv")


def test_a_missing_table_is_named(tmp_path):
    with pytest.raises(MixsegError, match=r"nowhere.csv does not exist"):
        read_metrics(tmp_path / "nowhere.csv")


def test_score_case_gives_a_row_for_each_class():
    rng = np.random.default_rng(0)
    prediction, truth = rng.integers(0, 3, (2, 5, 5, 5)).astype(np.uint8)
    key = {"case": "a", "branch": "top", "part": "val"}
    rows = score_case(key, prediction, truth, ("background", "LV", "RV"), (1, 1, 2))
    assert [(r.case, r.label, r.branch, r.checkpoint, r.part) for r in rows] == [
        ("a", "LV", "top", "", "val"),
        ("a", "RV", "top", "", "val"),
    ]
    assert rows[1].dsc == dice(prediction == 2, truth == 2)
    assert rows[1].counts.tp == ((prediction == 2) & (truth == 2)).sum()


def test_summary_has_mean_sd_and_the_count_of_left_out_cases():
    entries = summarise([row("a", 0.5), row("b", 0.9), row("c", NAN)])
    (entry,) = entries
    assert (entry["cases"], entry["left_out"]) == (3, 1)
    assert entry["dsc"] == {"mean": pytest.approx(0.7), "sd": pytest.approx(math.sqrt(0.08))}
    assert entry["hd95_mm"] == {"mean": None, "sd": None}


def test_outputs_and_parts_are_summarised_apart():
    rows = [
        row("a", 0.1, branch="top", checkpoint="last", part="val"),
        row("a", 0.2, branch="bottom", checkpoint="last", part="val"),
        row("a", 0.3, branch="bottom", checkpoint="best", part="val"),
        row("b", 0.4, branch="bottom", checkpoint="best", part="test"),
    ]
    assert [entry["dsc"]["mean"] for entry in summarise(rows)] == [0.1, 0.2, 0.3, 0.4]


def test_with_several_classes_the_mean_of_their_means_follows():
    rows = [row("a", 0.2), row("b", 0.4), row("a", 0.9, label="RV"), row("b", NAN, label="RV")]
    entries = summarise(rows)
    assert [entry["class"] for entry in entries] == ["LV", "RV", "mean"]
    assert entries[-1]["dsc"]["mean"] == pytest.approx((0.3 + 0.9) / 2)
    assert entries[-1]["left_out"] == 1


def test_the_table_shows_percent_and_mm_where_they_are_known():
    lines = table(summarise([row("a", 0.5, hd95_mm=3.0, branch="top"), row("b", 0.7, hd95_mm=5.0, branch="top")]))
    assert lines[0] == ("branch", "class", "cases", "left out", "DSC %", "HD95 mm", "ASSD mm")
    assert lines[1] == ("top", "LV", "2", "0", "60.00 ± 14.14", "4.00 ± 1.41", "-")


def test_the_table_counts_in_voxels_where_no_spacing_is_known():
    head, line = table(summarise([row("a", 0.5)]))
    assert head == ("class", "cases", "left out", "DSC %", "HD95 vox", "ASSD vox")
    assert line == ("LV", "1", "0", "50.00", "2.00", "1.00")


def test_a_comparison_counts_patients_and_not_their_scans():
    """Two scans of each of five patients: of the 2^5 equally likely signs, two are as extreme as all equal."""
    first = [row(f"patient00{i}_frame0{frame}", 0.5 + 0.01 * i + 0.02 * frame) for i in range(5) for frame in (1, 2)]
    second = [row(f"patient00{i}_frame0{frame}", 0.4 + 0.02 * frame) for i in range(5) for frame in (1, 2)]
    found = compare(samples([first]), samples([second]))
    assert (found.patients, found.difference, found.p) == (5, pytest.approx(0.12), pytest.approx(2 / 2**5))


def test_seeds_are_averaged_before_patients_are_paired():
    seeds = [[row(str(i), 0.5 + 0.01 * i + noise) for i in range(6)] for noise in (-0.3, 0.3)]
    plain = [[row(str(i), 0.5 + 0.01 * i) for i in range(6)]]
    other = [[row(str(i), 0.42) for i in range(6)]]
    found = compare(samples(seeds), samples(other))
    assert found.p == compare(samples(plain), samples(other)).p
    assert (found.patients, found.seeds) == (6, (2, 1))


def test_cases_that_are_undefined_or_alone_are_not_compared():
    first, second = [row("a", 0.5), row("b", NAN), row("c", 0.3)], [row("a", 0.4), row("b", 0.4), row("d", 0.1)]
    assert compare(samples([first]), samples([second])).patients == 1


def test_equal_rows_do_not_differ():
    rows = [[row(str(i), 0.1 * i) for i in range(5)]]
    assert compare(samples(rows), samples(rows))[:5] == (5, 0.0, 0.0, 0.0, 1.0)
    assert math.isnan(compare(samples(rows), samples([[]])).p)


def test_rows_of_several_outputs_are_not_mixed():
    with pytest.raises(ValueError, match="several outputs"):
        samples([[row("a", 0.1, branch="top"), row("a", 0.1, branch="bottom")]])


def test_whose_scan_it_is_survives_writing_and_is_read_from_the_name_where_nobody_says(tmp_path):
    write_metrics(tmp_path / "metrics.csv", [row("scan 7", 0.5, patient="Jo"), row("patient007_frame01", 0.5)])
    assert [each.patient for each in read_metrics(tmp_path / "metrics.csv")] == ["Jo", "patient007"]
    (tmp_path / "old.csv").write_text(",".join(COLUMNS[:9]) + "\npatient007_frame02,LV,,,0.5,1,,1,\n")
    assert read_metrics(tmp_path / "old.csv")[0].patient == "patient007"


def test_an_interval_is_written_the_same_way_everywhere():
    found = estimate(samples([[row("a", 0.5), row("b", 0.7)]]), bounds=(0, 1))
    assert interval_text(found, 100) == "[0.0, 100.0]"
    assert interval_text(estimate(samples([[row("a", 0.5)]])), 100) == "-"


@pytest.mark.parametrize(("p", "text"), [(0.0123, "0.0123"), (1.0, "1.0000"), (3.2e-5, "3e-05"), (NAN, "-")])
def test_a_p_value_is_written_the_same_way_everywhere(p, text):
    assert p_text(p) == text


def test_a_difference_of_nothing_is_no_number():
    assert difference_text(math.nan, 100) == "-"
    assert difference_text(-0.0123, 100) == "-1.23"
