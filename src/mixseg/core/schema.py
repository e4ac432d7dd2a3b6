"""What a file of ours has to hold, said as Python types: ``TypedDict`` or a dataclass for objects, and their parts."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

from mixseg.core.errors import MixsegError, listed

WORDS: dict[object, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    dict: "an object of keys and values",
    list: "a list",
    type(None): "null",
}
LONGEST = 60
"""Letters of a value that a sentence shows."""


class Content(dict[str, Any]):
    """An object from a file: a key that is asked for in vain is one sentence, not a ``KeyError``."""

    path: Path

    @classmethod
    def of(cls, content: Mapping[str, Any], path: Path) -> Content:
        """What ``path`` holds."""
        made = cls(content)
        made.path = path
        return made

    def __missing__(self, key: str) -> Any:  # noqa: ANN401 - it never comes back
        raise _lacks(self.path, key)


def checked(content: Any, kind: object, path: Path) -> Any:  # noqa: ANN401 - whatever JSON holds
    """``content``, if it is of the type ``kind``.

    Args:
        content: From JSON.
        kind: Any, a class of ``WORDS``, a ``TypedDict`` or a dataclass, ``list[...]``, ``dict[...]``, ``tuple[...]``,
            ``Literal`` or a union of these. Keys of an object beyond those that are named are nobody's business.
        path: The file, for the sentence.

    Raises:
        MixsegError: With the first place that is of another type.
    """
    _check(content, kind, "", path)
    return Content.of(content, path) if isinstance(content, dict) else content


def _check(value: Any, kind: Any, where: str, path: Path) -> None:  # noqa: ANN401
    if kind is Any:
        return
    if typing.is_typeddict(kind) or dataclasses.is_dataclass(kind):
        _check_object(value, kind, where, path)
        return
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        _check_union(value, arguments, where, path)
    elif origin is Literal:
        if not any(type(value) is type(choice) and value == choice for choice in arguments):
            raise _wrong(value, f"one of {listed(arguments, most=8)}", where, path)
    elif origin in (dict, list, tuple, Mapping):
        _check_container(value, origin, arguments, where, path)
    elif not _is(value, kind):
        raise _wrong(value, WORDS[kind], where, path)


def _check_union(value: Any, kinds: Sequence[Any], where: str, path: Path) -> None:  # noqa: ANN401
    """One of several; the sentence is about the first that is not null."""
    for kind in kinds:
        try:
            _check(value, kind, where, path)
        except MixsegError:
            continue
        return
    _check(value, next(kind for kind in kinds if kind is not type(None)), where, path)


def _check_object(value: Any, kind: Any, where: str, path: Path) -> None:  # noqa: ANN401
    if not isinstance(value, dict):
        raise _wrong(value, WORDS[dict], where, path)
    for key, (hint, needed) in _keys(kind).items():
        if key in value:
            _check(value[key], hint, f"{where}.{key}" if where else key, path)
        elif needed:
            raise _lacks(path, f"{where}.{key}" if where else key)


@cache
def _keys(kind: Any) -> dict[str, tuple[Any, bool]]:  # noqa: ANN401
    """The type of each key of an object, and whether it has to be there."""
    hints = typing.get_type_hints(kind)
    if typing.is_typeddict(kind):
        return {key: (hint, key in kind.__required_keys__) for key, hint in hints.items()}
    missing = dataclasses.MISSING
    return {
        each.name: (hints[each.name], each.default is missing and each.default_factory is missing)
        for each in dataclasses.fields(kind)
    }


def _check_container(value: Any, origin: Any, kinds: Sequence[Any], where: str, path: Path) -> None:  # noqa: ANN401
    wanted = dict if origin in (dict, Mapping) else list
    if not isinstance(value, wanted):
        raise _wrong(value, WORDS[wanted], where, path)
    if isinstance(value, dict):
        for key, item in value.items():
            if kinds[0] is int and not key.lstrip("-").isdecimal():
                raise _wrong(key, WORDS[int], where, path)
            _check(item, kinds[1], f"{where}.{key}" if where else key, path)
        return
    fixed = origin is tuple and ... not in kinds
    if fixed and len(value) != len(kinds):
        raise _wrong(value, f"a list of {len(kinds)}", where, path)
    for number, item in enumerate(value):
        _check(item, kinds[number] if fixed else kinds[0], f"{where}[{number}]", path)


def _is(value: Any, kind: Any) -> bool:  # noqa: ANN401
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, int | float if kind is float else kind)


def _wrong(value: Any, wanted: str, where: str, path: Path) -> MixsegError:  # noqa: ANN401
    shown = repr(value)
    shown = shown if len(shown) <= LONGEST else shown[:LONGEST] + " ..."
    place = f"{where[:LONGEST]!r} in {path}" if where else str(path)
    return MixsegError(
        f"{place} is {shown}, and should be {wanted}: mend or remove the file.", "wrong-content", file=path, key=where
    )


def _lacks(path: Path, key: str) -> MixsegError:
    return MixsegError(
        f"{path} says no {key[:LONGEST]!r}, which is needed: mend or remove the file.",
        "wrong-content",
        file=path,
        key=key,
    )
