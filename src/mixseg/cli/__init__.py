"""One file a verb: its signature is its command line."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout, suppress
from functools import partial
from importlib import import_module
from io import StringIO
from pathlib import Path

from mixseg.core.console import exit_code
from mixseg.core.errors import USAGE, UsageError, did_you_mean
from mixseg.core.messages import Manner, result

VERBS: dict[str, str] = {
    "doctor": "what this machine offers, and what is known to be slow on it",
    "inspect": "what a folder of scans holds, as a table and a page with pictures",
    "simulate": "a dataset with partial labels, from full masks or from the built-in phantom",
    "prepare": "compact arrays for training, or one archive to carry to another machine",
    "store": "what lies in a store of prepared scans, whether it is whole, and what nothing needs any more",
    "train": "train on a folder of scans; go on where a run stopped",
    "self-train": "rounds of training, each from the masks that the one before proposes",
    "predict": "label maps for a folder of images",
    "complete": "label maps for the scans that are not finished, with what was drawn kept",
    "evaluate": "DSC, distances, surface Dice, volumes and lesions of label maps against masks",
    "export": "the model of a run as one file: for mixseg elsewhere, or for ONNX Runtime",
    "report": "one HTML page about a run, a comparison or an experiment",
    "compare": "runs side by side: intervals, paired tests over patients, effect sizes",
    "experiment": "a table of the paper on your scans or the built-in ones, from one line",
    "demo": "everything on built-in data, in minutes on a CPU",
}
"""A verb is the function of its name in the module of its name, imported when chosen: `--help` answers at once."""

RENAMED = {"--unlabelled": "--unlabeled"}
"""Flags of earlier versions."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; return the exit code: see ``core.errors``."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        verb, manner, debug = _manner(words)
    except UsageError as error:
        wrong = error  # the name of the clause ends with it
        return exit_code(lambda: _refuse(wrong), manner=Manner(json="--json" in words))
    return exit_code(lambda: _call(verb), debug=debug, manner=manner)


def _refuse(error: UsageError) -> int:
    raise error


def _manner(words: Sequence[str]) -> tuple[list[str], Manner, bool]:
    """The words without those that every verb understands, wherever they stand; what these say; and ``--debug``."""
    rest: list[str] = []
    given = iter(words)
    json, debug, log, verbosity = False, False, None, 0
    for word in given:
        if word == "--log" or word.startswith("--log="):
            file = word.partition("=")[2] if "=" in word else next(given, "")
            if not file:
                raise UsageError("--log has no value: name the file to add to.", "flag-without-value", flag="--log")
            log = Path(file)
        elif word in ("-q", "--quiet", "-v", "--verbose"):
            verbosity = -1 if "q" in word else 1
        elif word == "--json":
            json = True
        elif word == "--debug":
            debug = True
        else:
            rest.append(word)
    return rest, Manner(json, log, verbosity), debug


def _call(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(overview())
        return 0
    if words[0] == "--version":
        from importlib.metadata import version

        print(f"mixseg {version('mixseg')}")
        return 0
    name, *rest = words
    if name not in VERBS:
        raise UsageError(
            f"mixseg has no verb {name!r}: {did_you_mean(name, VERBS)}", "unknown-name", kind="verb", name=name
        )
    import tyro

    verb = partial(tyro.cli, verb_of(name), prog=f"mixseg {name}", config=(tyro.conf.FlagCreatePairsOff,))
    try:
        return int(verb(args=[_renamed(word) for word in rest]) or 0)
    except SystemExit as exit_:
        if exit_.code == USAGE:
            _hint(verb, rest)
            result({"error": {"code": "usage", "message": f"See standard error, or mixseg {name} --help."}})
        raise


def _renamed(word: str) -> str:
    """A flag of an earlier version as it is called today; any other word as it is."""
    flag, equals, value = word.partition("=")
    return RENAMED.get(flag, flag) + equals + value


def verb_of(name: str) -> Callable[..., int | None]:
    """The function of a verb, whose signature is its command line."""
    module = name.replace("-", "_")
    function: Callable[..., int | None] = getattr(import_module(f"mixseg.cli.{module}"), module)
    return function


def _hint(verb: Callable[..., object], words: list[str]) -> None:
    """After a command line that was not understood: where a key of the config belongs that was taken for a flag."""
    from mixseg.cli.flags import meant_as_settings

    with redirect_stdout(StringIO()) as help_, suppress(SystemExit):
        verb(args=["--help"])
    flags = re.findall(r"--[\w-]+", help_.getvalue())
    if "--set" in flags:
        for sentence in meant_as_settings(words, flags):
            print(sentence, file=sys.stderr)


def overview() -> str:
    """What ``mixseg --help`` prints."""
    width = max(map(len, VERBS))
    lines = (f"  {name:{width}}  {about}" for name, about in VERBS.items())
    return "\n".join(
        (
            "Medical image segmentation from mixed supervision: a few full masks, many scribbles, scans with nothing.",
            "",
            "  mixseg demo --out demo                       see it work on built-in data",
            "  mixseg inspect SCANS                         what do I have?",
            "  mixseg train SCANS --out RUN                 learn from it",
            "  mixseg predict RUN -i IMAGES -o PREDICTIONS  use it",
            "",
            "verbs, each with its own --help:",
            *lines,
            "",
            "every verb also takes",
            "  --json      one JSON object a scan or result on standard output, all else on standard error",
            "  --log FILE  add everything that is said to a file, with the time",
            "  -q, -v      say less: results, warnings and errors alone; say more",
            "  --debug     show the traceback of an error",
            "and ends with 0 done, 1 an error of mixseg itself, 2 flags that make no sense, 3 some of several failed,",
            "4 input that was refused, 130 or 143 interrupted. --version prints the version.",
        )
    )
