"""``mixseg prepare``: compact arrays for training, or an archive."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro import conf

from mixseg.cli.flags import AS_FOUND, Folder, Labels, Layout, LongSide, Spacing, Target, first_given
from mixseg.core.errors import UsageError, known
from mixseg.core.messages import result, say

if TYPE_CHECKING:
    from mixseg.core.types import Case
    from mixseg.data.prepare.options import PrepareOptions


def prepare(
    folder: Folder,
    out: Target,
    *,
    pack: bool = False,
    cases: tuple[str, ...] = (),
    plan: bool = False,
    dims: Annotated[Literal[2, 3] | None, conf.arg(help_behavior_hint="(default: 2)")] = None,
    size: Annotated[tuple[int, int] | None, conf.arg(help_behavior_hint="(default: 256 256)")] = None,
    spacing: Spacing = None,
    long_side: LongSide = None,
    target: tuple[str, ...] = (),
    partial: str = "drawn",
    seed: int = 0,
    clip: tuple[float, float] | None = None,
    clip_by: Literal["percentiles", "values", "outliers"] | None = None,
    dataset: Layout = None,
    labels: Labels = AS_FOUND,
    workers: int | None = None,
) -> None:
    """Make compact arrays for training, once per input and options; train does it by itself.

    $ mixseg prepare Dataset001_Heart arrays

    $ mixseg prepare Dataset001_Heart scans.zip --pack

    $ mixseg prepare scans.zip arrays

    The first writes a folder; the second one small archive, which the third unpacks on another machine that needs no
    image library. There, python -m mixseg.training trains from either: see docs/how-to/another-machine.md.

    Args:
        folder: Scans in any known layout, or an archive made with --pack.
        out: The folder, or with --pack the archive, to write.
        pack: Write an archive, at the scans' own resolution.
        cases: Scans or patients to take; all if not given.
        plan: Choose dims, size and spacing from the scans where they are not given, as train does, and say why.
        dims: 2 makes slices of one size, 3 volumes.
        size: Height and width of the slices.
        spacing: Voxel size in mm to resample to, 2 numbers for slices, which are then cropped or padded to the size
            round their centre, and 3 for volumes; if not given, slices are stretched and volumes kept.
        long_side: The same for slices without a voxel size: pixels that their longer side becomes.
        target: Classes to segment; the others become background. All if not given.
        partial: Where partial labels come from: drawn, none, or a generator's name (see simulate).
        seed: For generators that draw at random.
        clip: Intensities that become black and white; minimum and maximum if not given.
        clip_by: What clip counts in: percentiles if not given, values such as HU, or outliers (see prepared-data.md).
        dataset: The layout; recognised if not given.
        labels: What the ids of label maps mean.
        workers: Processes; one per core if not given.
    """
    from mixseg.data.prepare.options import PrepareOptions
    from mixseg.datasets import load

    packed = folder.is_file()
    _check_flags_fit(folder, pack=pack, cases=cases, plan=plan)
    named: dict[str, Any] = {"dims": dims, "size": size, "spacing": spacing, "long_side": long_side}
    if pack:
        _check_options_of_archive(
            {**named, "target": target or None, "partial": None if partial == "drawn" else partial}
        )
    if dims == 3:
        _check_not_for_slices({key: named[key] for key in ("size", "long_side")})
    grid = {key: value for key, value in {**named, "clip": clip, "clip_by": clip_by}.items() if value is not None}
    chosen = [] if packed else _chosen(load(folder, dataset, labels, say), cases)
    grid = _planned(chosen, grid) if plan else grid
    options = PrepareOptions(**grid, target=target or None, partial=partial, seed=seed)
    _write(chosen or folder, out, options, pack=pack, workers=workers)


def _check_flags_fit(folder: Path, *, pack: bool, cases: tuple[str, ...], plan: bool) -> None:
    """Nothing, or one sentence about flags that say nothing to an archive, be it read or written."""
    packed = folder.is_file()
    if packed and (pack or cases):
        raise UsageError(
            f"{folder} is packed already: leave --pack and --cases out to unpack it.",
            "flag-not-applicable",
            flag="--pack" if pack else "--cases",
            file=folder,
        )
    if plan and (packed or pack):
        raise UsageError(
            "A plan is made from the files of scans, for arrays: leave --plan or --pack out.",
            "flag-not-applicable",
            flag="--plan",
        )


def _check_not_for_slices(options: dict[str, Any]) -> None:
    """Nothing, or one sentence about an option that volumes have no use for."""
    if flag := first_given(options):
        raise UsageError(f"{flag} is for slices: leave it out, or give --dims 2.", "flag-not-applicable", flag=flag)


def _check_options_of_archive(options: dict[str, Any]) -> None:
    """Nothing, or one sentence about an option that an archive does not follow: it holds all that the scans have."""
    if flag := first_given(options):
        raise UsageError(
            f"An archive holds the scans as they are, with all their labels: give {flag} where it is unpacked or "
            "trained on, or leave --pack out.",
            "flag-not-applicable",
            flag=flag,
        )


def _write(scans: Path | list[Case], out: Path, options: PrepareOptions, *, pack: bool, workers: int | None) -> None:
    """Write what ``prepare`` is asked for, of cases or of an archive, and say so."""
    from mixseg.cli.printing import print_list
    from mixseg.data.prepare.archive import pack as write_archive
    from mixseg.data.prepare.archive import unpack
    from mixseg.data.prepare.files import prepare as write_arrays

    remarks: list[str] = []
    if isinstance(scans, Path):
        remarks = unpack(scans, out, options, workers=workers).remarks()
    elif pack:
        write_archive(scans, out, options, workers=workers)
    else:
        remarks = write_arrays(scans, out, options, workers=workers).remarks()
    print_list(remarks, "Worth a second look:")
    files = [out] if out.is_file() else [path for path in out.rglob("*") if path.is_file()]
    result({"written": out, "remarks": remarks})
    say(f"Written: {out} ({sum(path.stat().st_size for path in files) / 1e6:.1f} MB)")


def _planned(cases: Sequence[Case], given: dict[str, Any]) -> dict[str, Any]:
    """``given`` with what a plan for training on ``cases`` adds, which is printed."""
    from mixseg.data.prepare.files import read_header, some_images
    from mixseg.runs.device import Hardware
    from mixseg.training.plan.settings import plan_for

    plan = plan_for([read_header(case) for case in cases], given, Hardware(), lambda: some_images(cases))
    say(plan.sentences())
    return {**{key: value for key, value in plan.settings.items() if key not in ("patch", "batch")}, **given}


def _chosen(cases: Sequence[Case], names: Sequence[str]) -> list[Case]:
    """The scans that ``names`` call by id or by patient, in the order of the dataset."""
    for name in names:
        known("scan or patient", name, dict.fromkeys(word for case in cases for word in (case.id, case.patient)))
    return [case for case in cases if not names or case.id in names or case.patient in names]
