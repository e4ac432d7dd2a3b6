"""Means with an interval, and paired comparisons. The units are patients: the scans of one are not independent.

Two things are left to chance in a mean DSC: which patients were scored, and with which seeds the method was trained.
The bootstrap draws both anew, patients with all of their scans. ``docs/reference/statistics.md`` has the formulas, and
how often the intervals hold the truth where it is known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Value = tuple[str, str, float]
"""Patient, class, score. A scan has one for each of its classes; one that is ``nan`` is left out."""

LEVEL = 0.95
RESAMPLES = 5000
FEWEST = 5.0
"""Degrees of freedom, those of 6 patients, below which no percentile of resamples is far enough out for 95 %."""


class Estimate(NamedTuple):
    """A mean and where it may lie.

    Attributes:
        mean: Over scans, then over classes; ``nan`` without any value.
        low: Of the 95 % interval; ``nan`` with one patient, from whom nothing follows for others.
        high: Of the same.
        patients: How many have a value.
        seeds: How many trainings were drawn from; with one, the interval holds the chance of patients alone.
    """

    mean: float
    low: float
    high: float
    patients: int
    seeds: int

    @property
    def known(self) -> bool:
        """Whether there is an interval."""
        return not math.isnan(self.low)


class Comparison(NamedTuple):
    """Two methods on the same patients.

    Attributes:
        patients: How many were compared.
        difference: Mean of first minus second, over scans, then over classes.
        low: Of the 95 % interval of the difference; ``nan`` with one patient.
        high: Of the same.
        p: Of the two-sided Wilcoxon signed-rank test over patients; 1 where none differs, ``nan`` without patients.
        effect: Matched-pairs rank-biserial correlation, from -1 (the second is better on every patient) to 1.
        seeds: Trainings of the first and of the second.
    """

    patients: int
    difference: float
    low: float
    high: float
    p: float
    effect: float
    seeds: tuple[int, int]

    @property
    def settled(self) -> bool:
        """Whether the interval leaves 0 out: no method is ahead otherwise."""
        return self.low > 0 or self.high < 0


def estimate(seeds: Sequence[Iterable[Value]], *, bounds: tuple[float, float] = (-math.inf, math.inf)) -> Estimate:
    """The mean of what was scored, and its 95 % interval.

    Args:
        seeds: The scores of each training of a method, on the same scans. One training: a list of one.
        bounds: What a score can be: no interval goes beyond.
    """
    sample = _sample([list(values) for values in seeds])
    if sample is None:
        return Estimate(math.nan, math.nan, math.nan, 0, 0)
    low, high = _interval([sample], [1.0], bounds)
    return Estimate(sample.mean, low, high, len(sample.patients), sample.seeds)


def compare(first: Sequence[Iterable[Value]], second: Sequence[Iterable[Value]]) -> Comparison:
    """Whether two methods differ, on the patients that both were scored on: of whom and which class both have a value.

    Args:
        first: The scores of each training of one method.
        second: Those of another one. Seeds are not paired: another method makes another use of the same one.
    """
    one, other = ([list(values) for values in seeds] for seeds in (first, second))
    both = _places(one) & _places(other)
    a, b = (_sample([[v for v in values if v[:2] in both] for values in seeds]) for seeds in (one, other))
    if a is None or b is None:
        return Comparison(0, math.nan, math.nan, math.nan, math.nan, math.nan, (len(first), len(second)))
    low, high = _interval([a, b], [1.0, -1.0], (-math.inf, math.inf))
    differences = a.by_patient() - b.by_patient()
    p, effect = signed_ranks(differences)
    return Comparison(len(differences), a.mean - b.mean, low, high, p, effect, (a.seeds, b.seeds))


def signed_ranks(differences: Array) -> tuple[float, float]:
    """The p of the two-sided Wilcoxon signed-rank test, and the matched-pairs rank-biserial correlation."""
    from scipy import stats

    differing = differences[differences != 0]
    if not differing.size:
        return (1.0, 0.0) if differences.size else (math.nan, math.nan)
    ranks = stats.rankdata(np.abs(differing))
    effect = float((ranks * np.sign(differing)).sum() / ranks.sum())
    return float(stats.wilcoxon(differences).pvalue), effect


def holm(values: Sequence[float]) -> list[float]:
    """p-values corrected for their number by Holm's step-down method; nan stays and does not count."""
    order = sorted((number for number, p in enumerate(values) if not math.isnan(p)), key=lambda number: values[number])
    corrected = [math.nan] * len(values)
    largest = 0.0
    for rank, number in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * values[number]))
        corrected[number] = largest
    return corrected


