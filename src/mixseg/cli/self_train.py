"""``mixseg self-train``: rounds of training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tyro import conf

from mixseg.cli.flags import AS_FOUND, PLAINLY, Device, Folder, Labels, Layout, Output, Settings, Training
from mixseg.core.messages import say


def self_train(
    folder: Folder,
    *,
    source: Annotated[Path, conf.arg(name="from", metavar="RUN")],
    out: Output,
    rounds: int = 5,
    set: Settings = (),  # noqa: A002 - the flag
    dataset: Layout = None,
    labels: Labels = AS_FOUND,
    device: Device = "auto",
    training: Training = PLAINLY,
    test: bool = False,
) -> None:
    """Train round after round, each a fresh network on the full masks and on what the round before proposes.

    $ mixseg self-train Dataset001_Heart --from run --rounds 5 --out rounds

    leaves a run folder per round, and a picture of DSC and HD95 against the round. Finished rounds are left as they
    are: the same command goes on where it stopped, and more rounds can be asked for.

    Args:
        folder: Scans in any known layout.
        source: The finished run that proposes the first masks; the rounds have its settings.
        out: The folder for the rounds.
        rounds: How many.
        set: One config key that differs from the first run's, with a value in JSON; may be repeated.
        dataset: The layout (nnunet, acdc, la, h5, png, phantom); recognised if not given.
        labels: What the ids of label maps mean.
        device: auto takes the GPU if there is one.
        training: How to train.
        test: Score the test scans too, in every round.
    """
    from mixseg.cli.flags import config_settings
    from mixseg.cli.printing import emit_table, print_table
    from mixseg.report.self_training import write_rounds
    from mixseg.runs.device import Hardware
    from mixseg.runs.typed_json import merged
    from mixseg.training.self_training import self_train as go

    runs = go(
        folder,
        out,
        source=source,
        rounds=rounds,
        settings=merged(training.settings(), config_settings(set)),
        dataset=dataset,
        flags=labels,
        hardware=Hardware(device, training.devices),
        test=test,
    )
    (head, *rows), page = write_rounds(runs, out)
    if rows[0][0] != "0":
        say(f"{source}, round 0, was not scored on these scans and is left out: train it again with --test first.")
    print_table(rows, head)
    emit_table(rows, head)
    say(f"\nWith a picture: {page}")
