"""Which of two methods is better: paired tests over patients as lines of a table, and as the sentence that may be said.

The tests are those of ``evaluation.statistics``, for comparisons of runs and for the tables of experiments alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from mixseg.evaluation.scores import Row, difference_text, interval_text, p_text, samples
from mixseg.evaluation.statistics import Comparison, Estimate, compare, holm
from mixseg.report.wording import count, part_name

Measures = Mapping[str, tuple[str, float]]
"""By head of a column: the name of a score, and what makes it percent or voxels."""

HEAD = ("first", "second", "score", "patients", "seeds", "difference", "95 % interval", "effect", "p", "p, Holm")
WORDS = 3
READING = (
    "Difference: the mean over scans and classes of first minus second. Interval: of that difference, from a bootstrap "
    "over patients and, where there are several, over seeds. p: two-sided Wilcoxon signed-rank test over patients, "
    "after the mean over classes, scans and seeds of each; last checkpoint. Holm: corrected for the number of tests "
    "of one score here. Effect: matched-pairs rank-biserial correlation, from -1 (the second is larger on every "
    "patient) to 1; of distances less is better. With fewer than 6 patients no difference can reach p = 0.05."
)
ONE_SEED = (
    "One seed says nothing of how much trainings differ: such an interval holds the chance of the patients alone."
)


class Side(NamedTuple):
    """One output of a method.

    Attributes:
        name: As the tables call it.
        trainings: The rows of each seed.
    """

    name: str
    trainings: Sequence[Sequence[Row]]


class Tested(NamedTuple):
    """Two outputs, compared by one score.

    Attributes:
        first: Of which the second is taken away.
        second: The other.
        score: The head of the score.
        metric: Its name in metrics.csv.
        factor: What makes it percent or voxels.
        found: As metrics.csv counts.
        corrected: p after Holm.
    """

    first: str
    second: str
    score: str
    metric: str
    factor: float
    found: Comparison
    corrected: float


def tested(pairs: Sequence[tuple[Side, Side]], measures: Measures) -> list[Tested]:
    """Every pair by every score, corrected for the number of pairs; pair by pair."""
    by_score = []
    for head, (metric, factor) in measures.items():
        found = [compare(samples(a.trainings, metric), samples(b.trainings, metric)) for a, b in pairs]
        corrected = holm([each.p for each in found])
        by_score.append(
            [
                Tested(a.name, b.name, head, metric, factor, each, p)
                for (a, b), each, p in zip(pairs, found, corrected, strict=True)
            ]
        )
    return [each for of_pair in zip(*by_score, strict=True) for each in of_pair]


def lines(found: Iterable[Tested]) -> tuple[tuple[str, ...], ...]:
    """As text, under ``HEAD``."""
    return tuple(
        (
            each.first,
            each.second,
            each.score,
            str(each.found.patients),
            _seeds(each.found),
            difference_text(each.found.difference, each.factor),
            interval_text(each.found, each.factor),
            difference_text(each.found.effect, 1.0),
            p_text(each.found.p),
            p_text(each.corrected),
        )
        for each in found
    )


def records(found: Iterable[Tested]) -> list[dict[str, object]]:
    """As numbers, for a table that programs read; scores as metrics.csv counts."""
    return [
        {
            "first": each.first,
            "second": each.second,
            "score": each.metric,
            "patients": each.found.patients,
            "seeds_first": each.found.seeds[0],
            "seeds_second": each.found.seeds[1],
            "difference": each.found.difference,
            "low": each.found.low,
            "high": each.found.high,
            "effect": each.found.effect,
            "p": each.found.p,
            "p_holm": each.corrected,
        }
        for each in found
    ]


def reading(found: Iterable[Tested]) -> str:
    """How to read the tests; that some rest on one seed is said."""
    alone = any(1 in each.found.seeds for each in found)
    return f"{READING} {ONE_SEED}" if alone else READING


def standing(each: Tested, part: str) -> str:
    """Who is ahead by DSC, with interval, patients and seeds; that nobody is, where the interval holds 0."""
    if not each.found.patients:
        return f"{each.first} and {each.second} have no patient in common."
    if each.found.difference < 0:
        each = each._replace(first=each.second, second=each.first, found=_turned(each.found))
    found, points = each.found, f"{100 * each.found.difference:.1f} points of DSC"
    where = f"{span(found)}; {count(found.patients, f'{part_name(part)} patient')}, {_seeds_in_words(found)}"
    if math.isnan(found.low):
        return f"{each.first} has {points} more than {each.second} ({where}): nothing is known of other patients."
    where += f"; p = {p_text(each.corrected)}"
    if found.settled:
        return f"{each.first} is ahead of {each.second} by {points} ({where})."
    return f"{each.first} and {each.second} cannot be told apart: {points} between them ({where})."


def span(found: Estimate | Comparison) -> str:
    """``95 % interval 81.2 to 90.4``, in percent."""
    return "no interval" if math.isnan(found.low) else f"95 % interval {100 * found.low:.1f} to {100 * found.high:.1f}"


def _turned(found: Comparison) -> Comparison:
    """The same, second against first."""
    return found._replace(
        difference=-found.difference,
        low=-found.high,
        high=-found.low,
        effect=-found.effect,
        seeds=(found.seeds[1], found.seeds[0]),
    )


def _seeds(found: Comparison) -> str:
    first, second = found.seeds
    return str(first) if first == second else f"{first} and {second}"


def _seeds_in_words(found: Comparison) -> str:
    first, second = found.seeds
    return f"{count(first, 'seed')} each" if first == second else f"{first} and {count(second, 'seed')}"
