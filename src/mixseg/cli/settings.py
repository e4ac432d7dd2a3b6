"""``--config FILE`` and ``--set key=value`` -> the keys of a config."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from typing import Any

from mixseg.core.errors import UsageError
from mixseg.runs.typed_json import merged


def parse(assignments: Iterable[str], flag: str = "--set", *, such_as: str = "batch.full=4") -> dict[str, Any]:
    """``["batch.full=4", "lr=1e-3"]`` -> ``{"batch": {"full": 4}, "lr": 0.001}``; what is not JSON is text.

    Args:
        assignments: What was given.
        flag: With which flag.
        such_as: An example for who gave something else.
    """
    settings: dict[str, Any] = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or not all(key.split(".")):
            raise UsageError(f"{flag} {assignment} is no setting: write key=value, such as {flag} {such_as}.")
        settings = merged(settings, _nested(key.split("."), _value(text)))
    return settings


def config_settings(assignments: Iterable[str]) -> dict[str, Any]:
    """What ``--set`` says of a config, its keys named with their groups or without; the last one of a key wins."""
    from mixseg.runs.config import flat

    settings: dict[str, Any] = {}
    for assignment in assignments:
        settings = merged(settings, flat(parse([assignment])))
    return settings


def meant_as_settings(words: Sequence[str], flags: Collection[str]) -> list[str]:
    """A sentence for each of ``words`` that is none of ``flags``, but a key of the config written as a flag."""
    from mixseg.runs.config import GROUPS, KEYS

    known = {flag.replace("_", "-") for flag in flags}
    said = []
    for word, after in pairwise((*words, "--")):
        flag, equals, value = word.partition("=")
        key = flag.removeprefix("--").replace("-", "_")
        first, dot, _ = key.partition(".")
        names_one = first in KEYS or (dot and first in GROUPS)
        if flag.startswith("--") and flag.replace("_", "-") not in known and names_one:
            value = value if equals else "VALUE" if after.startswith("--") else after
            said.append(f"{key} is a key of the config: write --set {key}={value}")
    return said


def _nested(keys: list[str], value: object) -> dict[str, Any]:
    first, *rest = keys
    return {first: _nested(rest, value) if rest else value}


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
