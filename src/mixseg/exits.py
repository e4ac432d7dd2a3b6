"""How a command ends: an exit code, and one sentence where it did not do what it was asked to."""

from __future__ import annotations

import sys
from collections.abc import Callable

from mixseg.errors import BAD_INPUT, GO_ON, INTERRUPTED, TERMINATED, MixsegError, Terminated
from mixseg.output import unread
from mixseg.signals import terminable


def exit_code(command: Callable[[], int | None], *, debug: bool = False) -> int:
    """Run ``command``; what the process ends with: 0 done, 2 something for the user to mend, 130 or 143 interrupted.

    SIGTERM is an interrupt, too. What the user can mend is a sentence on standard error, and with ``debug`` alone a
    traceback.
    """
    with unread(), terminable():
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
