"""Self-training: rounds of fresh networks, each learning from the masks that the one before proposes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from mixseg.core.errors import MixsegError
from mixseg.core.messages import say
from mixseg.datasets.labels import LabelFlags
from mixseg.runs.config import flat, make_config, settings_of
from mixseg.runs.device import Hardware, processes_of_its_own
from mixseg.runs.folder import RunFolder
from mixseg.runs.typed_json import holds
from mixseg.training.folder import train_folder
from mixseg.training.pseudo_labels import FILE, fingerprint, read_proposals

SEEDS_APART = 1000
"""Round r has the seed s + 1000 r: no round of one seed repeats the start of a round of another."""


def self_train(
    folder: Path,
    out: Path,
    *,
    source: Path,
    rounds: int = 5,
    settings: Mapping[str, Any] | None = None,
    dataset: str | None = None,
    flags: LabelFlags | None = None,
    hardware: Hardware | None = None,
    test: bool = False,
) -> list[Path]:
    """Train ``out/round-1``, ``out/round-2``, ...; returns the run folders, that of ``source`` first.

    A finished round is left as it is, one that was stopped goes on; more rounds can be asked for later. More steps
    train the last round longer, and are refused where a later round has learnt from one of fewer.

    Args:
        folder: Scans in any known layout.
        out: The folder for the runs and the page.
        source: The finished run that proposes the masks of the first round.
        rounds: How many.
        settings: Config keys of every round; all others are those of ``source``. The seed is of "round 0".
        dataset: The layout; recognised if not given.
        flags: What label ids mean, where that is not clear.
        hardware: Where to compute: one machine, any number of its devices.
        test: Score the test scans too.
    """
    if rounds < 1:
        raise MixsegError(
            f"--rounds is {rounds}: ask for at least one.", "invalid-value", flag="--rounds", value=rounds
        )
    if hardware and hardware.nodes > 1:
        raise MixsegError(
            "Rounds are trained on one machine: over several, train each with --method proposals --from.",
            "several-machines",
        )
    _check_folder(out)
    settings = flat(settings or {})
    if given := sorted({"method", "proposals_from"} & set(settings)):
        raise MixsegError(
            f"--set {given[0]} is nothing to choose for a round, which learns from proposals of the one before: "
            "leave it out; --from names the run that proposes first.",
            "setting-not-applicable",
            key=given[0],
        )
    runs = [RunFolder(source), *(RunFolder(_round(out, number)) for number in range(1, rounds + 1))]
    seed = settings.get("seed", runs[0].config.training.seed)
    seed = make_config(seed=seed).training.seed  # refused unless it is one
    if "steps" in settings:
        _check_steps(out, runs[1:], settings["steps"])
    _check_scans_unchanged(folder, runs[1:])
    for number, (before, run) in enumerate(pairwise(runs), start=1):
        asked = _seen_from(out, before.path)
        wanted = {**settings, "method": "proposals", "proposals_from": asked, "seed": seed + SEEDS_APART * number}
        if _done(run, before, wanted, test=test):
            say(f"round {number} of {rounds}: finished before")
            continue
        say(f"round {number} of {rounds}: from {before.path}")
        with processes_of_its_own():
            train_folder(folder, run.path, settings=wanted, dataset=dataset, flags=flags, hardware=hardware, test=test)
    return [run.path for run in runs]


def _round(out: Path, number: int) -> Path:
    return out / f"round-{number}"


def _check_folder(out: Path) -> None:
    """Nothing, or one sentence if ``out`` holds something else than rounds: a run, scans, predictions."""
    if (out / "config.json").exists():
        raise MixsegError(
            f"{out} is a run, whose report.html would be lost: choose another folder as --out.",
            "would-overwrite",
            folder=out,
        )
    if not _round(out, 1).exists():
        RunFolder(out).check_not_foreign()


def _check_scans_unchanged(folder: Path, rounds: Sequence[RunFolder]) -> None:
    """Nothing, or one sentence about scans that are not there, or not those that a round was trained on."""
    if not folder.exists():
        raise MixsegError(f"{folder} does not exist: check the path to the scans.", "folder-missing", folder=folder)
    for run in (each for each in rounds if each.begun):
        theirs = run.facts.get("folder")
        if theirs is not None and theirs != folder.resolve().name:  # the rest of the path may have changed since
            raise MixsegError(
                f"{run.path} holds a run on other data ({theirs}): choose another --out.",
                "data-differ",
                folder=run.path,
            )


def _check_steps(out: Path, rounds: Sequence[RunFolder], steps: object) -> None:
    """Nothing, or one sentence if a round would be trained longer from which the next one has its proposals already."""
    for number, run in enumerate(rounds, start=1):
        later = _round(out, number + 1)
        if run.begun and (later / FILE).exists() and run.config.training.steps != steps:
            before = run.config.training.steps
            raise MixsegError(
                f"{run.path} was trained for {before} steps, not {steps}, and {later} has learnt from it: "
                f"repeat steps={before}, or choose another --out.",
                "settings-differ",
                folder=run.path,
                key="steps",
                value=steps,
                expected=before,
            )


def _seen_from(out: Path, run: Path) -> str:
    """How a run in ``out`` names another one, wherever the command is given."""
    return os.path.relpath(run.resolve(), out.resolve())


def _done(run: RunFolder, before: RunFolder, wanted: Mapping[str, Any], *, test: bool) -> bool:
    """Whether the round is finished, with these settings, and from what ``before`` holds now."""
    done = run.finished
    if not done or (test and not done["test"]):
        return False
    same = read_proposals(run.path / FILE).origin["checkpoint"] == fingerprint(before)
    return same and holds(settings_of(run.config), wanted)
