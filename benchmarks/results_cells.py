"""Cells and tables of the results pages, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from results_groups import Group, Spread

Plain = dict[tuple[int | None, str], Group]
"""The runs of the preset ``paper`` as it is, by Set-N and method."""
NOT_RUN = "not run"
SETS = {"acdc": (3, 5, 10), "la": (3, 5)}
"""Those that the train scans at hand suffice for: of 30 atria, Set-10 would take 60."""
ROLES = {"bottom": "student", "top": "teacher"}


def cells(group: Group | None, branch: str, theirs: dict[str, float] | None) -> list[str]:
    """Seeds, and for each metric ours (last, best) and the paper's."""
    cells = []
    seeds = 0
    for metric, key in (("dsc", "dsc"), ("hd95_vox", "hd95")):
        reference = theirs and theirs[key]
        for checkpoint in ("last", "best"):
            found = group and group.figure(metric, part="test", checkpoint=checkpoint, branch=branch)
            seeds = max(seeds, found.seeds if found else 0)
            cells.append(text(found, reference))
        cells.append("-" if reference is None else f"{reference:.2f}")
    return [str(seeds), *cells]


def text(found: Spread | None, reference: float | None = None) -> str:
    """``56.02 ± 1.30 (-30.92)``: the mean, the sd over seeds, and the difference from ``reference``."""
    if found is None:
        return NOT_RUN
    spread = "" if found.sd is None else f" ± {found.sd:.2f}"
    return f"{found.mean:.2f}{spread}" + ("" if reference is None else f" ({found.mean - reference:+.2f})")


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> str:
    """A Markdown table; the first ``left`` columns hold words, the others numbers."""
    rule = ["---" if place < left else "--:" for place in range(len(head))]
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    return "\n".join([lines[0], f"|{'|'.join(rule)}|", *lines[1:]])
