"""The table of what was understood of a folder."""

from pathlib import Path

from dataset_folders import image, mask, nifti
from mixseg.core.types import Case, Source
from mixseg.datasets import read_table
from mixseg.datasets.layouts.table import Reading, ScanRow, ScanTable, Unplaced
from refusals import refused


def row(name, state="finished", sure=True, problem=""):
    label = Source((Path(f"{name}-label.nii.gz"),), ids={0: 0, 1: 1})
    case = Case(name, name, (Source((Path(f"{name}.nii.gz"),)),), full=label, partial=label)
    return ScanRow(case, {"foreground": Reading(state, "gaps", sure)}, why="the names", problem=problem)


def test_a_row_names_each_file_once_and_says_how_the_scan_is_supervised():
    assert row("a").labels == (Path("a-label.nii.gz"),)
    assert row("a").images == (Path("a.nii.gz"),)
    assert [row("a").kind, row("a", sure=False).kind, row("a", sure=False, problem="Broken.").kind] == [
        "full",
        "unsure",
        "bad",
    ]


def test_unsure_labels_are_refused_with_the_scans_and_files_and_bad_rows_are_no_cases():
    rows = (row("a"), row("b", "strokes", sure=False), row("c", sure=False, problem="c is broken."))
    table = ScanTable(Path("scans"), "own", ("background", "foreground"), rows, (Unplaced(Path("x"), "x is odd."),))
    assert [case.id for case in table.cases] == ["a", "b"]
    assert table.problems == ["c is broken.", "x is odd."]
    with refused("labels-unsure", scans=["b"], files=["b-label.nii.gz"]):
        table.check_sure()


def test_a_layout_that_fixes_the_meaning_of_labels_has_a_table_too(tmp_path):
    nifti(tmp_path / "patient001" / "patient001_frame01.nii.gz", image())
    nifti(tmp_path / "patient001" / "patient001_frame01_gt.nii.gz", mask())
    table = read_table(tmp_path)
    assert (table.layout, [row.kind for row in table.rows], table.unsure) == ("acdc", ["full"], [])
    assert table.classes == ("background", "RV", "Myo", "LV")
    assert table.meanings
