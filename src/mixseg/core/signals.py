"""Signals that end a process: SIGTERM becomes an interrupt like Ctrl-C, and both can wait until a step is done.

Python lets the main thread alone handle signals, and Windows has none like these: elsewhere nothing is changed.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Self

from mixseg.core.errors import Terminated

ENDING = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def terminable() -> Iterator[None]:
    """Inside, SIGTERM raises ``Terminated``; where somebody handles it already, that stays."""
    with _Handlers() as handlers:
        if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            handlers.set(signal.SIGTERM, _terminate)
        yield


@contextmanager
def expendable() -> Iterator[None]:
    """Inside, Ctrl-C and SIGTERM end the process at once, even while it waits for another one."""
    with _Handlers() as handlers:
        for number in ENDING:
            handlers.set(number, signal.SIG_DFL)
        yield


@contextmanager
def unchanged() -> Iterator[None]:
    """Inside, a library may set handlers of its own; afterwards those from before are back."""
    with _Handlers() as handlers:
        for number in ENDING:
            handlers.set(number, signal.getsignal(number))
        yield


class Interrupts:
    """Inside, the first Ctrl-C or SIGTERM that comes while ``busy`` waits for ``deliver``; any other acts at once.

    How it then acts is up to whoever handled it before.
    """

    def __init__(self) -> None:
        self.busy = False
        self.waiting: int | None = None
        self.handlers = _Handlers()

    def __enter__(self) -> Self:
        for number in ENDING:
            self.handlers.set(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        self.handlers.put_back()

    def deliver(self) -> None:
        """Let the one that waits act, if there is one."""
        number, self.waiting = self.waiting, None
        if number is not None:
            self._hand_on(number)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.busy and self.waiting is None:
            self.waiting = number
            # Unbuffered: the signal may have come in the midst of a print.
            os.write(2, b"\nEnding once the step that is being taken is done; once more ends at once.\n")
        else:
            self._hand_on(number)

    def _hand_on(self, number: int) -> None:
        self.handlers.put_back()
        signal.raise_signal(number)


class _Handlers:
    """Handlers for a while, and those that were there before."""

    def __init__(self) -> None:
        self.before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.put_back()

    def set(self, number: int, handler: Any) -> None:  # noqa: ANN401 - a function, or a constant of signal
        """Have ``handler`` called, where that is possible and the signal is not ignored."""
        before = signal.getsignal(number)
        ours = os.name == "posix" and threading.current_thread() is threading.main_thread()
        if ours and before not in (None, signal.SIG_IGN):  # None: not Python's, and could not be put back
            self.before[number] = before
            signal.signal(number, handler)

    def put_back(self) -> None:
        """Leave them as they were found."""
        while self.before:
            signal.signal(*self.before.popitem())


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated
