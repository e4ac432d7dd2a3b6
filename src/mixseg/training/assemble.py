"""What a run trains on and is judged by, on the training grid."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mixseg.core.errors import MixsegError
from mixseg.core.types import KINDS, Kind
from mixseg.data.prepare.store import Prepared
from mixseg.data.scan import Scan
from mixseg.data.supervision import Seen, scan_of, see, unscored
from mixseg.datasets.split import Split
from mixseg.inference.components import one_piece
from mixseg.methods import METHODS
from mixseg.runs.config import Config
from mixseg.runs.config_groups import BatchSizes
from mixseg.training.pseudo_labels import Proposals


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
        method = METHODS[config.method.name]
        n = None if method.ignores_set else config.data.set
        masks = proposals.masks if proposals else {}
        view = see(prepared, split, sees=method.sees, n=n, ratio=config.data.ratio, proposals=masks)
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
