"""``mixseg simulate``: a dataset with partial labels."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro import conf

from mixseg.cli.flags import AS_FOUND, File, Labels, Layout, Target, first_given
from mixseg.core.errors import UsageError
from mixseg.core.messages import result, say

if TYPE_CHECKING:
    from mixseg.core.types import Case
    from mixseg.datasets.split import Split


def simulate(
    out: Target,
    *,
    source: Annotated[Path | None, conf.arg(name="from", metavar="FOLDER", help_behavior_hint="")] = None,
    phantom: Literal["heart", "atrium"] | None = None,
    partial: str = "scribbles",
    keep_full: int | Literal["all"] = 3,
    seed: int = 0,
    split: File = None,
    dataset: Layout = None,
    labels: Labels = AS_FOUND,
    patients: Annotated[int | None, conf.arg(help_behavior_hint="(default: 38)")] = None,
    val: Annotated[int | None, conf.arg(help_behavior_hint="(default: 5)")] = None,
    test: Annotated[int | None, conf.arg(help_behavior_hint="(default: 15)")] = None,
    size: Annotated[int | None, conf.arg(help_behavior_hint="(default: 64)")] = None,
) -> None:
    """Write a dataset in which a few patients keep full masks and the others have partial labels.

    $ mixseg simulate Dataset900_Strokes --from Dataset001_Heart --partial scribbles --keep-full 3

    $ mixseg simulate phantom --phantom heart

    The first asks what would be if only three patients had been annotated in full; the second needs no data at all. The
    layout is nnU-Net's; the masks that were taken away lie in labelsTr_dense, which only evaluation opens.

    Args:
        out: The dataset to write; new or empty.
        source: A folder of scans with full masks, in any known layout.
        phantom: Make the scans by formula instead.
        partial: erosion-3x3, erosion-10x10, scribbles, scribbles-border, points, boxes, slices; drawn: those of the
            source; none: no labels at all.
        keep_full: How many train patients keep their full masks.
        seed: Other seeds draw other strokes, and other phantom patients.
        split: A splits.json or splits_final.json of the source: its train patients count in this order. If not given,
            the one that lies there, if any.
        dataset: The layout of the source; recognised if not given.
        labels: What the ids of label maps mean.
        patients: Of the phantom.
        val: Of these, to validate on.
        test: Of these, to test on.
        size: Height and width of the phantom's slices.
    """
    from mixseg.datasets import load
    from mixseg.datasets.simulate import Recipe, simulate_phantom
    from mixseg.datasets.simulate import simulate as write

    if (source is None) == (phantom is None):
        raise UsageError(
            "Say where the scans come from: either --from FOLDER or --phantom heart (or atrium).",
            "flag-missing",
            flag="--from",
        )
    of_phantom = {"patients": patients, "val": val, "test": test, "size": size}
    if phantom is None:
        _check_options_apply("--from", of_phantom)
    else:
        _check_options_apply("--phantom", {"split": split, "dataset": dataset})
    recipe = Recipe(partial, None if keep_full == "all" else keep_full, seed)
    if phantom is not None:
        given = {key: value for key, value in of_phantom.items() if value is not None}
        simulate_phantom(out, recipe, kind=phantom, seed=seed, **given)
    elif source is not None:
        cases = load(source, dataset, labels, say)
        write(cases, out, recipe, split=_split_of(source, cases, split, dataset))
    result({"written": out})
    say(f"Written: {out}", f"Look at it: {shlex.join(['mixseg', 'inspect', str(out)])}")


def _check_options_apply(where: str, options: dict[str, Any]) -> None:
    """Nothing, or one sentence about an option that has no meaning for scans from there."""
    if flag := first_given(options):
        raise UsageError(f"{flag} says nothing to {where}: leave it out.", "flag-not-applicable", flag=flag)


def _split_of(source: Path, cases: Sequence[Case], path: Path | None, dataset: str | None) -> Split | None:
    """The split in ``path``, or the one beside the scans, as train would take it; None if there is neither."""
    from mixseg.datasets import recognise
    from mixseg.datasets.split import read_whole_split, split_beside

    path = path or split_beside(source)
    if path is None:
        return None
    split = read_whole_split(path, cases, dataset=dataset or recognise(source))
    say(f"Split: {path}, whose {len(split.val)} val and {len(split.test)} test patients keep their full masks.")
    return split
