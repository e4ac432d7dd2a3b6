"""nnU-Net's dataset.json: channels, label names, and the entries that we add for cases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mixseg.core.errors import MixsegError
from mixseg.core.files import check_name
from mixseg.core.text_files import read_json

NAME = "dataset.json"


@dataclass(frozen=True)
class Description:
    """What dataset.json says.

    Attributes:
        names: Label id -> name, without the ignore id.
        ignore: The id called "ignore", if any.
        channels: How many images a scan has.
        patients: Case -> patient, where whoever wrote the file said so.
        annotated: Case -> the classes that were looked for in it.
        files: Case -> (images, label or None), where the file lists them instead of relying on names.
    """

    names: Mapping[int, str]
    ignore: int | None = None
    channels: int = 1
    patients: Mapping[str, str] = field(default_factory=dict)
    annotated: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    files: Mapping[str, tuple[tuple[Path, ...], Path | None]] = field(default_factory=dict)


def read(path: Path) -> Description:
    """The description in ``path``; an entry of the wrong form is one sentence."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise MixsegError(
            f"{path} is not an object of keys and values: see docs/reference/layouts.md.", "wrong-content", file=path
        )
    names = _names(content, path)
    ignore = next((value for value, name in names.items() if name.lower() == "ignore"), None)
    names = {value: name for value, name in names.items() if value != ignore}
    channels = _mapping(content, "channel_names", path) or _mapping(content, "modality", path)
    annotated = {
        case: _annotated(case, classes, names, path) for case, classes in _mapping(content, "annotated", path).items()
    }
    patients = {str(case): str(patient) for case, patient in _mapping(content, "patients", path).items()}
    files = {case: _files(case, entry, path) for case, entry in _mapping(content, "dataset", path).items()}
    return Description(names, ignore, max(len(channels), 1), patients, annotated, files)


def _mapping(content: dict[str, Any], key: str, path: Path) -> dict[str, Any]:
    value = content.get(key, {})
    if not isinstance(value, dict):
        raise MixsegError(
            f"'{key}' of {path} is not an object of keys and values: mend or remove it.",
            "wrong-content",
            file=path,
            key=key,
        )
    return value


def _names(content: dict[str, Any], path: Path) -> dict[int, str]:
    """Id -> name from ``labels``: name -> id (nnU-Net 2), id -> name (nnU-Net 1), or name -> ids (regions)."""
    labels = _mapping(content, "labels", path)
    if not labels:
        raise MixsegError(
            f'{path} declares no labels: add for example "labels": {{"background": 0, "LV": 1}}.',
            "wrong-content",
            file=path,
            key="labels",
        )
    pairs: list[tuple[Any, str]] = [(value, str(key)) for key, value in labels.items() if not isinstance(value, list)]
    if all(key.lstrip("-").isdigit() for key in labels):
        pairs = [(key, str(value)) for key, value in labels.items()]
    # A region is painted with the id at its place in regions_class_order, which then goes by its name.
    regions = [name for name in labels if name not in ("background", "ignore")]
    if any(isinstance(labels[name], list) for name in regions):
        special = [(value, name) for value, name in pairs if name in ("background", "ignore")]
        pairs = [*special, *zip(content.get("regions_class_order", []), regions, strict=False)]
    names: dict[int, str] = {}
    for value, name in pairs:
        try:
            number = int(value)
        except (TypeError, ValueError):
            raise MixsegError(
                f"Label '{name}' of {path} has the id {value!r}: give it a whole number.",
                "wrong-content",
                file=path,
                key="labels",
                name=name,
            ) from None
        check_name("label", name, path)
        if number in names:
            raise MixsegError(
                f"{path} gives the id {number} to '{names[number]}' and '{name}': give each its own.",
                "duplicate-label",
                file=path,
                label=number,
            )
        names[number] = name
    return names


def _annotated(case: str, classes: Any, names: dict[int, str], path: Path) -> tuple[str, ...]:  # noqa: ANN401 - json
    known = set(names.values())
    wrong = [name for name in classes if name not in known] if isinstance(classes, list) else [classes]
    if wrong:
        raise MixsegError(
            f"'annotated' of {case} in {path} names {wrong[0]!r}: give a list of {sorted(known)}.",
            "wrong-content",
            file=path,
            key="annotated",
            case=case,
        )
    return tuple(classes)


def _files(case: str, entry: Any, path: Path) -> tuple[tuple[Path, ...], Path | None]:  # noqa: ANN401 - json
    check_name("scan", case, path)
    images = entry.get("images") if isinstance(entry, dict) else None
    if not isinstance(images, list) or not images:
        raise MixsegError(
            f"'dataset' of {path} lists no images for {case}: give a list of file names.",
            "wrong-content",
            file=path,
            key="dataset",
            case=case,
        )
    label = entry.get("label")
    return tuple(path.parent / str(name) for name in images), path.parent / str(label) if label else None
