"""A fully labelled dataset -> one in which a few patients keep their masks and the others have partial labels."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from mixseg.core.errors import MixsegError, known
from mixseg.core.files import check_replaceable
from mixseg.core.progress import track
from mixseg.core.types import Case, Labels, Source
from mixseg.datasets import formats, load, phantom
from mixseg.datasets.layouts.nnunet import Item, write_dataset
from mixseg.datasets.partial_labels import GENERATORS
from mixseg.datasets.split import Split, read_split, write_split

PARTIAL = ("drawn", "none", *GENERATORS)
"""Where partial labels come from: the files, nowhere, or a generator."""


@dataclass(frozen=True)
class Recipe:
    """What the labels become.

    Attributes:
        partial: One of ``PARTIAL``.
        keep_full: How many train patients keep their full masks; None: all of them.
        seed: For generators that draw at random; the labels of a scan depend on it and on its id alone.
    """

    partial: str = "scribbles"
    keep_full: int | None = 3
    seed: int = 0

    def __post_init__(self) -> None:
        known("partial labels", self.partial, PARTIAL)
        if self.keep_full is not None and self.keep_full < 0:
            raise MixsegError(
                f"--keep-full is {self.keep_full}: give a number of patients, or all.",
                "invalid-value",
                flag="--keep-full",
                value=self.keep_full,
            )
        if self.seed < 0:
            raise MixsegError(
                f"--seed is {self.seed}: give a whole number from 0 on.",
                "invalid-value",
                flag="--seed",
                value=self.seed,
            )


def simulate(cases: Sequence[Case], out: Path, recipe: Recipe, *, split: Split | None = None, name: str = "") -> Path:
    """Write ``out``, a raw dataset in nnU-Net's layout; the masks that were taken away lie in ``labelsTr_dense``.

    The first patients keep full masks, those of validation and test do in any case.

    Args:
        cases: Scans with full masks; one without keeps its reference for evaluation and, unless there shall be none,
            its drawn labels.
        out: The folder to make; it may exist if it is empty.
        recipe: What the labels become.
        split: Who is train (in this order), val and test; written beside the scans. Without one, the folders that the
            scans lie in say so, and train patients count in the order of ``cases``.
        name: For dataset.json.
    """
    check_replaceable(out, marker="")
    if not any(case.full for case in cases):
        raise MixsegError(
            "No scan has a full mask to make partial labels from: see what there is with mixseg inspect.",
            "no-full-masks",
        )
    keep = _keepers(cases, recipe.keep_full, split)
    items = track((_item(case, recipe, case.patient in keep) for case in cases), "writing scans", total=len(cases))
    channels = [f"channel {number}" for number in range(len(cases[0].image))]
    write_dataset(out, name or out.name, cases[0].classes, items, channels=channels)
    if split is not None:
        write_split(out / "splits.json", split)
    return out


def simulate_phantom(
    out: Path,
    recipe: Recipe,
    *,
    kind: phantom.Kind,
    patients: int = 38,
    val: int = 5,
    test: int = 15,
    size: int = 64,
    seed: int = 0,
) -> Path:
    """Write the built-in data to ``out``, its labels made partial by ``recipe``."""
    check_replaceable(out, marker="")
    out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".writing-", dir=out.parent) as place:
        made = Path(place) / "made"
        phantom.write(made, kind=kind, patients=patients, val=val, test=test, size=(size, size), seed=seed)
        cases = load(made, "phantom")
        return simulate(cases, out, recipe, split=read_split(made / "splits.json", cases), name=f"phantom-{kind}")


def _keepers(cases: Sequence[Case], keep_full: int | None, split: Split | None) -> set[str]:
    """The patients whose full masks stay."""
    complete = list(dict.fromkeys(case.patient for case in cases if case.full is not None))
    if split is None:
        judges = {case.patient for case in cases if case.split in ("val", "test")}
        train = [patient for patient in complete if patient not in judges]
    else:
        judges = {*split.val, *split.test}
        train = [patient for patient in split.train if patient in complete]
    count = len(train) if keep_full is None else keep_full
    if count > len(train):
        raise MixsegError(
            f"--keep-full is {count}, but {len(train)} train patients have full masks: ask for fewer.",
            "too-few-patients",
            count=len(train),
            needed=count,
        )
    return {*train[:count], *judges}


def _item(case: Case, recipe: Recipe, keeps: bool) -> Item:
    sources = (case.full, case.partial, case.hidden)
    full, drawn, dense = (None if source is None else _labels(source) for source in sources)
    if full is None:
        label = None if recipe.partial == "none" else drawn
    elif keeps:
        label = full
    else:
        label, dense = _partial(case, full, drawn, recipe), full if dense is None else dense
    return Item(
        case.id,
        case.image,
        label=label,
        dense=dense,
        patient=case.patient,
        split=case.split or "train",  # type: ignore[arg-type]  # a Case says the same words
        annotated=case.annotated,
    )


def _partial(case: Case, full: Labels, drawn: Labels | None, recipe: Recipe) -> Labels | None:
    if recipe.partial == "none":
        return None
    if recipe.partial == "drawn":
        if drawn is None:
            raise MixsegError(
                f"{case.id} has no drawn labels: choose --partial {', '.join(GENERATORS)} or none.",
                "labels-missing",
                case=case.id,
            )
        return drawn
    # As for prepared arrays, so that adding a scan changes the labels of no other.
    rng = np.random.default_rng([recipe.seed, zlib.crc32(case.id.encode())])
    return GENERATORS[recipe.partial](full, rng)


def _labels(source: Source) -> Labels:
    return formats.read_labels(source).array.astype(np.uint8, copy=False)
