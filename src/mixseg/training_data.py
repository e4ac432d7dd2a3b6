"""What a run trains on and is judged by, on the training grid."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mixseg.config import BatchSizes, Config
from mixseg.data.build import lay_out, moments, to_grid
from mixseg.data.native import Header, Native
from mixseg.data.options import PrepareOptions
from mixseg.data.prepared import Prepared, PreparedCase
from mixseg.data.scan import Scan
from mixseg.data.split import Split
from mixseg.data.views import Seen, SeenCase, see, unscored
from mixseg.errors import MixsegError, listed
from mixseg.methods import METHODS
from mixseg.pieces import one_piece
from mixseg.proposals import Proposals
from mixseg.types import IGNORE, KINDS, Kind


@dataclass(frozen=True)
class Data:
    """What a run trains on and is judged by, on the training grid.

    Attributes:
        classes: Names by class index, the background first.
        train: Scans by kind of supervision, with just the labels that the run may see.
        val: Scans with full masks, for choosing.
        open_test: Gives the test scans; called only where the test set is asked for by name.
        hash: Of the prepared arrays and of what the run sees of them.
        protocol: Who is train, val and test, for the report.
        proposals: The masks of some of the scans, if another run proposed them; kept in the run folder.
        plan: Why the training grid is what it is, a sentence each, for the run folder.
        folder: Name of the folder or archive of the scans, not its path: what a report calls them.
    """

    classes: tuple[str, ...]
    train: Mapping[Kind, Sequence[Scan]]
    val: Sequence[Scan] = ()
    open_test: Callable[[], Sequence[Scan]] = tuple
    hash: str = ""
    protocol: Mapping[str, Any] = field(default_factory=dict)
    proposals: Proposals | None = None
    plan: Sequence[str] = ()
    folder: str = ""

    @property
    def channels(self) -> int:
        """How many channels the images have: the same for every scan."""
        return next(scan.channels for scans in self.train.values() for scan in scans)

    @staticmethod
    def of(prepared: Prepared, split: Split, config: Config, *, proposals: Proposals | None = None) -> Data:
        """What the method of ``config`` may see of a prepared folder."""
        method = METHODS[config.method]
        n = None if method.ignores_set else config.set
        masks = proposals.masks if proposals else {}
        view = see(prepared, split, sees=method.sees, n=n, ratio=config.ratio, proposals=masks)
        train: dict[Kind, Seen] = {"full": view.full, "partial": view.partial, "bare": view.bare}
        protocol: dict[str, list[str]] = {
            **{kind: [seen.id for seen in cases if seen.id not in masks] for kind, cases in train.items()},
            **({"proposed": list(masks)} if masks else {}),
            **({"unused": list(view.unused)} if view.unused else {}),
            "val": [seen.id for seen in view.val],
            "test patients": list(split.test),
            **({"unscored": list(names)} if (names := unscored(prepared, split)) else {}),
        }
        return Data(
            classes=view.classes,
            train={kind: [scan_of(seen) for seen in cases] for kind, cases in train.items()},
            val=[scan_of(seen) for seen in view.val],
            open_test=lambda: [scan_of(seen) for seen in view.open_test()],
            hash=prepared.content,
            protocol=protocol,
            proposals=proposals,
        )


def bare_scan(header: Header, native: Native, options: PrepareOptions) -> tuple[Scan, PreparedCase]:
    """An image alone on the training grid, as it would have been prepared, and the way back to its own grid."""
    place = lay_out([header], options)[0]
    image = to_grid(replace(native, full=None, drawn=None), place, header.classes, options).image
    mean, std = moments(image, place)
    return Scan(header.id, image, mean=mean, std=std), replace(place, mean=mean, std=std)


def scan_of(seen: SeenCase) -> Scan:
    """A prepared scan as the streams of batches take it."""
    case = seen.case
    spacing = case.spacing if case.spacing_known else None
    return Scan(
        seen.id,
        seen.image,
        seen.full,
        seen.partial,
        mean=case.mean,
        std=case.std,
        spacing=spacing,
        beyond=seen.beyond,
    )


def settle_batch(batch: BatchSizes, data: Data) -> BatchSizes:
    """The batch sizes that the data allow: rows of a kind that is not there go to the other kind without full masks.

    Where there are both and nobody has said how many rows are bare, half of them are.
    """
    there = {kind: bool(data.train.get(kind)) for kind in KINDS}
    if not there["full"]:
        raise MixsegError(
            "No fully labelled scan to train on: outline at least one, or check the labels with `mixseg inspect`."
        )
    weak = batch.partial + (batch.bare or 0)
    if there["partial"] and there["bare"]:
        bare = weak // 2 if batch.bare is None else batch.bare
        return replace(batch, partial=weak - bare, bare=bare)
    return replace(batch, partial=weak if there["partial"] else 0, bare=weak if there["bare"] else 0)


def settle_largest(largest: tuple[int, ...] | None, data: Data) -> tuple[int, ...]:
    """The classes of which a prediction keeps one piece: those asked for, else those that are one piece in the data."""
    if largest is None:
        masks = [scan.full for scan in data.train.get("full", ()) if scan.full is not None]
        return one_piece(masks, len(data.classes))
    strange = [index for index in largest if not 0 < index < len(data.classes)]
    if strange:
        raise MixsegError(
            f"'largest' names class {strange[0]}, and there are the classes 1 to {len(data.classes) - 1} "
            f"({', '.join(data.classes[1:])}): correct it, or leave it to the full masks with null."
        )
    return largest


def check_classes(data: Data) -> None:
    """Nothing, or one sentence about a class that no label of the training scans shows."""
    seen = np.zeros(IGNORE + 1, bool)
    for scans in data.train.values():
        for scan in scans:
            for labels in (scan.full, scan.partial):
                if labels is not None:
                    seen |= np.bincount(labels.ravel(), minlength=len(seen)) > 0
    missing = [name for index, name in enumerate(data.classes) if not seen[index]]
    if missing:
        raise MixsegError(
            f"No training scan has a voxel labelled {missing[0]} on the training grid: label some, choose smaller "
            "voxels (spacing) if it is thin, or leave the class out (--set 'target=[\"...\"]' names those to segment)."
        )


def remarks(config: Config, data: Data) -> list[str]:
    """Sentences about what of the data a run has no use for, and what of the run the data cannot serve."""
    about_training = (terms_off(config, data), left_out(config, data), unseen(config, data))
    return [sentence for sentence in (*about_training, not_judging(data), no_best(data)) if sentence]


def terms_off(config: Config, data: Data) -> str:
    """A sentence about the terms of the loss that this data gives nothing to, or ""."""
    weights = config.all_weights
    fed_by_full = {"full", "dice", "distill"} | ({"entropy"} if config.entropy_on == "all" else set())
    off = [name for name, weight in weights.items() if weight and name not in fed_by_full]
    if any(scan.partial is not None for scans in data.train.values() for scan in scans):
        off = [name for name in off if name != "weak"]
    if any(data.train.get(kind) for kind in ("partial", "bare")):
        return "No scan has partial labels: the term weak is off." if "weak" in off else ""
    return f"No scan is partly labelled or unlabelled: what needs one is off ({', '.join(off)})." if off else ""


def left_out(config: Config, data: Data) -> str:
    """A sentence about the train scans whose masks are not complete enough for this method, or ""."""
    unused = data.protocol.get("unused", ())
    if not unused:
        return ""
    return (
        f"{config.method} learns from full masks alone: {len(unused)} scan{'s' * (len(unused) > 1)} in which a class "
        f"was not looked for {'are' if len(unused) > 1 else 'is'} not used ({listed(unused)})."
    )


def not_judging(data: Data) -> str:
    """A sentence about those whom the split has in val or test and who have no full mask to be scored by, or ""."""
    names = data.protocol.get("unscored", ())
    if not names:
        return ""
    many = len(names) > 1
    return (
        f"Of those to validate and test on, {len(names)} {'have' if many else 'has'} no full mask and "
        f"{'are' if many else 'is'} neither scored nor trained on: {listed(names, most=8)}."
    )


def no_best(data: Data) -> str:
    """A sentence about validation scans that can choose no checkpoint, or ""."""
    if not data.val or any(scan.shows_foreground for scan in data.val):
        return ""
    names = [scan.name for scan in data.val]
    return (
        f"No validation scan ({listed(names)}) shows any foreground ({listed(data.classes[1:])}): no best checkpoint "
        "can be chosen, and the last one is used; validate on patients who have some."
    )


def unseen(config: Config, data: Data) -> str:
    """A sentence about the train scans of a kind that no row of a step is for, or ""."""
    told = []
    kinds: dict[Kind, str] = {"partial": "partly labelled", "bare": "unlabelled"}
    for kind, words in kinds.items():
        names = [scan.name for scan in data.train.get(kind, ())]
        if names and not config.batch.counts[kind]:
            scans = f"{len(names)} {words} scan{'s are' if len(names) > 1 else ' is'}"
            told.append(f"batch.{kind} is 0: {scans} not seen ({listed(names)}).")
    return " ".join(told)


def prepare_options(config: Config) -> PrepareOptions:
    """The training grid and the partial labels that ``config`` asks for."""
    return PrepareOptions(
        dims=config.dims,
        size=config.size if config.dims == 2 else None,
        target=config.target or None,
        partial=config.partial,
        spacing=config.spacing,
        long_side=config.long_side if config.dims == 2 else None,
        clip=config.clip,
    )