@dataclass(frozen=True)
class _Sample:
    """Sums and counts of values by seed, patient and class, ``(S, P, C)``: a patient may have several scans."""

    patients: tuple[str, ...]
    sums: Array
    counts: Array

    @property
    def seeds(self) -> int:
        return len(self.sums)

    @property
    def mean(self) -> float:
        return float(np.mean(self.sums.sum(axis=(0, 1)) / self.counts.sum(axis=(0, 1))))

    def by_patient(self) -> Array:
        """The mean over classes of the mean over scans and seeds of each patient."""
        sums, counts = self.sums.sum(axis=0), self.counts.sum(axis=0)
        return np.asarray(np.nanmean(np.divide(sums, counts, where=counts > 0, out=np.full_like(sums, np.nan)), axis=1))

    def drawn(self, patients: Array | None, seeds: Array | None) -> Array:
        """The mean of each draw; a draw is a row that says how often each patient, each seed is in it."""
        held = np.stack([self.sums, self.counts])  # (2, S, P, C)
        by_seed = held.sum(axis=2)[None] if patients is None else np.tensordot(patients, held, axes=(1, 2))
        sums, counts = np.moveaxis(by_seed.sum(axis=2) if seeds is None else _weighed(seeds, by_seed), 1, 0)
        means = np.divide(sums, counts, where=counts > 0, out=np.full_like(sums, np.nan))
        shown = (~np.isnan(means)).sum(axis=1)  # a class that only few patients have may be in none of those drawn
        return np.asarray(np.nansum(means, axis=1) / np.where(shown > 0, shown, np.nan))


def _weighed(seeds: Array, by_seed: Array) -> Array:
    return np.asarray(np.matmul(seeds[:, None, None], by_seed)[:, :, 0])  # (B, 1, 1, S) with (B, 2, S, C)


def _places(seeds: Sequence[Sequence[Value]]) -> set[tuple[str, str]]:
    return {(patient, label) for values in seeds for patient, label, value in values if not math.isnan(value)}


def _sample(seeds: Sequence[Sequence[Value]]) -> _Sample | None:
    """None without any value."""
    places = _places(seeds)
    patients, labels = (sorted({place[axis] for place in places}) for axis in (0, 1))
    if not places:
        return None
    sums, counts = np.zeros((2, len(seeds), len(patients), len(labels)))
    rows, columns = ({name: number for number, name in enumerate(names)} for names in (patients, labels))
    for seed, values in enumerate(seeds):
        for patient, label, value in values:
            if not math.isnan(value):
                place = seed, rows[patient], columns[label]
                sums[place] += value
                counts[place] += 1
    scored = counts.any(axis=(1, 2))
    return _Sample(tuple(patients), sums[scored], counts[scored])


def _interval(samples: Sequence[_Sample], signs: Sequence[float], bounds: tuple[float, float]) -> tuple[float, float]:
    """Of the signed sum of the means of samples of the same patients, whose seeds are drawn apart."""
    patients = len(samples[0].patients)
    if patients < 2:
        return math.nan, math.nan
    who = _draws(patients, 0)
    which = [_draws(of.seeds, number) if of.seeds > 1 else None for number, of in enumerate(samples, start=1)]
    signed = list(zip(samples, signs, which, strict=True))
    means = np.sum([sign * of.drawn(who, seeds) for of, sign, seeds in signed], axis=0)
    means = means[~np.isnan(means)]
    parts = [(np.sum([sign * of.drawn(who, None) for of, sign, _ in signed], axis=0), patients - 1)]
    parts += [(of.drawn(None, seeds), of.seeds - 1) for of, _, seeds in signed if seeds is not None]
    # Student's t for the few patients and seeds that the spread is estimated from; their degrees of freedom taken
    # together as Welch and Satterthwaite do.
    spread = [(float(np.nanvar(draws)), freedom) for draws, freedom in parts]
    weight = sum(variance**2 / freedom for variance, freedom in spread)
    freedom = sum(variance for variance, _ in spread) ** 2 / weight if weight > 0 else math.inf
    middle = sum(sign * of.mean for of, sign, _ in signed)
    low, high = _student(middle, means, freedom) if freedom < FEWEST else _expanded(means, freedom)
    return max(low, bounds[0]), min(high, bounds[1])


def _student(middle: float, means: Array, freedom: float) -> tuple[float, float]:
    from scipy.special import stdtrit

    half = float(stdtrit(freedom, (1 + LEVEL) / 2)) * float(means.std())
    return middle - half, middle + half


def _expanded(means: Array, freedom: float) -> tuple[float, float]:
    """Percentiles, further out by as much as the quantile of Student's t is beyond the normal one (Hesterberg 2015)."""
    from scipy.special import ndtr, ndtri, stdtrit

    quantile = ndtri((1 + LEVEL) / 2) if math.isinf(freedom) else stdtrit(freedom, (1 + LEVEL) / 2)
    tail = float(ndtr(-quantile))
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


@lru_cache(maxsize=8)
def _draws(units: int, stream: int) -> Array:
    """How often each of ``units`` is in each draw, of one fewer than there are: so the spread of means is unbiased.

    Always the same, so that a page that is made again says the same.
    """
    rng = np.random.default_rng([units, stream])
    return rng.multinomial(units - 1, np.full(units, 1 / units), RESAMPLES).astype(np.float64)
