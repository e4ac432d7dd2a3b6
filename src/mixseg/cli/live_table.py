"""How far an experiment is: a table that stays in place in a terminal, a line for every change in a log file."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from mixseg.core.errors import listed
from mixseg.core.messages import say
from mixseg.core.progress import duration
from mixseg.experiments.plan import Cell
from mixseg.experiments.scheduler import Status

LINE_EVERY_SECONDS = 60.0


class LiveTable:
    """``with LiveTable() as table: run_experiment(..., show=table.show)``."""

    def __init__(self) -> None:
        console = Console(highlight=False, markup=False)
        self.live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self.before: dict[str, str] = {}
        self.last_line = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live:
            self.live.stop()

    def show(self, status: Status) -> None:
        """The board as it is now."""
        if self.live:
            self.live.start()  # not before: while the scans are prepared, another bar is on the screen
            self.live.update(Group(_table(status), Text(summary(status))), refresh=True)
        else:
            self._print_changes(status)

    def _print_changes(self, status: Status) -> None:
        changed = {name: standing for name, standing in status.standing.items() if self.before.get(name) != standing}
        first = not self.before
        self.before = dict(status.standing)
        for name, standing in changed.items():
            if standing in ("done", "failed") and not first:
                say(f"{name}: {standing}{_reason(status, name)}")
        due = time.monotonic() - self.last_line > LINE_EVERY_SECONDS
        if first or due or any(standing in ("done", "failed", "running") for standing in changed.values()):
            say(summary(status))
            sys.stdout.flush()
            self.last_line = time.monotonic()


def summary(status: Status) -> str:
    """``3 of 8 runs done, 2 running (kl 40 %, kl-ent 12 %), 1 failed, 2 waiting; about 12 min left``."""
    running = [f"{name} {how_far(status, name)}" for name, standing in status.standing.items() if standing == "running"]
    parts = [f"{status.count('done')} of {len(status.standing)} runs done"]
    parts += [f"{len(running)} running ({listed(running)})"] if running else []
    parts += [f"{status.count(what)} {what}" for what in ("failed", "waiting") if status.count(what)]
    left = status.seconds_left()
    if not running and not status.count("waiting"):
        return ", ".join(parts)
    # What scoring takes is not counted in steps.
    time_left = "time left unknown yet" if left is None else f"about {duration(left)} left" if left else "nearly done"
    return f"{', '.join(parts)}; {time_left}"


def how_far(status: Status, name: str) -> str:
    """``40 %`` of a run's steps, then ``scoring``."""
    total = next(run.steps for run in status.plan.runs if run.name == name)
    done = status.steps.get(name, 0)
    return f"{100 * done // total} %" if done < total else "scoring"


def cell_text(status: Status, cell: Cell) -> str:
    """``2 of 3, 40 %``: seeds that are done, and how far the one is that is running."""
    if cell.missing:
        return cell.missing
    standings = {name: status.standing[name] for name in cell.runs.values()}
    words = [f"{list(standings.values()).count('done')} of {len(standings)}"]
    words += [how_far(status, name) for name, standing in standings.items() if standing == "running"]
    failed = list(standings.values()).count("failed")
    return ", ".join([*words, *([f"{failed} failed"] if failed else [])])


def _reason(status: Status, name: str) -> str:
    return f" ({status.sentences[name]})" if name in status.sentences else ""


def _table(status: Status) -> Table:
    """Rows and columns as those of the experiment."""
    columns = list(dict.fromkeys(cell.column for cell in status.plan.cells))
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column(status.plan.varies)
    for column in columns:
        table.add_column(column, justify="right")
    for row in dict.fromkeys(cell.row for cell in status.plan.cells):
        texts = {cell.column: cell_text(status, cell) for cell in status.plan.cells if cell.row == row}
        table.add_row(Text(row), *(Text(texts.get(column, "")) for column in columns))
    return table
