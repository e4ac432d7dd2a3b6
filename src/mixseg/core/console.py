"""How a command ends: an exit code, and one sentence where it did not do what it was asked to."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from io import TextIOWrapper

from mixseg.core.errors import BAD_INPUT, GO_ON, INTERRUPTED, TERMINATED, MixsegError, Terminated
from mixseg.core.signals import terminable


def exit_code(command: Callable[[], int | None], *, debug: bool = False) -> int:
    """Run ``command``; what the process ends with: 0 done, 2 something for the user to mend, 130 or 143 interrupted.

    SIGTERM is an interrupt, too. What the user can mend is a sentence on standard error, and with ``debug`` alone a
    traceback.
    """
    with _unread(), terminable():
        try:
            return command() or 0
        except (MixsegError, KeyboardInterrupt, OSError) as error:
            if debug or (isinstance(error, OSError) and error.filename is None):
                raise
            code, sentence = _told(error)
            print(sentence, file=sys.stderr)
            return code


def _told(error: MixsegError | KeyboardInterrupt | OSError) -> tuple[int, str]:
    if isinstance(error, KeyboardInterrupt):
        return TERMINATED if isinstance(error, Terminated) else INTERRUPTED, str(error) or GO_ON
    if isinstance(error, OSError):
        return BAD_INPUT, f"{error.filename}: {error.strerror}; name another file or folder."
    return BAD_INPUT, str(error)


LEFT = (errno.EPIPE, errno.EIO)
"""What the system says of a pipe that nobody reads any more, and of a terminal that was closed."""


@contextmanager
def _unread() -> Iterator[None]:
    """Inside, printing does nothing once the reader, ``| head`` for example, has left or the terminal is closed.

    A ``BrokenPipeError`` that is handled where a command ends has ended the command: a training of hours, perhaps.
    """
    with ExitStack() as stack:
        for redirected, stream in ((redirect_stdout, sys.stdout), (redirect_stderr, sys.stderr)):
            if isinstance(stream, TextIOWrapper):  # there is none where a process began without it
                # A sign, such as ±, that the terminal's alphabet lacks becomes a question mark.
                how = (stream.encoding, "replace", None, stream.line_buffering, stream.write_through)
                ours = _Courtesy(stream.buffer, *how)
                stack.callback(ours.detach)  # flushes, and leaves the buffer open
                stack.enter_context(redirected(ours))
        yield


class _Courtesy(TextIOWrapper):
    """A standard stream that leads nowhere from the moment on at which its reader has left."""

    def write(self, text: str, /) -> int:
        """Print ``text``, if there is anybody to read it."""
        with self._to_nobody():
            super().write(text)
        return len(text)

    def flush(self) -> None:
        """Let the reader have all of it, if there is one."""
        with self._to_nobody():
            super().flush()

    @contextmanager
    def _to_nobody(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno not in LEFT:
                raise
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
