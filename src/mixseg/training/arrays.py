"""Training on scans in memory: ``mixseg.train``, a run folder like any other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from mixseg.core.errors import MixsegError
from mixseg.core.types import IGNORE, Device
from mixseg.data.intensity import MIN_MAX
from mixseg.data.prepare.build import Given, InMemory, build, digest, existing, key_of, parts_of
from mixseg.data.prepare.store import Prepared
from mixseg.data.scan import Native
from mixseg.datasets.layouts.table import ScanTable
from mixseg.datasets.split import Split
from mixseg.inference.model import Model, as_path
from mixseg.runs.config import Config, flat
from mixseg.runs.device import Hardware, torch_as_it_was
from mixseg.runs.folder import RunFolder
from mixseg.runs.log import OnEntry
from mixseg.training.assemble import assemble
from mixseg.training.plan.settings import planned
from mixseg.training.train import train_run


@torch_as_it_was()
def train(
    scans: Iterable[Native] | ScanTable | Path | str,
    *,
    classes: Iterable[str] | None = None,
    out: Path | str,
    val: Iterable[Native] = (),
    test: Iterable[Native] = (),
    device: Device = "auto",
    cross_validation: bool = True,
    on_log: OnEntry | None = None,
    **settings: Any,  # noqa: ANN401 - config keys, each with its own type
) -> Model:
    """A model trained on ``scans``; called again, it goes on where it stopped, or returns what is finished.

    Args:
        scans: With full masks, partial labels or none: at least one with a full mask. Or a folder of scans, or what
            ``mixseg.inspect`` understood of one.
        classes: Names by class index, the background first; a folder has its own.
        out: The run folder; the prepared arrays lie beside it.
        val: Scans with full masks, to choose the best checkpoint with.
        test: Scans with full masks, scored once the training is over.
        device: "auto" takes the GPU if there is one.
        cross_validation: Of a folder with few full masks: estimate from shorter trainings that leave patients out.
        on_log: Is given each entry of the log once it is written: for a tracker of your own, see docs/how-to/train.md.
        settings: Any config key, such as ``preset="quick"``, ``method="kl"``, ``steps=500``, ``dims=3``; what is not
            given is planned from the scans and the memory, as ``mixseg train`` does.
    """
    settings = flat(settings)
    if isinstance(scans, ScanTable | Path | str):
        _check_nothing_else({"classes": classes, "val": val, "test": test})
        _train_folder(scans, as_path(out, "out"), settings, device, cross_validation=cross_validation)
        return Model(as_path(out, "out"), device=device)
    scans, val, test = _listed(scans, "scans"), _listed(val, "val"), _listed(test, "test")
    if not scans:
        raise MixsegError("There is no scan to train on: give at least one with a full mask.", "no-scans")
    classes = _class_names(classes or ())
    run, source = RunFolder(as_path(out, "out")), Arrays(scans, val, test, classes)
    hardware = Hardware(device)
    found = assemble(source, settings, run, hardware=hardware, test=bool(test))
    train_run(run, found.config, found.data, hardware=hardware, test=bool(test), on_log=on_log)
    return Model(run.path, device=device)


def _check_nothing_else(arguments: Mapping[str, object]) -> None:
    """Nothing, or one sentence about one of the ``arguments`` that a folder has no use for, if it was given."""
    if given := next((name for name, value in arguments.items() if value not in (None, ())), ""):
        raise MixsegError(
            f"The scans of a folder have names and a split of their own: leave {given} out (split=FILE names a split).",
            "setting-not-applicable",
            key=given,
        )


def _train_folder(
    scans: ScanTable | Path | str, out: Path, settings: Mapping[str, Any], device: Device, *, cross_validation: bool
) -> None:
    """The same for files, as ``mixseg train`` does."""
    from mixseg.training.cross_validation import train_and_estimate  # here, as it reads image files

    more: dict[str, Any] = {}
    if isinstance(scans, ScanTable):
        scans.check_sure()
        more = {"dataset": scans.layout, "cases": scans.cases}
    folder = scans.folder if isinstance(scans, ScanTable) else Path(scans)
    train_and_estimate(
        folder, out, settings=settings, hardware=Hardware(device), cross_validation=cross_validation, **more
    )


class Arrays:
    """Scans in memory, split by the caller."""

    name = ""

    def __init__(
        self, train: Sequence[Native], val: Sequence[Native], test: Sequence[Native], classes: tuple[str, ...]
    ) -> None:
        self.parts = (train, val, test)
        self.scans = [_named(each, classes) for part in self.parts for each in part]

    def complete(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """``settings``, which arrays add nothing to."""
        for key in ("split", "fold"):
            if key in settings:
                raise MixsegError(
                    f"Arrays are split by the caller, as scans, val and test: leave the key {key} out.",
                    "setting-not-applicable",
                    key=key,
                )
        return dict(settings)

    def config(self, settings: Mapping[str, Any], run: RunFolder, hardware: Hardware) -> tuple[Config, Sequence[str]]:
        """As planned for the scans."""
        config, plan = planned(lambda: [each.header for each in self.scans], settings, run, hardware)
        if config.data.prepare_options.grey_range != MIN_MAX:
            raise MixsegError(
                "Arrays are scaled as they come: clip them before mixseg.scan, and leave clip and clip_by out.",
                "setting-not-applicable",
                key="clip",
            )
        return config, plan

    def split(self, config: Config) -> Split:
        """The caller's."""
        return Split(*(tuple(each.header.id for each in part) for part in self.parts))

    def prepare(self, config: Config, out: Path) -> Prepared:
        """A folder beside ``out``, made once, so that a run on arrays is a run like any other."""
        options = config.data.prepare_options
        key = key_of([each.header.fingerprint for each in self.scans], options)
        folder = out.parent / ".prepared" / f"arrays-{key[:12]}"
        scans = [Given(each.header, parts_of(each.header), InMemory(each)) for each in self.scans]
        # No worker processes: the arrays would travel to them, and a script needs no `if __name__` this way.
        return existing(folder, key) or build(folder, scans, options, workers=1)


