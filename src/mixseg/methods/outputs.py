"""What the outputs of methods are called, and which of them is the teacher of which.

A method names its outputs on its row of METHODS, the answer first. Those of two branches have names that other methods
share, so that tables and pages can set a student beside its teacher; any other output is called by its own name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

STUDENT, TEACHER, MEAN_OF_BOTH = "bottom", "top", "ensemble"
"""The bottom and the top decoder of the paper, and the mean of their probabilities."""


def output_name(output: str, outputs: Collection[str]) -> str:
    """An output by its role; one branch alone is no teacher."""
    names = {
        STUDENT: f"student ({STUDENT})",
        TEACHER: f"teacher ({TEACHER})" if STUDENT in outputs else f"network ({TEACHER})",
        MEAN_OF_BOTH: f"both ({MEAN_OF_BOTH})",
        "": "prediction",
    }
    return names.get(output, output)


def short_name(output: str, outputs: Collection[str]) -> str:
    """The same where room is short."""
    return output_name(output, outputs).split(" (")[0]


def student_and_teacher(outputs: Collection[str]) -> tuple[str, str] | None:
    """The outputs of both branches, if there are two."""
    return (STUDENT, TEACHER) if {STUDENT, TEACHER} <= set(outputs) else None


def answer_and_teacher(outputs: Sequence[str]) -> tuple[str, ...]:
    """The answer, which comes first, and its teacher if it has one: what is worth a line where there is little room."""
    answer, *others = outputs
    return (answer, *(name for name in others if name == TEACHER))


def branches(outputs: Iterable[str]) -> list[str]:
    """The outputs without the mean of the others, which lies between them."""
    return [name for name in outputs if name != MEAN_OF_BOTH]


def teacher_first(outputs: Iterable[str]) -> list[str]:
    """The outputs in the order of the paper's tables; the answer of a method with one output."""
    order = (TEACHER, STUDENT, MEAN_OF_BOTH)
    return sorted(outputs, key=lambda name: order.index(name) if name in order else 0)
