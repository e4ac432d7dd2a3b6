"""How often intervals of ``mixseg.evaluation.statistics`` hold the truth, and tests find a difference without one.

``python benchmarks/intervals.py`` prints the tables of docs/reference/statistics.md; it takes a minute.
"""

from __future__ import annotations

import numpy as np

from mixseg.evaluation.statistics import compare, estimate

SAMPLES = 1000
TRUTH = 17 / 20
"""The mean of Beta(17, 3), which patients' DSC are drawn from."""
OF_SEEDS, OF_BOTH = 0.02, 0.03
"""Standard deviations of what a seed adds to every patient, and of what is left to each."""


def trainings(rng: np.random.Generator, patients: np.ndarray, seeds: int) -> list[list[tuple[str, str, float]]]:
    """Scores of ``patients`` in so many trainings; with one seed, of a training as good as the mean of all."""
    shifts = rng.normal(0, OF_SEEDS, seeds) if seeds > 1 else [0.0]
    noise = [rng.normal(0, OF_BOTH, len(patients)) for _ in shifts]
    return [
        [(f"{number:03}", "LV", value) for number, value in enumerate(patients + shift + each)]
        for shift, each in zip(shifts, noise, strict=True)
    ]


def main() -> None:
    """Print both tables."""
    print("| patients | seeds | held the truth | width, points of DSC |\n|--:|--:|--:|--:|")
    for count, seeds in ((3, 1), (5, 1), (8, 1), (15, 1), (30, 1), (8, 3), (15, 3), (15, 5)):
        rng = np.random.default_rng([count, seeds])
        found = [estimate(trainings(rng, rng.beta(17, 3, count), seeds)) for _ in range(SAMPLES)]
        held = np.mean([each.low <= TRUTH <= each.high for each in found])
        print(f"| {count} | {seeds} | {held:.1%} | {100 * np.mean([e.high - e.low for e in found]):.1f} |")
    print("\n| patients | seeds each | interval held 0 | p below 0.05 |\n|--:|--:|--:|--:|")
    for count, seeds in ((8, 1), (15, 1), (8, 3), (15, 3), (15, 5)):
        rng = np.random.default_rng([count, seeds, 1])
        patients = [rng.beta(17, 3, count) for _ in range(SAMPLES)]
        pairs = [compare(trainings(rng, each, seeds), trainings(rng, each, seeds)) for each in patients]
        held, small = (np.mean(of) for of in ([c.low <= 0 <= c.high for c in pairs], [c.p < 0.05 for c in pairs]))
        print(f"| {count} | {seeds} | {held:.1%} | {small:.1%} |")


if __name__ == "__main__":
    main()
