"""Everything that makes a run, in groups of keys that go to JSON and back. An unknown key is an error.

``Config`` has the groups, and config.json is written in them. *Settings* are the same keys without their groups, with
values as in JSON: what files, flags and other runs say of a config that is still to be made. ``flat`` reads both forms.
"""

from __future__ import annotations

import dataclasses
import json
import math
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from mixseg.core.errors import MixsegError, did_you_mean, known
from mixseg.core.text_files import read_json
from mixseg.core.types import renamed
from mixseg.data.intensity import GreyRange
from mixseg.data.prepare.options import check_clip, check_spacing
from mixseg.methods import METHODS, terms_of
from mixseg.methods.losses import divergence
from mixseg.networks import NETWORKS
from mixseg.runs.config_groups import (
    TRAITS,
    AblationConfig,
    BatchSizes,
    DataConfig,
    InferenceConfig,
    MethodConfig,
    NetworkConfig,
    RuntimeConfig,
    TrainingConfig,
    Traits,
    option,
)
from mixseg.runs.presets import METHOD_WEIGHTS, PRESETS
from mixseg.runs.typed_json import as_typed, merged


@dataclass(frozen=True)
class Config:
    """One run. ``make_config`` fills it from a preset and a method; the run folder keeps the result.

    Attributes:
        preset: Where the defaults came from: "paper", "strong" or "quick".
        data: Which scans, which of their labels, on which grid.
        method: What is learnt from the labels.
        ablation: What the paper leaves open or compares.
        network: The network.
        training: How the weights are found.
        inference: How a scan is predicted.
        runtime: How it is computed and followed.
    """

    preset: str = option("strong", flag="--preset")
    data: DataConfig = field(default_factory=DataConfig)
    method: MethodConfig = field(default_factory=MethodConfig)
    ablation: AblationConfig = field(default_factory=AblationConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    inference: InferenceConfig = field(default_factory=InferenceConfig)
    runtime: RuntimeConfig = field(default_factory=RuntimeConfig)

    def value(self, key: str) -> Any:  # noqa: ANN401 - of whatever type the key has
        """What a key has, named without its group."""
        group, name, *_ = KEYS[key]
        return getattr(getattr(self, group) if group else self, name)

    def changed(self, **values: Any) -> Config:  # noqa: ANN401 - each of its key's type
        """This config with other values of some keys, named without their groups."""
        groups = {
            group: dataclasses.replace(getattr(self, group), **value) if group in GROUPS else value
            for group, value in grouped(values).items()
        }
        return dataclasses.replace(self, **groups)


class Key(NamedTuple):
    """Where a key stands: the name of its group (or ""), its own there; of which type it is, and what else is known."""

    group: str
    name: str
    hint: Any
    traits: Traits


def _keys_in(kind: type, group: str) -> dict[str, Key]:
    """The keys of a group, its ``name`` first: without the group it is called like the group."""
    hints = typing.get_type_hints(kind)
    fields = sorted(dataclasses.fields(kind), key=lambda each: each.name != "name")
    return {
        group if each.name == "name" else each.name: Key(
            group, each.name, hints[each.name], each.metadata.get(TRAITS, Traits())
        )
        for each in fields
        if each.name not in GROUPS or group
    }


GROUPS: dict[str, type] = {name: kind for name, kind in typing.get_type_hints(Config).items() if kind is not str}
KEYS: dict[str, Key] = _keys_in(Config, "")
for _group, _kind in GROUPS.items():
    KEYS |= _keys_in(_kind, _group)
"""All keys as settings call them."""

REMOVED = {"average": 0.0, "init": "xavier"}
"""Keys of earlier versions, with the only value that files which have them can still be read with."""


def keys_where(wanted: Callable[[Traits], bool]) -> list[str]:
    """The keys of which ``wanted`` is true, in their order."""
    return [key for key, of in KEYS.items() if wanted(of.traits)]


def make_config(**settings: Any) -> Config:  # noqa: ANN401 - keys in either form, with values as in JSON
    """The config of a method under a preset, with ``settings`` on top.

    Raises:
        MixsegError: A key is unknown, or no run can have its value.
    """
    changes = flat(settings)
    method, preset, dims = (changes.get(key, Config().value(key)) for key in ("method", "preset", "dims"))
    known("method", method, METHODS)
    known("preset", preset, PRESETS)
    as_typed(Literal[2, 3], dims, "'dims'")
    full, partial, unlabeled = METHODS[method].batch[dims]
    preferred = PRESETS[preset][dims]
    # A preset weighs terms that not every method has.
    weights = {k: v for k, v in preferred.get("weights", {}).items() if k in terms_of(method)}
    settled: dict[str, Any] = {
        **preferred,
        "weights": {**weights, **METHOD_WEIGHTS.get((preset, method), {})},
        # A method that takes partly labelled scans and counts no unlabeled ones leaves those to the scans.
        "batch": {"full": full, "partial": partial, "unlabeled": unlabeled or (None if partial else 0)},
        **{"method": method, "preset": preset, "dims": dims},
    }
    return from_dict(merged(settled, changes))  # a change of one batch size or weight leaves the others as they are


def flat(content: Mapping[str, Any], where: str = "the config") -> dict[str, Any]:
    """Settings: the keys that ``content`` sets in groups or without, all of them without.

    Raises:
        MixsegError: A key is unknown, or set twice, or no longer known and without it the run would be another one.
    """
    found: dict[str, Any] = {}
    for name, value in content.items():
        in_group = name in GROUPS and isinstance(value, Mapping)
        given = _from_group(name, value, where) if in_group else _from_key(name, value, where)
        if twice := next((key for key in given if key in found and not isinstance(found[key], Mapping)), None):
            raise MixsegError(
                f"{twice!r} is set twice in {where}, in its group and without: leave one of them out.",
                "key-given-twice",
                key=twice,
                where=where,
            )
        found = merged(found, {key: _with_new_names(key, of) for key, of in given.items()})
    if isinstance(found.get("batch"), BatchSizes):  # from Python
        found["batch"] = dataclasses.asdict(found["batch"])
    return found


def _with_new_names(key: str, value: object) -> object:
    """Batch sizes and weights by today's names; any other value as it is."""
    return renamed(value) if key in ("batch", "weights") and isinstance(value, Mapping) else value


def _from_group(group: str, content: Mapping[str, Any], where: str) -> dict[str, Any]:
    own = {name: key for key, (there, name, *_) in KEYS.items() if there == group}
    for name in content:
        if name not in own:
            elsewhere = name in KEYS and KEYS[name].group not in ("", group)
            remedy = f"it is a key of {KEYS[name].group!r}." if elsewhere else did_you_mean(name, own)
            raise MixsegError(
                f"Unknown key {name!r} in {group!r} in {where}: {remedy}",
                "unknown-key",
                key=name,
                group=group,
                where=where,
            )
    return {own[name]: value for name, value in content.items()}


def _from_key(key: str, value: object, where: str) -> dict[str, Any]:
    if key in KEYS:
        return {key: value}
    if key in GROUPS:
        raise MixsegError(
            f"{key!r} in {where} is {value!r}, which is not a group of keys: correct it.",
            "wrong-type",
            key=key,
            value=value,
            where=where,
        )
    if key not in REMOVED:
        raise MixsegError(
            f"Unknown key {key!r} in {where}: {did_you_mean(key, {**KEYS, **GROUPS})}",
            "unknown-key",
            key=key,
            where=where,
        )
    if value != REMOVED[key]:
        raise MixsegError(
            f"{where} has {key}={value!r}, and this version knows no {key} but {REMOVED[key]!r}: leave the key out, or "
            "use the version that the file was written for.",
            "removed-key",
            key=key,
            value=value,
            where=where,
        )
    return {}


def grouped(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings in their groups."""
    found: dict[str, Any] = {}
    for key, value in settings.items():
        group, name, *_ = KEYS[key]
        (found.setdefault(group, {}) if group else found)[name] = value
    return found


def from_dict(content: Mapping[str, Any], *, where: str = "the config") -> Config:
    """The config that ``content`` (from JSON, in groups or without) describes.

    Raises:
        MixsegError: A key is unknown, or no run can have its value.
    """
    config = Config().changed(**_typed(flat(content, where), where))
    _check(config, where)
    return config


def _typed(settings: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The values of settings as the fields have them; a wrong one is one sentence."""
    return {key: as_typed(KEYS[key].hint, value, f"{key!r} in {where}") for key, value in settings.items()}


def settings_of(config: Config) -> dict[str, Any]:
    """Every key of a config as a setting: ``from_dict(settings_of(config)) == config``."""
    values = {key: config.value(key) for key in KEYS}
    return typing.cast(dict[str, Any], json.loads(json.dumps(values, default=dataclasses.asdict)))


def to_dict(config: Config) -> dict[str, Any]:
    """What ``config.json`` holds: every key, in its group."""
    return grouped(settings_of(config))


def read_config(path: Path) -> dict[str, Any]:
    """The settings in a JSON config; ``make_config(**settings)`` fills in the rest.

    Raises:
        MixsegError: It is no JSON object, or a key is unknown or its value of another type.
    """
    content = read_json(path)
    if not isinstance(content, dict):
        raise MixsegError(
            f'{path} is no config: it should be a JSON object such as {{"method": "kl-ent"}}.',
            "wrong-content",
            file=path,
        )
    settings = flat(content, str(path))
    values = _typed(settings, str(path))  # so that a wrong value is told with the file's name
    known("preset", values.get("preset", Config().preset), PRESETS, str(path))
    if "method" in values:
        known("method", values["method"], METHODS, str(path))
        _check_weights(MethodConfig(name=values["method"], weights=values.get("weights", {})), str(path))
    return settings


def check_keys_apply(settings: Mapping[str, Any], dims: int) -> None:
    """Nothing, or one sentence about a setting that a run of ``dims`` axes has no use for.

    Settings that name keys of both, as those of a run do, serve either.
    """
    ours, others = ([key for key, of in KEYS.items() if of.traits.dims == axes] for axes in (dims, 5 - dims))
    unused = [key for key in others if settings.get(key) is not None]
    if unused and not any(key in settings for key in ours):
        theirs, learnt = ("slices", "volumes") if dims == 3 else ("volumes", "slices")
        raise MixsegError(
            f"{unused[0]} is a setting of {theirs}, and this run learns {learnt} (dims {dims}): leave it out, give "
            f"{ours[0]} instead, or choose dims {5 - dims}.",
            "setting-not-applicable",
            key=unused[0],
            dims=dims,
        )


AT_LEAST = {"seed": 0, "fold": 0, "steps": 1, "ratio": 0, "set": 1, "deep": 0, "validate_every": 0, "weight_decay": 0.0}
BETWEEN = {"seed": (0, 2**63 - 1), "ramp": (0, 1), "feature_dropout": (0, 1), "dropout": (0, 1), "beta2": (0, 0.999999)}
"""A decay of 1 would never learn how large gradients are; torch takes no larger seed."""


def _check(config: Config, where: str) -> None:
    """Nothing, or one sentence about a name or a number that no run can have."""
    known("method", config.method.name, METHODS, where)
    known("network", config.network.name, NETWORKS, where)
    divergence(config.method.divergence, where)
    _check_weights(config.method, where)
    for key, least in AT_LEAST.items():
        value = config.value(key)
        if value is not None and not value >= least:
            raise MixsegError(
                f"{key!r} in {where} is {value!r}: it is at least {least}.",
                "invalid-value",
                key=key,
                value=value,
                where=where,
            )
    for key, (least, most) in BETWEEN.items():
        if not least <= config.value(key) <= most:
            raise MixsegError(
                f"{key!r} in {where} is {config.value(key)!r}: it lies between {least} and {most}.",
                "invalid-value",
                key=key,
                value=config.value(key),
                where=where,
            )
    for key in ("lr", "temperature"):
        if not 0 < config.value(key) < math.inf:
            raise MixsegError(
                f"{key!r} in {where} is {config.value(key)!r}: it is a positive number.",
                "invalid-value",
                key=key,
                value=config.value(key),
                where=where,
            )
    check_spacing(config.data.dims, config.data.spacing, config.data.long_side)
    check_clip(GreyRange(config.data.clip, config.data.clip_by))
    for key in ("patch", "stride"):
        if min(config.value(key) or (1,)) < 1:
            raise MixsegError(
                f"{key!r} in {where} is {config.value(key)!r}: it counts voxels, at least 1 each.",
                "invalid-value",
                key=key,
                value=config.value(key),
                where=where,
            )
    batch = config.training.batch
    if batch.full < 1 or min(batch.counts.values()) < 0:
        raise MixsegError(
            f"'batch' in {where} counts images: at least 1 of 'full', and none of the others below 0.",
            "invalid-value",
            key="batch",
            value=batch.counts,
            where=where,
        )


def _check_weights(method: MethodConfig, where: str) -> None:
    terms = terms_of(method.name)
    for name, weight in method.weights.items():
        if not 0 <= weight < math.inf:
            raise MixsegError(
                f"The weight of {name!r} in {where} is {weight!r}: it is 0 or a positive number.",
                "invalid-value",
                key="weights",
                term=name,
                value=weight,
                where=where,
            )
        if name not in terms:
            raise MixsegError(
                f"The method {method.name} has no term {name!r} to weigh ('weights' in {where}): "
                f"{did_you_mean(name, terms)}",
                "unknown-name",
                kind="term",
                name=name,
                method=method.name,
                where=where,
            )
