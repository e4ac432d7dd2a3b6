"""How a command ends: an exit code, and one sentence where it did not do what it was asked to."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from io import TextIOWrapper

from mixseg.core.errors import (
    DONE,
    GO_ON,
    INTERNAL,
    INTERRUPTED,
    REFUSED,
    TERMINATED,
    MixsegError,
    Terminated,
)
from mixseg.core.messages import Manner, log, result, speaking, verbose
from mixseg.core.signals import terminable


def exit_code(command: Callable[[], int | None], *, debug: bool = False, manner: Manner | None = None) -> int:
    """Run ``command``; what the process ends with: see ``core.errors``.

    SIGTERM is an interrupt, too. An error is a sentence on standard error, for a program an object on standard output,
    and with ``debug`` alone a traceback.
    """
    with _unread(), terminable(), speaking(manner or Manner()):
        try:
            return command() or DONE
        except (KeyboardInterrupt, Exception) as error:
            if debug:
                raise
            code, described = _described(error)
            if code == INTERNAL:
                log.debug("where it failed:", exc_info=error)
            log.error(f"{described['message']} [{described['code']}]" if verbose() else described["message"])
            result({"error": described})
            return code


def _described(error: BaseException) -> tuple[int, dict[str, object]]:
    """The exit code; and the code, the sentence and the fields of an error."""
    if isinstance(error, MixsegError):
        return error.exit_code, error.described
    if isinstance(error, Terminated):
        return TERMINATED, {"code": "terminated", "message": str(error) or GO_ON}
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, {"code": "interrupted", "message": str(error) or GO_ON}
    if isinstance(error, OSError) and error.filename is not None:
        sentence = f"{error.filename}: {error.strerror}; name another file or folder."
        return REFUSED, {"code": "system-refused", "message": sentence, "file": error.filename}
    if isinstance(error, OSError) and error.errno in DISK:
        sentence = f"A disk fails or is full ({error.strerror}): look after it, and run the same command to continue."
        return REFUSED, {"code": "system-refused", "message": sentence}
    sentence = (
        f"mixseg itself failed ({type(error).__name__}: {error}): run the command again with --debug, and "
        "report what it shows."
    )
    return INTERNAL, {"code": "internal", "message": sentence}


DISK = (errno.EIO, errno.ENOSPC, errno.EDQUOT)
"""What the system says of a disk, of which file it does not always say."""
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
            if error.errno not in (*LEFT, errno.ENOSPC):
                raise
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            if error.errno == errno.ENOSPC:
                raise MixsegError(
                    "No space left for what is printed: write it to a file on another disk, or not at all.",
                    "disk-full",
                    file="standard output",
                ) from error
