"""What a run trains on and is judged by, and what the scans settle of its config."""

from __future__ import annotations

from dataclasses import replace

from mixseg.core.errors import MixsegError
from mixseg.core.types import KINDS
from mixseg.data.prepare.store import Prepared
from mixseg.data.supervision import Data, Proposals, see
from mixseg.datasets.split import Split
from mixseg.inference.maps import one_piece
from mixseg.methods import METHODS
from mixseg.runs.config import Config
from mixseg.runs.config_groups import BatchSizes


def seen_by(config: Config, prepared: Prepared, split: Split, *, proposals: Proposals | None = None) -> Data:
    """What the method of ``config`` may see of a prepared folder."""
    method = METHODS[config.method.name]
    n = None if method.ignores_set else config.data.set
    return see(prepared, split, sees=method.sees, n=n, ratio=config.data.ratio, proposals=proposals)


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
