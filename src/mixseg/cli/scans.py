"""Verbs about scans: inspect, simulate, prepare."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro import conf

from mixseg.cli.flags import AS_FOUND, File, Folder, Labels, Layout, LongSide, Spacing, Target
from mixseg.core.errors import MixsegError, known

if TYPE_CHECKING:
    from mixseg.core.types import Case
    from mixseg.data.prepare.options import PrepareOptions
    from mixseg.datasets.split import Split
    from mixseg.report.inspection import Inspection


def inspect(
    folder: Folder,
    *,
    dataset: Layout = None,
    labels: Labels = AS_FOUND,
    out: Annotated[Path | None, conf.arg(aliases=["-o"], metavar="FILE", help_behavior_hint="")] = None,
    previews: int = 12,
    write_split: File = None,
    folds: int = 0,
) -> int:
    """Say what a folder of scans holds: who is supervised how, which classes, what is odd; every bad file is listed.

    $ mixseg inspect Dataset001_Heart

    prints the tables and writes a page with the labels drawn on slices. Strokes from a viewer, where 0 is unpainted and
    4 marks the background, are read with

    $ mixseg inspect strokes --background 4

    Args:
        folder: Scans in any known layout: see docs/reference/layouts.md.
        dataset: The layout (nnunet, acdc, la, h5, png, phantom); recognised if not given.
        labels: What the ids of label maps mean.
        out: The page; inspect-FOLDER.html in the current folder if not given.
        previews: How many scans to show.
        write_split: Draw a patient-wise split and write it to this file: train, val and test, or nnU-Net's
            splits_final.json if folds are asked for. train finds it as splits.json or splits_final.json in the folder.
            The test patients of a split that lies there already stay test patients, out of every fold.
        folds: How many folds the split has.
    """
    from mixseg.cli.printing import print_list, print_table
    from mixseg.report.inspect_page import write_page
    from mixseg.report.inspection import inspect as look_at

    if folds and write_split is None:
        raise MixsegError(f"--folds {folds} asks for a split: say with --write-split FILE where it is to be written.")
    found = look_at(folder, dataset=dataset, flags=labels, previews=previews)
    print_table(found.summary())
    head, *rows = found.class_table()
    if rows:
        print()
        print_table(rows, head)
    print_list(found.meanings, "What the label ids mean:")
    print_list(found.oddities, "Worth a second look:")
    print_list(found.problems, "Bad files:")
    page = write_page(found, out or Path(f"inspect-{folder.resolve().name}.html"))
    print(f"\nPictures: {page}")
    if write_split is not None:
        print(f"Split: {_split_written(write_split, found, folds)}")
    return 2 if found.problems else 0


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

    The first asks what would be if only three patients had been outlined; the second needs no data at all. The layout
    is nnU-Net's; the masks that were taken away lie in labelsTr_dense, which only evaluation opens.

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
    from mixseg.datasets.simulate import Recipe, simulate_phantom
    from mixseg.datasets.simulate import simulate as write

    if (source is None) == (phantom is None):
        raise MixsegError("Say where the scans come from: either --from FOLDER or --phantom heart (or atrium).")
    of_phantom = {"patients": patients, "val": val, "test": test, "size": size}
    if phantom is None:
        _refuse_useless("--from", of_phantom)
    else:
        _refuse_useless("--phantom", {"split": split, "dataset": dataset})
    recipe = Recipe(partial, None if keep_full == "all" else keep_full, seed)
    if phantom is not None:
        given = {key: value for key, value in of_phantom.items() if value is not None}
        simulate_phantom(out, recipe, kind=phantom, seed=seed, **given)
    elif source is not None:
        cases = _load(source, dataset, labels)
        write(cases, out, recipe, split=_split_of(source, cases, split, dataset))
    print(f"Written: {out}\nLook at it:", shlex.join(["mixseg", "inspect", str(out)]))


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
        clip: Percentiles of a volume that become black and white; minimum and maximum if not given.
        dataset: The layout; recognised if not given.
        labels: What the ids of label maps mean.
        workers: Processes; one per core if not given.
    """
    from mixseg.data.prepare.options import PrepareOptions

    packed = folder.is_file()
    if packed and (pack or cases):
        raise MixsegError(f"{folder} is packed already: leave --pack and --cases out to unpack it.")
    if plan and (packed or pack):
        raise MixsegError("A plan is made from the files of scans, for arrays: leave --plan or --pack out.")
    named: dict[str, Any] = {"dims": dims, "size": size, "spacing": spacing, "long_side": long_side}
    if pack:
        _refuse_unpacked({**named, "target": target or None, "partial": None if partial == "drawn" else partial})
    for_slices = _first_given({key: named[key] for key in ("size", "long_side")})
    if dims == 3 and for_slices:
        raise MixsegError(f"{for_slices} is for slices: leave it out, or give --dims 2.")
    grid = {key: value for key, value in named.items() if value is not None}
    chosen = [] if packed else _chosen(_load(folder, dataset, labels), cases)
    grid = _planned(chosen, grid) if plan else grid
    options = PrepareOptions(**grid, target=target or None, partial=partial, seed=seed, clip=clip)
    _write(chosen or folder, out, options, pack=pack, workers=workers)


