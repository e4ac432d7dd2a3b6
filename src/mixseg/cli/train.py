"""``mixseg train``: a run from a folder of scans."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from tyro import conf

from mixseg.cli.flags import (
    AS_FOUND,
    AS_PLANNED,
    PLAINLY,
    Device,
    File,
    Folder,
    Grid,
    Labels,
    Layout,
    Output,
    Settings,
    Source,
    Training,
)
from mixseg.core.messages import result, say

if TYPE_CHECKING:
    from mixseg.runs.folder import RunFolder


def train(
    folder: Folder,
    *,
    out: Output,
    method: Annotated[str | None, conf.arg(metavar="NAME", help_behavior_hint="(default: kl-ent)")] = None,
    preset: Annotated[str | None, conf.arg(metavar="NAME", help_behavior_hint="(default: strong)")] = None,
    config: File = None,
    set: Settings = (),  # noqa: A002 - the flag
    source: Source = None,
    dataset: Layout = None,
    labels: Labels = AS_FOUND,
    device: Device = "auto",
    grid: Grid = AS_PLANNED,
    training: Training = PLAINLY,
    nodes: int = 1,
    test: bool = False,
    cross_validation: bool = True,
    resume: Annotated[bool, conf.arg(name="continue", aliases=["--c"])] = False,
) -> None:
    """Train on a folder of scans, whatever mixture of full masks, partial labels and nothing it holds.

    $ mixseg train Dataset001_Heart --out run

    is all it takes: it prints a plan (slices or volumes, voxel size, patches, how many at once) and follows it. The
    same command goes on where a run stopped, and with more steps trains a finished one longer.

    $ mixseg train Dataset001_Heart --out again --method proposals --from run

    trains a fresh network on the full masks and on those that a finished run proposes for the other scans.

    $ mixseg train Dataset001_Heart --out quick --preset quick -device cpu --set steps=200 --set batch.full=4

    Args:
        folder: Scans in any known layout.
        out: The run folder.
        method: Of training; docs/concepts/method.md and docs/reference/methods explain them.
        preset: Where all other settings come from; paper is the publication's protocol, quick is for a CPU.
        config: A JSON file with config keys.
        set: One config key, with a value in JSON; may be repeated, and wins over the flags and the file.
        source: For proposals: the finished run that proposes masks, whose settings are taken over where none are given.
        dataset: The layout (nnunet, acdc, la, h5, png, phantom); recognised if not given.
        labels: What the ids of label maps mean.
        device: auto takes the GPU if there is one.
        grid: What is trained on; the rest is planned.
        training: How to train.
        nodes: Machines that train together.
        test: Score the test scans too, when the run is done.
        cross_validation: With few full masks, estimate from shorter trainings that leave patients out in turn.
        resume: Accepted and not needed: a run that has begun is always continued.
    """
    from mixseg.runs.device import Hardware
    from mixseg.runs.folder import RunFolder
    from mixseg.training.cross_validation import train_and_estimate

    named = {"method": method, "preset": preset, "proposals_from": _beside(out, source)}
    before = RunFolder(out).finished
    run = train_and_estimate(
        folder,
        out,
        settings=_settings(config, {**named, **grid.settings(), **training.settings()}, set),
        dataset=dataset,
        flags=labels,
        hardware=Hardware(device, training.devices, nodes),
        test=test,
        cross_validation=cross_validation,
    )
    _print_scores(run)
    done = "is finished already; more steps (--set steps=N) train it longer."
    say(f"{out} {done}" if run.finished == before else f"Finished: {out}")
    say(f"A page about it: {shlex.join(['mixseg', 'report', str(out)])}")


def _beside(out: Output, source: Source) -> str | None:
    """The path to the proposing run from the folder that holds the new one."""
    return None if source is None else os.path.relpath(source.resolve(), out.resolve().parent)


def _settings(config: File, flags: Mapping[str, Any], assignments: Settings) -> dict[str, Any]:
    """Config keys of a file, of flags that were given, and of --set: what comes later wins."""
    from mixseg.cli.flags import config_settings
    from mixseg.runs.config import read_config
    from mixseg.runs.typed_json import merged

    settings = {} if config is None else read_config(config)
    settings = merged(settings, {key: value for key, value in flags.items() if value is not None})
    return merged(settings, config_settings(assignments))


def _print_scores(run: RunFolder) -> None:
    """What the last checkpoint of a finished run reached: its answer, and the teacher if there is one."""
    from mixseg.cli.printing import print_table
    from mixseg.evaluation.scores import summarise, table
    from mixseg.methods.outputs import answer_and_teacher, output_name
    from mixseg.report.run_files import RunFiles
    from mixseg.report.wording import verdict

    found = RunFiles.read(run)
    entries = summarise([row for row in found.rows if row.checkpoint == "last"], intervals=True)
    for entry in entries:
        result({"run": run.path, **entry})
    if entries:
        outputs = found.branches
        shown = [entry for entry in entries if entry["branch"] in answer_and_teacher(outputs)]
        head, *rows = table([{**entry, "branch": output_name(entry["branch"], outputs)} for entry in shown])
        say("\nScores on the training grid:")
        print_table(rows, head)
        say("")
    say(verdict(found))
