"""The one exception that users see: a sentence that names the file and the remedy; and parts of such sentences."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Sequence
from itertools import islice

DONE, INTERNAL, USAGE, SOME_FAILED, REFUSED, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 4, 130, 143
"""Exit codes: all is done; an error of ours; flags that make no sense; some of several failed; input that was refused;
an interrupt; one by SIGTERM."""
GO_ON = "stopped; run the same command to continue"
"""What an interrupt says that has nothing better to say."""

NO_LETTER = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Control characters, and what stands in Python for bytes of a name that are not UTF-8."""

MANY = 20
"""Up to so many choices are all named, which are the lists of ours; scans may be hundreds."""


class MixsegError(Exception):
    """Something the user can mend. The command line prints it without a traceback.

    Attributes:
        code: Of this kind of error, for programs; sentences may change, it does not. The codes are listed in
            docs/reference/messages.md.
        fields: What the sentence is about, such as the file.
        exit_code: What the process ends with.
    """

    exit_code = REFUSED

    def __init__(self, sentence: str, code: str, /, **fields: object) -> None:
        super().__init__(shown(sentence))
        self.code, self.fields = code, fields

    @property
    def described(self) -> dict[str, object]:
        """The error for a program: its code, its sentence, its fields."""
        return {"code": self.code, "message": str(self), **self.fields}

    def __reduce__(self) -> tuple[object, ...]:
        """Worker processes raise errors, too: the code and the fields travel with the sentence."""
        return type(self), (str(self), self.code), {"fields": self.fields}


def shown(text: str) -> str:
    """``text`` for a terminal and for UTF-8: what is no letter, as names of files may hold, as Python writes it."""
    return NO_LETTER.sub(lambda found: found[0] if found[0] == "\n" else repr(found[0])[1:-1], text)


class UsageError(MixsegError):
    """A verb, a flag or a combination of them that makes no sense."""

    exit_code = USAGE


class SomeFailedError(MixsegError):
    """Of several scans or runs some failed; the others are done."""

    exit_code = SOME_FAILED


class Terminated(KeyboardInterrupt):
    """An interrupt by SIGTERM, which is how schedulers and containers end a process."""


def known(what: str, name: str, choices: Iterable[str], where: str = "") -> str:
    """``name`` if it is one of ``choices``; else an error that suggests what was meant, in the place ``where``."""
    choices = list(choices)
    if name in choices:
        return name
    place = f" in {where}" if where else ""
    raise MixsegError(
        f"Unknown {what} {name!r}{place}: {did_you_mean(name, choices)}",
        "unknown-name",
        kind=what,
        name=name,
        where=where,
    )


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: the nearest choice, or all, or some of many, if none is near."""
    choices = list(choices)
    near = difflib.get_close_matches(str(name).lower(), choices, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    if len(choices) > MANY:
        return f"choose one of {listed(choices, most=5)} ({len(choices)} in all)."
    return f"choose one of {', '.join(repr(choice) if ',' in choice else choice for choice in choices)}."


def lacks_memory(error: BaseException) -> bool:
    """Whether ``error`` says, in a type or, as libraries below Python do, in the text alone, that memory ran out."""
    text = str(error).lower()
    signs = ("allocate memory", "out of memory", "not enough memory", "bad_alloc")
    return isinstance(error, MemoryError) or any(sign in text for sign in signs)


def enumerated(words: Sequence[str], last: str) -> str:
    """``a, b and c``: all of ``words``; ``last`` stands before the last of them."""
    return last.join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def listed(names: Collection[object], most: int = 4) -> str:
    """``a, b, c, d, ...``: the first of ``names``, and whether there are more."""
    return ", ".join(map(str, islice(names, most))) + ", ..." * (len(names) > most)
