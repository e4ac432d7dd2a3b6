"""JSON -> frozen dataclasses: each value of the type that its field asks for, or one sentence about what is wanted."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from mixseg.core.errors import MixsegError, did_you_mean

WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text", tuple: "a list"}
"""What the user is told that a value is not; anything else is a dataclass or a mapping."""


def build(kind: Any, content: Mapping[str, Any], where: str) -> Any:  # noqa: ANN401 - a dataclass and its instance
    """The dataclass ``kind`` from the keys that JSON sets; an unknown key is one sentence that suggests another.

    Args:
        kind: A dataclass.
        content: Some of its fields.
        where: What the sentence calls the place, such as the file.
    """
    hints = typing.get_type_hints(kind)
    for key in content:
        if key not in hints:
            raise MixsegError(
                f"Unknown key {key!r} in {where}: {did_you_mean(key, hints)}", "unknown-key", key=key, where=where
            )
    return kind(**{key: as_typed(hints[key], value, f"{key!r} in {where}") for key, value in content.items()})


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Both, ``above`` winning; groups of keys such as ``batch`` are merged key by key."""
    result = dict(below)
    for key, value in above.items():
        there = result.get(key)
        result[key] = merged(there, value) if isinstance(value, Mapping) and isinstance(there, Mapping) else value
    return result


def holds(content: Any, wanted: Any) -> bool:  # noqa: ANN401 - whatever JSON holds
    """Whether ``content`` has every key of ``wanted``, however deep, with its value."""
    if isinstance(content, Mapping) and isinstance(wanted, Mapping):
        return all(key in content and holds(content[key], value) for key, value in wanted.items())
    if isinstance(content, list | tuple) and isinstance(wanted, list | tuple):
        return list(content) == list(wanted)
    return bool(content == wanted)


def as_typed(hint: Any, value: Any, where: str) -> Any:  # noqa: ANN401
    """``value`` as the type that ``hint`` asks for, or one sentence that says what is wanted.

    From Python it may be a number or an array of numpy's.
    """
    if hint is object:  # who asks for anything checks it later
        return value
    return _as_typed(hint, value.tolist() if isinstance(value, np.generic | np.ndarray) else value, where)


def _as_typed(hint: Any, value: Any, where: str) -> Any:  # noqa: ANN401
    if dataclasses.is_dataclass(hint) and isinstance(value, Mapping):
        return build(hint, value, where)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        if value in arguments and not isinstance(value, bool):
            return arguments[arguments.index(value)]
        raise MixsegError(
            f"{where} is {value!r}: choose from {', '.join(map(str, arguments))}.",
            "invalid-value",
            where=where,
            value=value,
        )
    if origin in (types.UnionType, typing.Union):
        return None if value is None else as_typed(arguments[0], value, where)
    if origin is tuple and isinstance(value, list | tuple):
        if ... not in arguments and len(value) != len(arguments):
            raise MixsegError(
                f"{where} is {value!r}: it has {len(arguments)} numbers.", "invalid-value", where=where, value=value
            )
        return tuple(as_typed(arguments[0], item, where) for item in value)
    if isinstance(value, Mapping) and origin is Mapping:
        return {key: as_typed(arguments[1], item, where) for key, item in value.items()}
    if {hint, type(value)} == {int, float} and float(value).is_integer():  # 1 for 1.0, and 1e4 for 10000
        return hint(value)
    if isinstance(hint, type) and isinstance(value, hint) and (hint is bool or not isinstance(value, bool)):
        return value
    raise MixsegError(
        f"{where} is {value!r}, which is not {WORDS.get(origin or hint, 'a group of keys')}: correct it.",
        "wrong-type",
        where=where,
        value=value,
    )
