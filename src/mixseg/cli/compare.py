"""``mixseg compare``: runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tyro import conf

from mixseg.cli.flags import File
from mixseg.core.errors import UsageError
from mixseg.core.messages import result, say


def compare(
    runs: Annotated[tuple[Path, ...], conf.Positional, conf.arg(metavar="RUN RUN [RUN ...]")],
    *,
    out: Annotated[File, conf.arg(aliases=["-o"])] = None,
    anyway: bool = False,
) -> None:
    """Compare runs: scores with intervals, paired tests over patients, effect sizes; in the terminal and as files.

    $ mixseg compare lower-bound kl-ent-seed-0 kl-ent-seed-1 kl-ent-seed-2 --out comparison.html

    Runs that differ in their seeds alone are one method. Beside the page lie its tables in Markdown, LaTeX and CSV. The
    first sentence says who is ahead, and that nobody is where the 95 % interval of the difference holds 0.

    Args:
        runs: Finished runs; the first one is what others are held to.
        out: The page; if not given, comparison.html beside the first run.
        anyway: Compare runs of different data, or that were scored on different scans, all the same.
    """
    if len(runs) < 2:
        raise UsageError("Name at least two run folders to compare: the --out of two trainings.", "no-runs")
    show_comparison(runs, out, anyway=anyway)


def show_comparison(runs: tuple[Path, ...], out: Path | None, *, anyway: bool = False) -> None:
    """Print what was found of several runs, and write it."""
    from mixseg.cli.printing import emit_table, print_table
    from mixseg.report.comparison import compare_runs, write_comparison

    found = compare_runs(runs, anyway=anyway)
    for table in found.tables:
        for group in table.groups:
            print_table(group.lines, table.head, title=f"{table.title}: {group.heading}")
            emit_table(group.lines, table.head, table=table.title)
        say("")
    say(found.verdict)
    result({"verdict": found.verdict})
    written = write_comparison(found, out or runs[0].parent / "comparison.html")
    for path in written:
        result({"written": path})
    say(f"Written: {', '.join(map(str, written))}")