def _first_given(options: dict[str, Any]) -> str:
    """The first of some options that was given, as it is typed, or nothing."""
    return next((f"--{name.replace('_', '-')}" for name, value in options.items() if value is not None), "")


def _refuse_useless(where: str, options: dict[str, Any]) -> None:
    """Nothing, or one sentence about an option that has no meaning for scans from there."""
    if flag := _first_given(options):
        raise MixsegError(f"{flag} says nothing to {where}: leave it out.")


def _refuse_unpacked(options: dict[str, Any]) -> None:
    """Nothing, or one sentence about an option that an archive does not follow: it holds all that the scans have."""
    if flag := _first_given(options):
        raise MixsegError(
            f"An archive holds the scans as they are, with all their labels: give {flag} where it is unpacked or "
            "trained on, or leave --pack out."
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
    files = [out] if out.is_file() else [path for path in out.iterdir() if path.is_file()]
    print(f"Written: {out} ({sum(path.stat().st_size for path in files) / 1e6:.1f} MB)")


def _planned(cases: Sequence[Case], given: dict[str, Any]) -> dict[str, Any]:
    """``given`` with what a plan for training on ``cases`` adds, which is printed."""
    from mixseg.runs.device import Hardware
    from mixseg.training.folder import extent_of
    from mixseg.training.plan.settings import plan_for

    plan = plan_for([extent_of(case) for case in cases], given, Hardware())
    print(plan.told())
    return {**{key: value for key, value in plan.settings.items() if key not in ("patch", "batch")}, **given}


def _split_written(path: Path, found: Inspection, folds: int) -> str:
    """Write a split of the scans to ``path``, and say what is in it; test patients that are named already stay so."""
    from mixseg.datasets import folds as drawing
    from mixseg.datasets import split
    from mixseg.datasets.contents import shows_foreground

    if path.exists():
        raise MixsegError(f"{path} exists, and runs may rest on it: remove it first, or write another file.")
    cases = split.with_test_part(found.folder, found.cases, found.layout)
    if folds:
        drawn = drawing.make_folds(cases, count=folds, shows=shows_foreground)
        split.write_folds(path, drawn, cases)
        sizes = ", ".join(f"{len(fold.train)} + {len(fold.val)}" for fold in drawn)
        kept = f"; {len(drawn[0].test)} test patients are in none" if drawn[0].test else ""
        return f"{path}, {len(drawn)} folds of train + val patients: {sizes}{kept}"
    one = split.make_split(cases, shows=shows_foreground)
    split.write_split(path, one)
    return f"{path}, {len(one.train)} patients to train on, {len(one.val)} to validate, {len(one.test)} to test"


def _split_of(source: Path, cases: Sequence[Case], path: Path | None, dataset: str | None) -> Split | None:
    """The split in ``path``, or the one beside the scans, as train would take it; None if there is neither."""
    from mixseg.datasets import recognise
    from mixseg.datasets.split import read_whole_split, split_beside

    path = path or split_beside(source)
    if path is None:
        return None
    split = read_whole_split(path, cases, dataset=dataset or recognise(source))
    print(f"Split: {path}, whose {len(split.val)} val and {len(split.test)} test patients keep their full masks.")
    return split


def _load(folder: Path, dataset: str | None, labels: Labels) -> list[Case]:
    from mixseg.datasets import load

    return load(folder, dataset, labels, print)


def _chosen(cases: Sequence[Case], names: Sequence[str]) -> list[Case]:
    """The scans that ``names`` call by id or by patient, in the order of the dataset."""
    for name in names:
        known("scan or patient", name, dict.fromkeys(word for case in cases for word in (case.id, case.patient)))
    return [case for case in cases if not names or case.id in names or case.patient in names]
