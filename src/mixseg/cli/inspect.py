"""``mixseg inspect``: what a folder of scans holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro import conf

from mixseg.cli.flags import AS_FOUND, File, Folder, Labels, Layout
from mixseg.core.errors import SOME_FAILED, MixsegError, UsageError
from mixseg.core.messages import result, say

if TYPE_CHECKING:
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
    write: bool = False,
) -> int:
    """Say what a folder of scans holds: who is supervised how, which classes, what is odd; every bad file is listed.

    $ mixseg inspect Dataset001_Heart

    prints the tables and writes a page with the labels drawn on slices. Strokes from a viewer, where 0 is unpainted and
    4 marks the background, are read with

    $ mixseg inspect strokes --background 4

    In a folder of your own, images, labels and how these were drawn are found; what is not clear is said with

    $ mixseg inspect "T1 study" --scribbles "Patient 03*" --write

    which keeps all of it in mixseg.json beside the scans, to be read by every verb and corrected by hand.

    Args:
        folder: Scans in any layout: see docs/reference/layouts.md.
        dataset: The layout (nnunet, acdc, la, h5, png, phantom, dicom, own); recognised if not given.
        labels: What the ids of label maps mean.
        out: The page; inspect-FOLDER.html in the current folder if not given.
        previews: How many scans to show.
        write_split: Draw a patient-wise split and write it to this file: train, val and test, or nnU-Net's
            splits_final.json if folds are asked for. train finds it as splits.json or splits_final.json in the folder.
            The test patients of a split that lies there already stay test patients, out of every fold.
        folds: How many folds the split has.
        write: Write what was understood to mixseg.json in the folder; what else that file holds is kept.
    """
    from mixseg.report.inspect_page import write_page
    from mixseg.report.inspection import inspect as look_at

    if folds and write_split is None:
        raise UsageError(
            f"--folds {folds} asks for a split: say with --write-split FILE where it is to be written.",
            "flag-missing",
            flag="--write-split",
        )
    found = look_at(folder, dataset=dataset, flags=labels, previews=previews)
    _print(found)
    page = write_page(found, out or Path(f"inspect-{folder.resolve().name}.html"))
    say(f"\nPictures: {page}")
    if write_split is not None:
        say(f"Split: {_split_written(write_split, found, folds)}")
    if write:
        say(f"Written: {_written(found)}")
    _emit(found, page)
    return SOME_FAILED if found.problems else 0


def _print(found: Inspection) -> None:
    """The tables and sentences, for a person."""
    from mixseg.cli.printing import print_list, print_table

    print_table(found.summary())
    if lines := found.understood():
        say("")
        print_table(lines[1:], lines[0], numbers=False)
    head, *rows = found.class_table()
    if rows:
        say("")
        print_table(rows, head)
    print_list(found.meanings, "What the label ids mean:")
    print_list(found.oddities, "Worth a second look:")
    print_list(found.other_problems, "Bad files:")
    print_list(found.questions, "Finished masks or strokes? train asks; say --full GLOB or --scribbles GLOB:")


def _emit(found: Inspection, page: Path) -> None:
    """A row of the table each, and what holds for the whole folder, for a program."""
    for row in found.table.described:
        result(row)
    whole = {
        name: getattr(found, name) for name in ("folder", "layout", "meanings", "oddities", "problems", "questions")
    }
    result({**whole, "classes": found.table.classes, "priority": found.table.priority, "page": page})


def _written(found: Inspection) -> Path:
    """Keep what was understood beside the scans."""
    from mixseg.datasets.layouts.own import description

    if found.layout != "own":
        raise UsageError(
            f"{found.folder} is in the layout {found.layout}, which says itself what lies where: leave --write out.",
            "flag-not-applicable",
            flag="--write",
            folder=found.folder,
        )
    return description.write(found.table)


def _split_written(path: Path, found: Inspection, folds: int) -> str:
    """Write a split of the scans to ``path``, and say what is in it; test patients that are named already stay so."""
    from mixseg.datasets import folds as drawing
    from mixseg.datasets import split
    from mixseg.datasets.contents import shows_foreground

    if path.exists():
        raise MixsegError(
            f"{path} exists, and runs may rest on it: remove it first, or write another file.",
            "would-overwrite",
            file=path,
        )
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
