"""From scans, wherever they lie, and settings to what a run is trained on: config, split, arrays, and what it sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from mixseg.core.errors import MixsegError
from mixseg.core.messages import say
from mixseg.core.types import KINDS
from mixseg.data.prepare.store import Prepared
from mixseg.data.supervision import Data, Proposals, see
from mixseg.datasets.split import NO_TEST, Split, set_n
from mixseg.inference.predictor import single_component
from mixseg.methods import METHODS
from mixseg.runs.config import Config, flat
from mixseg.runs.config_groups import BatchSizes
from mixseg.runs.device import Hardware, on_rank_zero_only
from mixseg.runs.folder import RunFolder
from mixseg.training.checks import check_before_reading
from mixseg.training.pseudo_labels import propose


class Source(Protocol):
    """Where the scans of a run come from, files, arrays or an archive: read when they are asked for."""

    @property
    def name(self) -> str:
        """Of the folder or archive, not its path: what a report calls the scans; or ""."""

    def complete(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """``settings`` with what the scans themselves settle."""

    def config(self, settings: Mapping[str, Any], run: RunFolder, hardware: Hardware) -> tuple[Config, Sequence[str]]:
        """The config of ``run``, and the sentences of its plan, if the scans are planned for."""

    def split(self, config: Config) -> Split:
        """Patients by part."""

    def prepare(self, config: Config, out: Path) -> Prepared:
        """The scans on the training grid of ``config``, beside the run folder ``out``."""


@dataclass(frozen=True)
class Assembled:
    """All that the training of a run needs.

    Attributes:
        config: Of the run, but for what ``settle_batch`` and ``settle_largest`` add.
        split: Patients by part.
        prepared: All scans, on the training grid.
        data: What the run sees of them.
    """

    config: Config
    split: Split
    prepared: Prepared
    data: Data


def assemble(
    source: Source,
    settings: Mapping[str, Any],
    run: RunFolder,
    *,
    hardware: Hardware,
    test: bool = False,
    like: RunFolder | None = None,
) -> Assembled:
    """What ``run`` is trained on: the one way there, whatever the scans come from.

    Args:
        source: The scans.
        settings: Config keys, in their groups or without, with values as in JSON.
        run: Its folder, where it may have begun.
        hardware: Where it is trained.
        test: Whether the test scans will be scored.
        like: The run whose plan it has: one that has begun goes on with its own.

    Raises:
        MixsegError: The settings suit no scans or not these, or the run folder is another run's.
    """
    run.check_not_foreign()
    settings, like = source.complete(flat(settings)), like or run
    check_before_reading(settings, like, hardware)
    with on_rank_zero_only(hardware):
        config, plan = source.config(settings, like, hardware)
        split = source.split(config)
        if test and not split.test:
            raise MixsegError(NO_TEST, "no-test-patients")
        if config.data.set is not None and not METHODS[config.method.name].ignores_set:
            # Too few scans for it are told before they are prepared, too.
            set_n(split, config.data.set, config.data.ratio)
        prepared = source.prepare(config, run.path)
        for sentence in prepared.remarks():
            say(sentence)
        proposals = propose(config, prepared, split, run, hardware=hardware)
        data = seen_by(config, prepared, split, proposals=proposals)
        # A run that has begun goes on under the hash that its version gave the same arrays.
        before = str(run.facts.get("data", "")) if run.begun else ""
        hash_ = before if before and prepared.holds(before) else prepared.content
    return Assembled(config, split, prepared, replace(data, plan=plan, folder=source.name, hash=hash_))


def seen_by(config: Config, prepared: Prepared, split: Split, *, proposals: Proposals | None = None) -> Data:
    """What the method of ``config`` may see of a prepared folder."""
    method = METHODS[config.method.name]
    n = None if method.ignores_set else config.data.set
    return see(prepared, split, sees=method.sees, n=n, ratio=config.data.ratio, proposals=proposals)


def settle_batch(batch: BatchSizes, data: Data) -> BatchSizes:
    """The batch sizes that the data allow: rows of a kind that is not there go to the other kind without full masks.

    Where there are both and nobody has said how many rows are unlabeled, half of them are.
    """
    there = {kind: bool(data.train.get(kind)) for kind in KINDS}
    if not there["full"]:
        raise MixsegError(
            "No fully labelled scan to train on: outline at least one, or check the labels with `mixseg inspect`.",
            "no-full-masks",
        )
    weak = batch.partial + (batch.unlabeled or 0)
    if there["partial"] and there["unlabeled"]:
        unlabeled = weak // 2 if batch.unlabeled is None else batch.unlabeled
        return replace(batch, partial=weak - unlabeled, unlabeled=unlabeled)
    return replace(batch, partial=weak if there["partial"] else 0, unlabeled=weak if there["unlabeled"] else 0)


def settle_largest(largest: tuple[int, ...] | None, data: Data) -> tuple[int, ...]:
    """The classes of which a prediction keeps one piece: those asked for, else those that are one piece in the data."""
    if largest is None:
        masks = [scan.full for scan in data.train.get("full", ()) if scan.full is not None]
        return single_component(masks, len(data.classes))
    strange = [index for index in largest if not 0 < index < len(data.classes)]
    if strange:
        raise MixsegError(
            f"'largest' names class {strange[0]}, and there are the classes 1 to {len(data.classes) - 1} "
            f"({', '.join(data.classes[1:])}): correct it, or leave it to the full masks with null.",
            "invalid-value",
            key="largest",
            value=strange[0],
        )
    return largest
