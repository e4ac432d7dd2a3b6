"""The page of the runs by which the default is chosen: differences are paired by seed and patient."""

import sys
from types import SimpleNamespace

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

import results
from results_choosing import by_patient, difference, is_choice


def group(*of_seeds):
    """Runs of the given seeds: {seed: {output: {scan: dsc}}}."""
    records = [{"config": {"seed": seed}, "scans": scans} for seeds in of_seeds for seed, scans in seeds.items()]
    return SimpleNamespace(records=records)


def test_scans_of_one_patient_count_once():
    assert by_patient({"p1_frame01": 0.8, "p1_frame12": 0.6, "p2_frame01": 0.5, "atrium": 0.25}) == pytest.approx(
        {"p1": 0.7, "p2": 0.5, "atrium": 0.25}
    )


def test_a_difference_is_the_mean_over_patients_of_the_seeds_that_both_have():
    ours = group({0: {"top": {"a": 0.9, "b": 0.7}}}, {1: {"top": {"a": 0.8, "b": 0.7}}}, {2: {"top": {"a": 0, "b": 0}}})
    theirs = group({0: {"x": {"a": 0.8, "b": 0.7}}}, {1: {"x": {"a": 0.8, "b": 0.5}}})
    found = difference(ours, "top", theirs)
    assert found.mean == pytest.approx((5 + 10) / 2)  # of a: 10 and 0 points; of b: 0 and 20
    assert (found.low, found.high) == pytest.approx((5, 10))
    assert difference(theirs, "x", theirs) is None
    assert difference(group({5: {"top": {"a": 1}}}), "top", theirs) is None


def test_an_interval_over_alike_patients_is_a_point_and_over_unlike_ones_is_not():
    theirs = group({0: {"x": dict.fromkeys("abcdefgh", 0.5)}})
    same = difference(group({0: {"top": dict.fromkeys("abcdefgh", 0.6)}}), "top", theirs)
    assert (same.low, same.mean, same.high) == pytest.approx((10, 10, 10))
    mixed = difference(group({0: {"top": {name: 0.5 + (name in "abcd") for name in "abcdefgh"}}}), "top", theirs)
    assert mixed.low < 50 < mixed.high
    assert str(same) == "+10.00 [+10.00, +10.00]"


def test_the_runs_for_choosing_have_no_test_patients_and_stand_on_no_other_page():
    records = results.read_runs()
    choices = [record for record in records if is_choice(record)]
    assert choices
    assert len(choices) < len(records)
    for record in choices:
        assert not record["test"]
        assert {entry["part"] for entry in record["figures"]} == {"val"}
        assert all(len(scans) == record["counts"]["val"] for scans in record["scans"].values())
