"""Masks that a finished run proposes for scans without full ones: where they come from, what is refused, the file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mixseg.core import archives
from mixseg.core.errors import MixsegError
from mixseg.core.files import writing_arrays
from mixseg.core.progress import track
from mixseg.core.text_files import parse_json
from mixseg.data.prepare.store import Prepared
from mixseg.data.supervision import Proposals, see
from mixseg.datasets.split import Split
from mixseg.inference.predictor import Predictor
from mixseg.methods import METHODS
from mixseg.runs.config import Config, keys_where, settings_of
from mixseg.runs.device import Hardware
from mixseg.runs.folder import RunFolder

FILE = "proposals.npz"
CHECKPOINT = "last"
"""Whose answers are proposed: no score chose it."""


def find_source(config: Config, run: RunFolder) -> RunFolder | None:
    """The run that proposes masks for ``run``; None for a method that takes no proposals."""
    takes = METHODS[config.method.name].sees == "proposals"
    if takes and not config.method.proposals_from:
        raise MixsegError(
            "Masks are proposed by a finished run: name it with --from RUN (proposals_from in a config).",
            "flag-missing",
            flag="--from",
        )
    if config.method.proposals_from and not takes:
        raise MixsegError(
            f"The method {config.method.name} takes no proposals: leave out --from (proposals_from), "
            "or train with --method proposals.",
            "flag-not-applicable",
            flag="--from",
            method=config.method.name,
        )
    return run.named(config.method.proposals_from) if takes else None


def inherited(settings: Mapping[str, Any], run: RunFolder) -> dict[str, Any]:
    """Config keys of a proposals run, completed from the run that proposes: a fresh network, trained the same way.

    Given keys win. With a preset of its own it takes over no more than what both must have in common. Settings of any
    other method are returned as they are.
    """
    row = METHODS.get(settings.get("method", ""))
    if row is None or row.sees != "proposals" or not settings.get("proposals_from"):
        return dict(settings)
    theirs = settings_of(run.named(settings["proposals_from"]).config)
    taken = ("always",) if "preset" in settings else ("always", "without-preset")
    keys = keys_where(lambda key: key.inherited in taken)
    return {**{key: theirs[key] for key in keys}, **settings}


def check_source(source: RunFolder, config: Config, prepared: Prepared, split: Split, wanted: Iterable[str]) -> None:
    """Nothing, or one sentence on why ``source`` cannot propose masks for the scans ``wanted``."""
    theirs, data = source.config.data, config.data
    where = source.path
    check_finished(source)
    facts = source.facts
    classes = tuple(facts["classes"])
    if classes != prepared.classes:
        raise MixsegError(
            f"{where} was trained on the classes {', '.join(classes)}, not {', '.join(prepared.classes)}: "
            "train both with the same target.",
            "classes-differ",
            folder=where,
        )
    if (theirs.dims, theirs.dims == 2 and theirs.size) != (data.dims, data.dims == 2 and data.size):
        raise MixsegError(
            f"{where} was trained on another grid (dims {theirs.dims}, size {list(theirs.size)}, not {data.dims} and "
            f"{list(data.size)}): train both with the same dims and size.",
            "settings-differ",
            folder=where,
            key="dims" if theirs.dims != data.dims else "size",
        )
    if not prepared.holds(facts["data"]):
        raise MixsegError(
            f"{where} was trained on other data ({facts['data']}, not {prepared.content}): "
            "its masks would not fit; train it on these scans and partial labels.",
            "data-differ",
            folder=where,
        )
    held_out = {case.id for case in prepared.cases if case.patient in {*split.val, *split.test}}
    _check_no_leak(source, facts["protocol"], split, set(wanted), held_out)


def check_finished(source: RunFolder) -> None:
    """Nothing, or one sentence if ``source`` is still to be trained."""
    if source.finished is None:
        where = source.path
        raise MixsegError(
            f"{where} is not finished, so it cannot propose masks: repeat its training to finish it.",
            "not-finished",
            folder=where,
        )


def _check_no_leak(
    source: RunFolder, protocol: Mapping[str, Any], split: Split, wanted: set[str], held_out: set[str]
) -> None:
    """No proposal may come from labels that the new run must not see, and no score from labels that it has learnt."""
    known = sorted(wanted & set(protocol["full"]))
    if known:
        raise MixsegError(
            f"{source.path} has seen the full mask of {known[0]} ({len(known)} such scans) and would pass it on as a "
            "proposal: take a run that sees the same full masks as this one, such as lower-bound or kl.",
            "would-leak",
            folder=source.path,
            case=known[0],
        )
    learnt = sorted(held_out & {*protocol["full"], *protocol["partial"], *protocol.get("proposed", ())})
    if learnt:
        raise MixsegError(
            f"{source.path} has learnt from {learnt[0]} ({len(learnt)} such scans), on which this run would be judged: "
            "take a run of the same split and fold.",
            "would-leak",
            folder=source.path,
            case=learnt[0],
        )
    if set(protocol["test patients"]) != set(split.test):
        raise MixsegError(
            f"{source.path} was trained on another split: its test patients are others; use one split.",
            "splits-differ",
            folder=source.path,
        )


def origin_of(source: RunFolder) -> dict[str, Any]:
    """What is recorded about where proposals come from."""
    before = source.facts.get("proposals", {}).get("methods", [])
    return {"methods": [*before, source.config.method.name], "checkpoint": fingerprint(source)}


def fingerprint(run: RunFolder) -> str:
    """The hash of the weights that propose."""
    with (run.path / f"{CHECKPOINT}.pt").open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def kept(run: RunFolder, source: RunFolder) -> Proposals | None:
    """The proposals that ``run`` began with, so that it goes on with the same ones; None for a new run."""
    if not (run.path / FILE).exists():
        return None
    found = read_proposals(run.path / FILE)
    if (source.path / f"{CHECKPOINT}.pt").exists() and fingerprint(source) != found.origin["checkpoint"]:
        raise MixsegError(
            f"{source.path} has changed since {run.path} took its proposals from it: "
            "choose another --out for new ones.",
            "source-changed",
            folder=source.path,
        )
    return found


def write_proposals(path: Path, proposals: Proposals) -> None:
    """Write proposals.npz: ``origin`` as JSON text, and ``mask/CASE`` for each scan."""
    with writing_arrays(path) as keep:
        keep("origin", np.array(json.dumps(dict(proposals.origin))))
        for name, mask in proposals.masks.items():
            keep(f"mask/{name}", mask)


def read_proposals(path: Path) -> Proposals:
    """What ``write_proposals`` wrote."""
    try:
        held = archives.read_arrays(path)
    except MixsegError as error:
        if error.code != "broken-file":
            raise
        raise MixsegError(
            f"{path} holds no proposals ({error}): begin the run anew in another --out.", "broken-file", file=path
        ) from error
    found = {name.removeprefix("mask/"): array for name, array in held.items() if name.startswith("mask/")}
    masks = {name: mask.astype(np.uint8, copy=False) for name, mask in found.items() if mask.dtype == np.uint8}
    if "origin" not in held or len(masks) < len(found):
        raise MixsegError(f"{path} holds no proposals: begin the run anew in another --out.", "broken-file", file=path)
    return Proposals(masks, parse_json(str(held["origin"]), path, dict[str, Any]))


def propose(
    config: Config, prepared: Prepared, split: Split, run: RunFolder, *, hardware: Hardware | None = None
) -> Proposals | None:
    """The masks that ``config`` asks another run for: its answer for each scan that has no full mask here.

    As that run answers, partial labels or not: in the paper, the class with the highest probability everywhere. A run
    that has begun goes on with the masks it began with. None for a method that takes no proposals.
    """
    source = find_source(config, run)
    if source is None:
        return None
    begun = kept(run, source)
    if begun is not None:
        return begun
    scans = see(prepared, split, sees="unlabeled", n=config.data.set, ratio=config.data.ratio).train["unlabeled"]
    if not scans:
        raise MixsegError(
            f"All train scans of {prepared.folder} have full masks: there is nothing to propose.",
            "nothing-to-propose",
            folder=prepared.folder,
        )
    check_source(source, config, prepared, split, [scan.name for scan in scans])
    # A process that trains with others comes here before it knows of them, and finds the same masks as they do.
    predictor = Predictor.of(source, device=(hardware or Hardware()).device, checkpoint="last")
    wanted = [predictor.answer]
    masks = {
        scan.name: predictor.maps(scan, outputs=wanted).labels[predictor.answer]
        for scan in track(scans, "proposing masks", total=len(scans))
    }
    return Proposals(masks, origin_of(source))
