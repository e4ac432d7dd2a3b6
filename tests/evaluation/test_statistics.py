"""Intervals and paired tests against closed forms, second implementations, and what must not change them."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mixseg.evaluation.statistics import compare, estimate, holm, signed_ranks

NAN = math.nan
scores = st.lists(st.floats(0, 1, allow_subnormal=False), min_size=2, max_size=9)
few = settings(max_examples=40, deadline=None, derandomize=True)


def of(*seeds, label="LV"):
    """Scores of patients 0, 1, ... in each training."""
    return [[(f"{number:03}", label, value) for number, value in enumerate(values)] for values in seeds]


def test_below_six_patients_the_interval_is_that_of_student():
    values = [0.81, 0.93, 0.88, 0.7, 0.9]
    for patients in (2, 3, 4, 5):
        chosen = values[:patients]
        low, high = stats.t.interval(0.95, patients - 1, np.mean(chosen), stats.sem(chosen))
        found = estimate(of(chosen))
        assert (found.mean, found.patients, found.seeds) == (pytest.approx(np.mean(chosen)), patients, 1)
        assert found.high - found.low == pytest.approx(high - low, rel=0.03), "the spread is drawn, not computed"
        assert (found.low + found.high) / 2 == pytest.approx(np.mean(chosen))


def test_of_six_patients_all_draws_can_be_counted():
    values = np.array([0.2, 0.8, 0.83, 0.85, 0.9, 0.91])
    every = np.array([np.mean(draw) for draw in itertools.product(values, repeat=5)])
    tail = stats.norm.cdf(stats.t.ppf(0.025, 5))
    found = estimate(of(values))
    assert found.low == pytest.approx(np.quantile(every, tail), abs=0.02)
    assert found.high == pytest.approx(np.quantile(every, 1 - tail), abs=0.005)
    assert found.mean - found.low > 1.5 * (found.high - found.mean), "one failure pulls to its side alone"


def test_of_many_patients_it_is_scipys_bootstrap():
    values = np.random.default_rng(3).beta(17, 3, 200)
    theirs = stats.bootstrap((values,), np.mean, method="percentile", rng=np.random.default_rng(0)).confidence_interval
    found = estimate(of(values))
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high), abs=0.05 * (theirs.high - theirs.low))


def test_a_second_scan_of_a_patient_that_says_the_same_narrows_nothing():
    values = np.random.default_rng(0).random(8)
    once = of(values)
    assert estimate([once[0] * 2]) == estimate(once)
    as_patients = [(f"{name} again", label, value) for name, label, value in once[0]]
    narrow, wide = estimate([once[0] + as_patients]), estimate(once)
    assert narrow.high - narrow.low < 0.8 * (wide.high - wide.low)


def test_patients_and_seeds_that_add_up_have_the_spread_of_both():
    """x = patient + seed: the variance of the mean is that of patients over their number and of seeds over theirs."""
    patients, seeds = np.array([0.7, 0.75, 0.8, 0.9]), np.array([-0.04, 0.01, 0.03])
    parts = patients.var(ddof=1) / 4, seeds.var(ddof=1) / 3
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / 3 + parts[1] ** 2 / 2)
    found = estimate(of(*(patients + seed for seed in seeds)))
    assert found.seeds == 3
    assert found.high - found.low == pytest.approx(2 * stats.t.ppf(0.975, freedom) * math.sqrt(sum(parts)), rel=0.05)


def test_seeds_that_disagree_widen_the_interval_of_many_patients():
    patients = np.random.default_rng(1).normal(0.8, 0.01, 40)
    one, three = estimate(of(patients)), estimate(of(patients - 0.05, patients, patients + 0.05))
    assert three.mean == pytest.approx(one.mean)
    assert three.high - three.low > 10 * (one.high - one.low)


def test_classes_count_alike_however_many_patients_have_them():
    values = [[("a", "LV", 0.2), ("b", "LV", 0.4), ("a", "RV", 0.9), ("b", "RV", NAN)]]
    assert estimate(values).mean == pytest.approx((0.3 + 0.9) / 2)
    assert estimate(values).patients == 2


def test_a_class_of_one_patient_among_many_is_drawn_at_times_alone():
    values = [[*of([0.5] * 10)[0], ("003", "RV", 0.9)]]
    found = estimate(values)
    assert found.mean == pytest.approx(0.7)
    assert (found.low, found.high) == (pytest.approx(0.5), pytest.approx(0.7)), "without the patient there is no RV"


def test_what_cannot_be_known_is_nan():
    alone = estimate(of([0.8]))
    assert (alone.mean, alone.patients, alone.known) == (0.8, 1, False)
    assert not estimate(of([0.8], [0.9])).known, "seeds say nothing of other patients"
    nothing = estimate(of([NAN]))
    assert (nothing.patients, nothing.known) == (0, False)
    assert math.isnan(nothing.mean)


def test_an_interval_stays_within_what_a_score_can_be():
    assert estimate(of([0.5, 0.9])).high > 1
    assert estimate(of([0.5, 0.9]), bounds=(0, 1))[1:3] == (0, 1)


@few
@given(scores, st.floats(0.1, 10), st.floats(-5, 5))
def test_an_interval_moves_and_stretches_with_the_scores(values, factor, shift):
    found, moved = estimate(of(values)), estimate(of([factor * value + shift for value in values]))
    expected = [factor * each + shift for each in found[:3]]
    assert moved[:3] == pytest.approx(expected, abs=1e-6)


@few
@given(scores, st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing_and_a_repetition_neither(values, random):
    rows = of(values)[0]
    shuffled = random.sample(rows, len(rows))
    assert estimate([shuffled]) == estimate([rows]) == estimate([rows])


@pytest.mark.parametrize("patients", [3, 10])
def test_intervals_hold_the_truth_about_as_often_as_they_say(patients):
    """300 samples: 95 % less three standard errors, and two points for scores that are not normal."""
    rng = np.random.default_rng(patients)
    found = [estimate(of(rng.beta(17, 3, patients)), bounds=(0, 1)) for _ in range(300)]
    held = np.mean([each.low <= 17 / 20 <= each.high for each in found])
    assert held > 0.93 - 3 * math.sqrt(0.95 * 0.05 / 300)


def test_the_interval_of_a_difference_leaves_out_what_patients_share():
    patients = np.random.default_rng(0).random(12)
    found = compare(of(patients + 0.03), of(patients))
    assert (found.low, found.high) == (pytest.approx(0.03), pytest.approx(0.03))
    assert (found.settled, found.patients, found.effect, found.seeds) == (True, 12, 1, (1, 1))


def test_seeds_that_differ_more_than_methods_settle_nothing():
    """Half a point, the same on all of 20 patients: sure of these two trainings, not of these two methods."""
    patients, shift = np.random.default_rng(0).random(20), np.array([-0.04, 0.0, 0.04])
    found = compare(of(*(patients + 0.005 + each for each in shift)), of(*(patients + each for each in shift)))
    assert found.p < 0.001
    assert not found.settled
    assert compare(of(patients + 0.005), of(patients)).settled


def test_only_patients_that_both_have_are_compared():
    found = compare(of([0.5, NAN, 0.3]), [[("000", "LV", 0.4), ("001", "LV", 0.4), ("007", "LV", 0.1)]])
    assert (found.patients, found.difference) == (1, pytest.approx(0.1))
    assert math.isnan(found.low)
    assert math.isnan(compare(of([0.5]), of([NAN])).p)


def test_the_same_does_not_differ():
    rows = of(np.linspace(0.1, 0.9, 7))
    assert compare(rows, rows) == (7, 0.0, 0.0, 0.0, 1.0, 0.0, (1, 1))


@few
@given(st.lists(st.integers(-20, 20).filter(bool), min_size=1, max_size=8, unique_by=abs))
def test_signed_ranks_are_those_of_all_signs(differences):
    """Under the null every sign is as likely as the other: of 2^n, how many are as extreme."""
    p, effect = signed_ranks(np.array(differences, float))
    ranks = stats.rankdata(np.abs(differences))
    signed = float((ranks * np.sign(differences)).sum())
    every = [float((ranks * signs).sum()) for signs in itertools.product((-1, 1), repeat=len(ranks))]
    assert p == pytest.approx(np.mean([abs(each) >= abs(signed) for each in every]))
    assert effect == pytest.approx(signed / ranks.sum())


@few
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_is_that_of_statsmodels(values):
    from statsmodels.stats.multitest import multipletests

    assert holm(values) == pytest.approx(multipletests(values, method="holm")[1], abs=1e-12)


def test_holm_multiplies_the_smallest_p_most_and_never_lets_a_larger_one_fall_below():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]


def test_holm_leaves_out_what_was_not_tested():
    corrected = holm([0.02, NAN, 0.03])
    assert (corrected[0], corrected[2]) == (pytest.approx(0.04), pytest.approx(0.04))
    assert math.isnan(corrected[1])
