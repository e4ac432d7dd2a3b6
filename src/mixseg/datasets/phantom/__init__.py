"""The built-in data: scans made by formula from a seed, for the demo, the tests, and whoever has no data yet.

``heart`` makes short-axis stacks with left ventricle, myocardium and right ventricle, two frames a patient; ``atrium``
makes volumes of the left atrium. ``write`` makes a folder of them in nnU-Net's raw layout. What varies between patients
and how hard that makes it: ``docs/concepts/phantom.md``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mixseg.core.errors import MixsegError
from mixseg.core.files import write_json
from mixseg.core.progress import track
from mixseg.core.types import Volume
from mixseg.datasets.layouts import nnunet
from mixseg.datasets.layouts.nnunet import Item
from mixseg.datasets.phantom import left_atrium, short_axis
from mixseg.datasets.phantom.left_atrium import atrium
from mixseg.datasets.phantom.short_axis import FRAMES, heart

__all__ = ["FRAMES", "Kind", "atrium", "heart", "write"]

Kind = Literal["heart", "atrium"]

CLASSES = {"heart": short_axis.CLASSES, "atrium": left_atrium.CLASSES}
SLICES = {"heart": 9, "atrium": 44}
FRAME_IDS = {"ED": "frame01", "ES": "frame10"}


def write(
    root: Path,
    *,
    kind: Kind = "heart",
    patients: int = 38,
    val: int = 5,
    test: int = 15,
    size: tuple[int, int] = (64, 64),
    slices: int | None = None,
    seed: int = 0,
) -> Path:
    """Write a fully labelled dataset in nnU-Net's raw layout, and ``splits.json``; return its folder.

    Args:
        root: The folder to make; it may exist if it is empty.
        kind: "heart" (two scans a patient) or "atrium" (one).
        patients: How many; the first ones are for training, then come ``val`` and, last, ``test`` of them.
        val: Patients to choose by.
        test: Patients to report on.
        size: Voxels along i and j. The field of view is the same for every size, so the voxels differ.
        slices: 9 for hearts and 44 for atria unless told otherwise.
        seed: Other seeds make other patients.
    """
    if kind not in CLASSES:
        raise MixsegError(
            f"There is no phantom of kind '{kind}' to write to {root}: choose heart or atrium.",
            "unknown-name",
            kind="phantom",
            name=kind,
        )
    if min(val, test) < 0 or patients <= val + test:
        raise MixsegError(
            f"{patients} patients, {val} for validation and {test} for testing, leave none to train on: ask for more.",
            "too-few-patients",
            count=patients,
            needed=val + test + 1,
        )
    if min(size) < 1:
        raise MixsegError(
            f"Slices of {size[0]} x {size[1]} pixels hold nothing: give a size such as 64.",
            "invalid-value",
            key="size",
            value=size,
        )
    names = [f"patient{number:03}" for number in range(1, patients + 1)]
    train = patients - val - test
    count = slices or SLICES[kind]
    items = _hearts(names, size, count, seed) if kind == "heart" else _atria(names, size, count, seed)
    total = patients * (len(FRAMES) if kind == "heart" else 1)
    nnunet.write_dataset(
        root, f"phantom-{kind}", CLASSES[kind], track(items, f"making {kind}s", total=total), channels=("MRI",)
    )
    parts = {"train": names[:train], "val": names[train : train + val], "test": names[train + val :]}
    write_json(root / "splits.json", parts)
    return root


def _hearts(names: list[str], size: tuple[int, int], slices: int, seed: int) -> Iterator[Item]:
    for patient, name in enumerate(names):
        for frame in FRAMES:
            image, mask = heart(seed, patient, frame, size=size, slices=slices)
            yield _item(f"{name}_{FRAME_IDS[frame]}", name, image, mask, short_axis.spacing(size))


def _atria(names: list[str], size: tuple[int, int], slices: int, seed: int) -> Iterator[Item]:
    for patient, name in enumerate(names):
        image, mask = atrium(seed, patient, size=size, slices=slices)
        yield _item(name, name, image, mask, left_atrium.spacing(size, slices))


def _item(
    name: str,
    patient: str,
    image: NDArray[np.float32],
    mask: NDArray[np.uint8],
    spacing: tuple[float, float, float],
) -> Item:
    # i runs to the patient's left and j to the back, as scanners store it; RAS+ counts right and front as positive.
    affine = np.diag([-spacing[0], -spacing[1], spacing[2], 1.0])
    # Whole numbers, as from a scanner; they also compress to half the size.
    volume = Volume(np.round(image).astype(np.int16), affine)
    return Item(name, (volume,), label=mask, patient=patient)
