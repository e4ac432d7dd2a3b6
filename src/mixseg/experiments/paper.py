"""The experiments by name: every table and figure of the paper that takes runs, and two of our own.

To add one: a row of EXPERIMENTS. The values tried are those of the paper (paper_values.json holds what it found).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mixseg.experiments.grid import Experiment, Recipe, Row

ANSWER, WITH_TEACHER, ALL = 1, 2, 3
"""How many outputs of a method the paper reports: its answer; its teacher, too; and the mean of both."""

LOWER_BOUND, SINGLE, KL, KL_ENT = Recipe("lower-bound"), Recipe("single"), Recipe("kl"), Recipe("kl-ent")

ROUNDS = 5
DISTILL = ("0.1", "1", "10", "50", "100", "1000")
WEAK = ("1", "0.1", "0.01", "0.001", "0.0001")
RATIOS = (0, 1, 2, 3, 5, 7, 10)
GENERATORS = ("erosion-3x3", "erosion-10x10", "scribbles", "scribbles-border", "points", "boxes", "slices")
"""Every kind of partial label; a test holds them to partial_labels.GENERATORS, which takes longer to import."""


def _proposals(recipe: Recipe, rounds: int = 1) -> Recipe:
    """``rounds`` times a fresh network on the masks that the one before proposes; ``recipe`` proposes the first."""
    for _ in range(rounds):
        recipe = Recipe("proposals", source=recipe)
    return recipe


def _weights(method: str, term: str, values: Iterable[str]) -> tuple[Row, ...]:
    """One weight of a loss over ``values``."""
    return tuple(Row(value, Recipe(method, {"weights": {term: float(value)}}), x=float(value)) for value in values)


def _weighing(
    method: str,
    term: str,
    called: str,
    values: Sequence[str],
    *,
    sets: tuple[int, ...] = Experiment.sets,
) -> Experiment:
    """The experiment on one weight of a loss, whose term is ``called`` so in words."""
    return Experiment(
        f"{method}-{term}-weight",
        f"Weight of {called} in {method}",
        f"{values[0]} to {values[-1]}",
        _weights(method, term, values),
        varies="weight",
        sets=sets,
        axis=f"weight of {called}",
    )


def _two_weights(method: str, rows: tuple[str, tuple[str, ...]], columns: tuple[str, tuple[str, ...]]) -> list[Row]:
    """Two weights of a loss, each over its values."""
    (first, firsts), (second, seconds) = rows, columns
    return [
        Row(one, Recipe(method, {"weights": {first: float(one), second: float(other)}}), column=other)
        for one in firsts
        for other in seconds
    ]


EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            "main",
            "Mixed supervision: every method at every setting",
            "lower bound, single, decoupled, kl, kl-ent and upper bounds; teacher, student and both",
            (
                Row("lower-bound", LOWER_BOUND),
                Row("single", SINGLE),
                Row("single-ent", Recipe("single-ent")),
                Row("decoupled", Recipe("decoupled"), WITH_TEACHER),
                Row("kl", KL, WITH_TEACHER),
                Row("kl-ent", KL_ENT, ALL),
                Row("upper-bound-set", Recipe("upper-bound-set")),
                Row("upper-bound", Recipe("upper-bound")),
            ),
        ),
        Experiment(
            "proposals",
            "Training on proposals",
            "a fresh network on masks that lower-bound or kl propose, against kl-ent and against the min-entropy",
            (
                Row("proposals-lower-bound", _proposals(LOWER_BOUND)),
                Row("proposals-kl", _proposals(KL)),
                Row("min-entropy", Recipe("kl-ent", {"confidence": "min-entropy"})),
                Row("kl-ent", KL_ENT),
            ),
        ),
        Experiment(
            "self-training",
            "Rounds of self-training",
            f"DSC and HD95 over {ROUNDS} rounds, each on the proposals of the one before",
            tuple(
                Row(
                    f"{start.method}, round {number}",
                    _proposals(start, number),
                    series=start.method,
                    x=number,
                )
                for start in (LOWER_BOUND, KL)
                for number in range(ROUNDS + 1)
            ),
            varies="round",
            sets=(3,),
            axis="rounds",
        ),
        Experiment(
            "semi-supervised",
            "Against semi-supervised methods",
            "ua-mt, glmi and ssco, to which the partial labels are hidden, against kl-ent",
            (
                Row("lower-bound", LOWER_BOUND),
                Row("ua-mt", Recipe("ua-mt")),
                Row("glmi", Recipe("glmi")),
                Row("ssco", Recipe("ssco")),
                Row("kl-ent", KL_ENT),
            ),
        ),
        _weighing("kl-ent", "distill", "the distillation term", DISTILL),
        _weighing("kl-ent", "weak", "the partial cross-entropy", WEAK),
        Experiment(
            "divergence",
            "Divergence of the distillation term in kl-ent",
            "Kullback-Leibler both ways, Bhattacharyya, alpha 2, 3 and 5",
            tuple(
                Row(name, Recipe("kl-ent", {"divergence": name}))
                for name in ("kl", "reverse-kl", "bhattacharyya", "alpha-2", "alpha-3", "alpha-5")
            ),
            varies="divergence",
            sets=(3,),
        ),
        _weighing("single", "weak", "the partial cross-entropy", WEAK),
        _weighing("kl", "distill", "the distillation term", DISTILL),
        Experiment(
            "single-entropy-weight",
            "Weight of the entropy in single",
            "0 to 10",
            (Row("0.0", SINGLE, x=0.0), *_weights("single-ent", "entropy", ("0.1", "1", "10"))),
            varies="weight",
            sets=(3, 5),
            axis="weight of the entropy",
        ),
        Experiment(
            "partial-ratio",
            "How many partly labelled scans",
            "0 to 10 times as many partly as fully labelled scans, for kl-ent",
            tuple(Row(str(ratio), Recipe("kl-ent", {"ratio": ratio}), x=ratio) for ratio in RATIOS),
            varies="ratio",
            sets=(3,),
            axis="partly labelled scans for each fully labelled one",
        ),
        _weighing("ua-mt", "consistency", "the consistency", ("0.01", "0.1", "1", "5", "10"), sets=(3,)),
        Experiment(
            "glmi-weights",
            "Weights of the global and the local information in glmi",
            "3 global weights times 3 local ones",
            tuple(_two_weights("glmi", ("global", ("0.1", "1", "2")), ("local", ("0.05", "0.1", "1")))),
            varies="global",
            columns="local",
            sets=(3,),
        ),
        Experiment(
            "ssco-weights",
            "Weights of the self-paced term and of the consistency in ssco",
            "3 self-paced weights times 3 of the consistency",
            tuple(_two_weights("ssco", ("self-paced", ("0.1", "0.5", "1")), ("consistency", ("1", "4", "8")))),
            varies="self-paced",
            columns="consistency",
            sets=(3,),
        ),
        Experiment(
            "complexity",
            "Parameters and time",
            "parameters stored in training, ms per sample of all of them and of what inference runs",
            measured=True,
        ),
        Experiment(
            "annotation-budget",
            "What an annotator's time buys",
            "DSC of kl-ent against labelled voxels and against strokes, for each kind of partial label",
            tuple(
                Row(
                    f"{generator}, {ratio} times",
                    Recipe("kl-ent", {"partial": generator, "ratio": ratio}),
                    series=generator,
                )
                for generator in GENERATORS
                for ratio in (1, 2, 5)
            ),
            varies="partial labels",
            sets=(3,),
            axis="labelled voxels",
            counts_labels=True,
        ),
        Experiment(
            "normalisation",
            "Batch statistics",
            "kinds of scans passed separately or jointly, and normalisations without batch statistics",
            tuple(
                Row(f"{recipe.method}, {label}", Recipe(recipe.method, changes), shown, series=recipe.method)
                for recipe, shown in ((SINGLE, ANSWER), (KL, WITH_TEACHER), (KL_ENT, WITH_TEACHER))
                for label, changes in (
                    ("batch, separate", {"passes": "separate"}),
                    ("batch, joint", {"passes": "joint"}),
                    ("instance", {"norm": "instance"}),
                    ("group", {"norm": "group"}),
                    ("none", {"norm": "none"}),
                )
            ),
            varies="normalisation",
            sets=(3,),
        ),
    )
}