def _listed(given: Iterable[Native], what: str) -> list[Native]:
    """The scans of one part, from a list or a generator."""
    if not isinstance(given, Iterable):
        raise MixsegError(
            f"{what} is a list of scans, each made by mixseg.scan(name, image, ...), not {type(given)}.",
            "wrong-type",
            key=what,
            type=type(given).__name__,
        )
    found = list(given)
    for each in found:
        if not isinstance(each, Native):
            raise MixsegError(
                f"A scan to train with is made by mixseg.scan(name, image, ...): this is {type(each)}.",
                "wrong-type",
                key=what,
                type=type(each).__name__,
            )
    return found


def _class_names(given: Iterable[str]) -> tuple[str, ...]:
    names = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise MixsegError(
            f"classes is {given!r}: give a list of names, the background first.",
            "wrong-type",
            key="classes",
            value=given,
        )
    if twice := [name for name in names if names.count(name) > 1]:
        raise MixsegError(
            f"Two classes are called {twice[0]}: rename one.", "duplicate-name", kind="class", name=twice[0]
        )
    return names


def _named(given: Native, classes: tuple[str, ...]) -> Native:
    """The same scan with the names of its classes."""
    found = chain.from_iterable(np.unique(a) for a in (given.full, given.drawn) if a is not None)
    beyond = sorted({int(label) for label in found if label != IGNORE and label >= len(classes)})
    if beyond:
        raise MixsegError(
            f"{given.header.id} has the label {beyond[0]}, and {len(classes)} classes are named "
            f"({', '.join(classes)}): name them all, the background first.",
            "undeclared-label",
            case=given.header.id,
            labels=beyond,
        )
    fingerprint = digest(given.header.fingerprint, classes)
    return replace(given, header=replace(given.header, classes=classes, fingerprint=fingerprint))
