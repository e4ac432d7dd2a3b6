"""A table in Markdown."""

from __future__ import annotations

from mixseg.experiments.tables import Table

SPECIAL = "\\|`*_<>[]"


def markdown(table: Table) -> str:
    """The title, how to read it, and a table for each group."""
    parts = [f"# {escape(table.title)}", escape(table.reading)]
    rule = "|".join("---" if place < table.words else "--:" for place in range(len(table.head)))
    for group in table.groups:
        lines = (f"| {' | '.join(map(escape, cells))} |" for cells in (table.head, *group.lines))
        head, *rows = lines
        parts += [f"## {escape(group.heading)}", "\n".join([head, f"|{rule}|", *rows])]
    return "\n\n".join(parts) + "\n"


def escape(text: str) -> str:
    """``text`` so that it shows as it is written."""
    return "".join(f"\\{letter}" if letter in SPECIAL else letter for letter in text)
