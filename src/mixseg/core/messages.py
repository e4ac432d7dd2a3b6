"""What is said to whoever runs a command: sentences, results and progress, through Python's ``logging``.

Everything goes through the logger "mixseg" and those below it. ``speaking`` sets up where it goes for a command line;
a program that uses mixseg as a library may give the logger handlers and levels of its own, as with any other.
"""

from __future__ import annotations

import json
import logging
import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

log = logging.getLogger("mixseg")
PROGRESS = "mixseg.progress"
"""The logger of lines about how far something is: they go to standard error."""


@dataclass(frozen=True)
class Manner:
    """How a command speaks.

    Attributes:
        json: One object a scan or result on standard output, all else on standard error.
        log: A file that everything is added to, with the time.
        verbosity: -1 leaves out all but results, warnings and errors; 1 adds what helps to find a fault.
    """

    json: bool = False
    log: Path | None = None
    verbosity: int = 0


_manner = Manner()


@contextmanager
def speaking(manner: Manner) -> Iterator[None]:
    """Inside, what is said goes where ``manner`` wants it."""
    global _manner
    before, _manner = _manner, manner
    level, propagate, handlers = log.level, log.propagate, log.handlers[:]
    with ExitStack() as stack:
        stack.callback(_restore, before, level, propagate)
        for handler in handlers:
            log.removeHandler(handler)
            stack.callback(log.addHandler, handler)
        _attach(stack, _Screen(level={-1: logging.WARNING, 0: logging.INFO}.get(manner.verbosity, logging.DEBUG)))
        log.setLevel(logging.DEBUG)
        log.propagate = False  # or a handler of the root logger would show everything again
        if manner.log is not None:
            manner.log.parent.mkdir(parents=True, exist_ok=True)
            file = logging.FileHandler(manner.log, encoding="utf-8")
            file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
            stack.callback(file.close)
            _attach(stack, file)
        yield


def _attach(stack: ExitStack, handler: logging.Handler) -> None:
    log.addHandler(handler)
    stack.callback(log.removeHandler, handler)


def _restore(manner: Manner, level: int, propagate: bool) -> None:
    global _manner
    _manner = manner
    log.setLevel(level)
    log.propagate = propagate


def quiet() -> bool:
    """Whether nobody wants to see progress."""
    return _manner.verbosity < 0


def verbose() -> bool:
    """Whether somebody wants to know more than usual."""
    return _manner.verbosity > 0


def machine_readable() -> bool:
    """Whether standard output belongs to a program: results alone, as JSON."""
    return _manner.json


def say(*sentences: str) -> None:
    """Tell whoever runs the command, a line each."""
    _be_heard()
    for sentence in sentences:
        log.info(sentence)


def show_progress(line: str, *, shown: bool = False) -> None:
    """Tell how far something is; a line that is ``shown`` above a bar already goes to the log file alone."""
    _be_heard()
    logging.getLogger(PROGRESS).info(line, extra={"shown": shown})


def _be_heard() -> None:
    """In a script or a notebook that gave the logger no handler, show what there is to say."""
    if not log.handlers:
        log.addHandler(_Screen(level=logging.INFO))
        log.setLevel(logging.INFO)


def result(found: Mapping[str, Any]) -> None:
    """One scan or result, for a program that reads standard output; nothing for a person."""
    if _manner.json:
        print(json.dumps(_known(found), default=str), flush=True)


def _known(value: Any) -> Any:  # noqa: ANN401 - whatever JSON can hold, and numbers that it cannot
    """The same with null for what is no number."""
    if isinstance(value, Mapping):
        return {key: _known(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_known(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class _Screen(logging.Handler):
    """Standard output for sentences; standard error for progress and warnings, and for all if the first is taken."""

    def emit(self, record: logging.LogRecord) -> None:
        """Show one line."""
        if getattr(record, "shown", False):  # above a bar already
            return
        aside = _manner.json or record.name == PROGRESS or record.levelno >= logging.WARNING
        print(record.getMessage(), file=sys.stderr if aside else sys.stdout, flush=True)
