"""A raw dataset in nnU-Net's layout, written whole or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mixseg.core.errors import MixsegError
from mixseg.core.files import check_name, replacing, write_json
from mixseg.core.types import IGNORE, Source, Volume
from mixseg.datasets import formats
from mixseg.datasets.labels import declaration, encode
from mixseg.datasets.layouts.base import patient_and_frame
from mixseg.datasets.layouts.nnunet_json import NAME

ENDING = ".nii.gz"
PARTS = {"train": "Tr", "val": "Val", "test": "Ts"}


@dataclass(frozen=True)
class Item:
    """One scan to write.

    Attributes:
        id: The name of its files.
        image: One per channel: a volume, or a file, whose bytes are copied if it is .nii.gz already.
        label: Class indices or IGNORE on the grid of the image; ``None`` leaves the scan unlabeled.
        dense: A complete mask for evaluation only.
        patient: Recorded where the id does not say it.
        split: Which of the folders it goes to.
        annotated: The classes that were looked for, if not all.
    """

    id: str
    image: tuple[Volume | Source, ...]
    label: NDArray[np.uint8] | None = None
    dense: NDArray[np.uint8] | None = None
    patient: str = ""
    split: Literal["train", "val", "test"] = "train"
    annotated: tuple[str, ...] | None = None


def write_dataset(
    root: Path, name: str, classes: Sequence[str], items: Iterable[Item], *, channels: Sequence[str] = ("image",)
) -> Path:
    """Write a raw dataset that nnU-Net, and ``nnunet.cases``, read; return its folder.

    Everything is written to a folder beside ``root`` that takes its name at the end, dataset.json last: what carries
    the name is complete. ``items`` may be a generator; one scan is in memory at a time.
    """
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise MixsegError(
            f"{root} exists and is not empty: choose another folder, or remove it first.",
            "folder-not-empty",
            folder=root,
        )
    draft = root.with_name(f".writing-{root.name}")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        _write(draft, name, classes, items, channels)
        draft.replace(root)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return root


def _write(draft: Path, name: str, classes: Sequence[str], items: Iterable[Item], channels: Sequence[str]) -> None:
    seen: set[str] = set()
    patients: dict[str, str] = {}
    annotated: dict[str, list[str]] = {}
    ignore, training = False, 0
    for item in items:
        check_name("scan", item.id, name)
        if item.id in seen:
            raise MixsegError(f"{name} has two scans called {item.id}: rename one.", "duplicate-scan", case=item.id)
        seen.add(item.id)
        _write_item(draft, item, classes)
        ignore |= item.label is not None and bool((item.label == IGNORE).any())
        training += item.split == "train"
        if item.patient and item.patient != patient_and_frame(item.id)[0]:
            patients[item.id] = item.patient
        if item.annotated is not None:
            annotated[item.id] = list(item.annotated)
    content = {
        "name": name,
        "channel_names": {str(index): channel for index, channel in enumerate(channels)},
        "labels": declaration(classes, ignore=ignore),
        "numTraining": training,
        "file_ending": ENDING,
    }
    extras = {"patients": patients, "annotated": annotated}
    write_json(draft / NAME, content | {key: value for key, value in extras.items() if value})


def _write_item(draft: Path, item: Item, classes: Sequence[str]) -> None:
    part = PARTS[item.split]
    paths = [draft / f"images{part}" / f"{item.id}_{channel:04}{ENDING}" for channel in range(len(item.image))]
    for path, image in zip(paths, item.image, strict=True):
        _write_image(path, image)
    for folder, label in ((f"labels{part}", item.label), (f"labels{part}_dense", item.dense)):
        if label is not None:
            formats.write(draft / folder / f"{item.id}{ENDING}", encode(label, classes), like=paths[0])


def _write_image(path: Path, image: Volume | Source) -> None:
    if isinstance(image, Volume):
        formats.write(path, image.array, affine=image.affine)
    elif len(image.files) == 1 and formats.suffix(image.path) == ENDING:
        with replacing(path) as temporary:
            shutil.copyfile(image.path, temporary)
    else:
        formats.write(path, formats.read(image).array, like=image)
