"""Batch -> named loss terms; image -> named probabilities: one file a method.

To add a method of your own, write one file and one row, here or in a package of yours: docs/how-to/add-a-method.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from mixseg.core.errors import MixsegError
from mixseg.core.registry import Registry
from mixseg.methods.base import (
    AblationOptions,
    BuildNetwork,
    Method,
    MethodOptions,
    MethodRow,
    Number,
    Term,
    TermOptions,
)
from mixseg.methods.dual_branch import DualBranch
from mixseg.methods.glmi import GLMI
from mixseg.methods.mutual import Mutual
from mixseg.methods.outputs import MEAN_OF_BOTH, STUDENT, TEACHER
from mixseg.methods.ssco import SSCO
from mixseg.methods.ua_mt import UAMT

__all__ = [
    "METHODS",
    "AblationOptions",
    "BuildNetwork",
    "Method",
    "MethodOptions",
    "MethodRow",
    "Number",
    "Term",
    "TermOptions",
    "make_method",
    "terms_of",
]

one_branch = partial(DualBranch, branches=1)
two_branches = partial(DualBranch, branches=2)

# Images per step (full, partial, unlabeled) in 2D and 3D, as the paper has them.
MIXED = {2: (8, 16, 0), 3: (4, 8, 0)}
FEW = {2: (8, 0, 0), 3: (4, 0, 0)}
MANY = {2: (24, 0, 0), 3: (12, 0, 0)}
UNLABELED = {2: (4, 0, 4), 3: (4, 0, 4)}

# What a step holds of each image with one branch, and with two of which one sees the full rows alone.
ONE = {2: 25, 3: 16}
TWO = {2: 28, 3: 19}

BOTH = (STUDENT, TEACHER, MEAN_OF_BOTH)

ROWS: dict[str, MethodRow] = {
    "lower-bound": MethodRow(
        one_branch, "one network on the full masks alone: what you have without mixseg", "full", {"full": 1.0}, FEW, ONE
    ),
    "single": MethodRow(
        one_branch,
        "one network on full masks and partial labels together",
        "mixed",
        {"full": 1.0, "weak": 1e-3},
        MIXED,
        ONE,
    ),
    "single-ent": MethodRow(
        one_branch,
        "single, made confident on the partly labelled scans",
        "mixed",
        {"full": 1.0, "weak": 1e-3, "entropy": 1.0},
        MIXED,
        ONE,
    ),
    "decoupled": MethodRow(
        two_branches,
        "teacher on full masks, student on partial labels, nothing passed between them",
        "mixed",
        {"full": 1.0, "weak": 1e-3},
        MIXED,
        TWO,
        BOTH,
    ),
    "kl": MethodRow(
        two_branches,
        "decoupled, the student also learns from the teacher on the fully labelled scans",
        "mixed",
        {"full": 1.0, "weak": 1e-3, "distill": 50.0},
        MIXED,
        TWO,
        BOTH,
    ),
    "kl-ent": MethodRow(
        two_branches,
        "kl, the student made confident on the partly labelled scans: the method",
        "mixed",
        {"full": 1.0, "weak": 1e-3, "distill": 50.0, "entropy": 1.0},
        MIXED,
        TWO,
        BOTH,
    ),
    "mutual": MethodRow(
        Mutual,
        "two branches that both learn every label, and the masks that their averaged mean proposes for the rest",
        "mixed",
        {"full": 1.0, "weak": 0.1, "cutmix": 1.0},
        MIXED,
        {2: 36, 3: 25},
        (MEAN_OF_BOTH, STUDENT, TEACHER),
    ),
    "upper-bound-set": MethodRow(
        one_branch, "one network on full masks of all scans of the set", "all-full", {"full": 1.0}, MANY, ONE
    ),
    "upper-bound": MethodRow(
        one_branch,
        "one network on full masks of all training scans",
        "all-full",
        {"full": 1.0},
        MANY,
        ONE,
        ignores_set=True,
    ),
    "ua-mt": MethodRow(
        UAMT,
        "a student that agrees with its moving average on unlabeled scans, where that is sure",
        "unlabeled",
        {"full": 0.5, "dice": 0.5, "consistency": 0.1},
        UNLABELED,
        {2: 30, 3: 21},
        ("student",),
    ),
    "glmi": MethodRow(
        GLMI,
        "features that stay informative when unlabeled scans are flipped",
        "unlabeled",
        {"full": 1.0, "global": 1.0, "local": 0.1, "consistency": 10.0},
        UNLABELED,
        {2: 43, 3: 39},
    ),
    "ssco": MethodRow(
        SSCO,
        "students that agree with each other and with their moving averages on unlabeled scans",
        "unlabeled",
        {"full": 1.0, "self-paced": 0.5, "consistency": 4.0},
        UNLABELED,
        {2: 47, 3: 30},
        ("teachers",),
    ),
    "proposals": MethodRow(
        one_branch,
        "one network on full masks and, for the other scans, the masks that a finished run proposes (--from)",
        "proposals",
        {"full": 1.0},
        MANY,
        ONE,
    ),
}

METHODS = Registry(ROWS, group="mixseg.methods", kind=MethodRow)
"""The rows above, and those of other packages."""


def terms_of(name: str) -> tuple[str, ...]:
    """The terms that can be weighed: those of the paper's loss, then those that are off unless given a weight."""
    row = METHODS[name]
    return tuple(dict.fromkeys((*row.weights, "dice", *(("cutmix",) if row.sees == "mixed" else ()))))


def make_method(name: str, build: BuildNetwork, weights: Mapping[str, float], options: MethodOptions) -> Method:
    """A freshly initialised method; ``weights`` replace those of the paper where they name the same term."""
    row = METHODS[name]
    unknown = sorted(set(weights) - set(terms_of(name)))
    if unknown:
        raise MixsegError(
            f"The method {name} has no term {unknown[0]!r} to weigh: choose from {', '.join(row.weights)}.",
            "unknown-name",
            kind="term",
            name=unknown[0],
            method=name,
        )
    return row.make(build, {**row.weights, **weights}, options)
