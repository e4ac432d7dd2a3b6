"""``mixseg complete``: label maps for the scans that are not finished."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from tyro import conf

from mixseg.cli.flags import AS_FOUND, Device, Folder, Labels, Layout, Output
from mixseg.core.messages import say


def complete(
    scans: Folder,
    *,
    run: Annotated[Path, conf.arg(metavar="RUN")],
    out: Output,
    dataset: Layout = None,
    labels: Labels = AS_FOUND,
    format: Annotated[str | None, conf.arg(metavar="NAME", help_behavior_hint="")] = None,  # noqa: A002 - the flag
    checkpoint: Annotated[Literal["best", "last"] | None, conf.arg(help_behavior_hint="")] = None,
    reach: float = 10.0,
    device: Device = "auto",
) -> None:
    """Write label maps for the scans that are not finished: what was drawn stays, the rest is proposed.

    $ mixseg complete SCANS --run run -o LABELS

    leaves the fully annotated scans alone. Of the others every voxel that somebody has drawn keeps its label, and what
    lies near a stroke and looks alike follows it. Correct the label maps in your viewer, save them where they are, and
    run the command again, with the same run or a better one: what you changed stays.

    Args:
        scans: A folder in any known layout, with the labels that are there.
        run: A run folder, or a model file.
        out: The folder for the label maps. Beside each lies a map of where its labels come from (0 proposed, 1 refined
            by a stroke near by, 2 drawn, 3 corrected) and one of their probability; trust.csv has the least trusted
            scans first.
        dataset: The layout; recognised if not given.
        labels: What the ids of label maps mean.
        format: nii.gz, nii, seg.nrrd, nrrd or mha; if not given, what the scans are drawn in.
        checkpoint: best on the validation scans, or last; if not given, best where there is one.
        reach: How far a stroke speaks for its surroundings, in mm along the image; 0 for its own voxels alone.
        device: auto takes the GPU if there is one.
    """
    from mixseg.annotate.folder import complete_folder
    from mixseg.cli.printing import print_table

    found = complete_folder(
        scans, run, out, dataset=dataset, flags=labels, format=format, checkpoint=checkpoint, reach=reach, device=device
    )
    rows = [(each.scan, each.structure, _percent(each.soft_dice), _percent(each.agreement)) for each in found]
    say("\nThe least trusted first (not calibrated: look at them, do not report them):")
    print_table(rows[:20], ("scan", "structure", "soft Dice", "outputs agree"))
    say(f"\nWritten: {out}")


def _percent(value: float) -> str:
    return "-" if value != value else f"{100 * value:.1f} %"
