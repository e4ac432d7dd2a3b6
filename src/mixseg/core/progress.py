"""Progress that a person can read: a bar in a terminal, a line now and then in a log file."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Self, TextIO, TypeVar

from mixseg.core.messages import quiet, show_progress
from mixseg.core.notebook import NotebookBar, notebook

LINE_EVERY_SECONDS = 15.0

T = TypeVar("T")


def duration(seconds: float) -> str:
    """A length of time as people say it: "75 s", "12 min", "1.5 h"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class Progress:
    """A job of ``total`` steps. ``with Progress("preparing", total=80) as bar: bar.step("patient001")``.

    In a terminal it is a bar (rich), and in a notebook; elsewhere a plain line every quarter of a minute and one at the
    end, so that a training on a bare node needs no further library and its log stays readable.
    """

    def __init__(
        self, label: str, *, total: int, done: int = 0, stream: TextIO | None = None, silent: bool = False
    ) -> None:
        self.label, self.total, self.done, self.first = label, total, done, done
        self.share = 0.0  # of the step that is under way
        self.stream = stream or sys.stderr
        self.silent = silent or quiet()
        self.started = self.last_line = time.monotonic()
        self.text = ""
        self.bar: Any = None
        self.notebook_bar: NotebookBar | None = None

    def __enter__(self) -> Self:
        if not self.silent and self.stream is sys.stderr and notebook() is not None:
            self.notebook_bar = NotebookBar(self.label, self.total)
        elif not self.silent and self.stream.isatty():
            from rich.console import Console, RenderableType
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar
            from rich.text import Text

            class TwoLines(Bar):
                """The text has a line of its own: beside the bar it would push out the count and the time left."""

                def get_renderables(self) -> Iterable[RenderableType]:
                    yield from super().get_renderables()
                    yield from (Text(task.fields["text"]) for task in self.tasks if task.fields["text"])

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self.bar = TwoLines(*columns, console=Console(file=self.stream))
            self.bar.start()
            self.task = self.bar.add_task(self.label, total=self.total, completed=self.done, text="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.notebook_bar is not None:
            self.notebook_bar.update(self.done, f"took {duration(time.monotonic() - self.started)}", now=True)
        elif self.bar is not None:
            self.bar.stop()
        elif kind is None and not self.silent:
            self._line()

    def step(self, text: str = "", *, count: int = 1) -> None:
        """One more is done (or ``count``); ``text`` says what."""
        self.done += count
        self._show_state(text, share=0.0)

    def partly(self, text: str, share: float) -> None:
        """Of the next step ``share`` is done: so the time left is known within one that takes long."""
        self._show_state(text, share)

    def _show_state(self, text: str, share: float) -> None:
        self.text, self.share = text or self.text, share
        if self.notebook_bar is not None:
            self.notebook_bar.update(self.done + share, f"{self._time_left()}  {self.text}")
        elif self.bar is not None:
            self.bar.update(self.task, completed=self.done + share, text=self.text)
        elif not self.silent and self.done < self.total and time.monotonic() - self.last_line > LINE_EVERY_SECONDS:
            self._line()  # the last one comes at the end

    def say(self, sentence: str) -> None:
        """Print a sentence without tearing the bar."""
        if self.bar is not None:
            self.bar.console.print(sentence, highlight=False, markup=False)
            show_progress(sentence, shown=True)
        elif not self.silent:
            self._show(sentence)

    def _show(self, line: str) -> None:
        """Through the log, so that a file has it too; a stream that was asked for gets it by itself."""
        if self.stream is sys.stderr:
            show_progress(line)
        else:
            print(line, file=self.stream, flush=True)

    def _time_left(self) -> str:
        fresh, ahead = (self.done + self.share - self.first), (self.total - self.done - self.share)
        elapsed = time.monotonic() - self.started
        return f"{duration(elapsed / fresh * ahead)} left" if fresh else "time left unknown"

    def _line(self) -> None:
        self.last_line = time.monotonic()
        elapsed = self.last_line - self.started
        when = self._time_left() if self.done < self.total else f"took {duration(elapsed)}"
        text = f"  {self.text}" if self.text else ""
        self._show(f"{self.label}: {self.done}/{self.total}, {when}{text}")


def track(items: Iterable[T], label: str, *, total: int) -> Iterator[T]:
    """Yield ``items`` and show how far it is."""
    with Progress(label, total=total) as bar:
        for item in items:
            yield item
            bar.step()
