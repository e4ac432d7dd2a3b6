"""Tables and sentences in a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mixseg.core.messages import machine_readable, result, say

PLAIN_WIDTH = 160
"""Where the output is a file: wide enough that no sentence is broken."""


def _console() -> Console:
    # Made anew each time: standard output may be another one by now.
    console = Console(highlight=False, markup=False)
    return console if console.is_terminal else Console(highlight=False, markup=False, width=PLAIN_WIDTH)


def print_table(
    rows: Iterable[Sequence[str]], head: Sequence[str] = (), *, title: str = "", numbers: bool = True
) -> None:
    """A table whose columns after the first are aligned to the right if there is a head, else plain pairs.

    Args:
        rows: Cells.
        head: The names of the columns.
        title: Above it.
        numbers: Whether they are numbers; words are aligned to the left.
    """
    table = Table(
        box=SIMPLE_HEAD,
        show_header=bool(head),
        title=title or None,
        title_justify="left",
        show_edge=False,
        pad_edge=False,
    )
    for number, name in enumerate(head or ("", "")):
        table.add_column(name, justify="right" if head and number and numbers else "left", overflow="fold")
    for row in rows:
        # As Text: a name such as [LV] is not markup.
        table.add_row(*(Text(cell) for cell in row))
    if not machine_readable():  # standard output has results alone
        _console().print(table)


def emit_table(rows: Iterable[Sequence[str]], head: Sequence[str], **more: object) -> None:
    """Each row of a table as one result, its cells by the names of their columns."""
    for row in rows:
        result({**more, **dict(zip(head, row, strict=True))})


def print_list(sentences: Iterable[str], title: str) -> None:
    """Sentences under a title, each on a line of its own however long it is; nothing without any."""
    sentences = list(sentences)
    if sentences:
        say(f"\n{title}", *(f"  - {sentence}" for sentence in sentences))
