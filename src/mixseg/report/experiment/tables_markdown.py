"""A table in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mixseg.report.experiment.tables import Table

SPECIAL = "\\|`*_<>[]"


def markdown(table: Table) -> str:
    """The title, how to read it, and a table for each group."""
    parts = [f"# {escape(table.title)}", escape(table.reading)]
    for group in table.groups:
        head, *rows = ([escape(cell) for cell in line] for line in (table.head, *group.lines))
        parts += [f"## {escape(group.heading)}", grid(head, rows, words=table.words)]
    return "\n\n".join(parts) + "\n"


def grid(head: Sequence[str], rows: Iterable[Sequence[str]], *, words: int) -> str:
    """Cells that are Markdown already; the first ``words`` columns hold words, the others numbers."""
    rule = "|".join("---" if place < words else "--:" for place in range(len(head)))
    first, *others = (f"| {' | '.join(cells)} |" for cells in (head, *rows))
    return "\n".join([first, f"|{rule}|", *others])


def escape(text: str) -> str:
    """``text`` so that it shows as it is written."""
    return "".join(f"\\{letter}" if letter in SPECIAL else letter for letter in text)
