"""The way of a user, through the real command line: simulate, inspect, train, predict, evaluate, report."""

import csv
import json
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

from mixseg.cli import main

SMALL = (
    "--set",
    "steps=12",
    "--set",
    "width=4",
    "--set",
    "depth=2",
    "--set",
    "size=[32,32]",
    "--set",
    "validate_every=6",
)


@pytest.fixture(scope="module")
def way(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which every verb has run once, each on what the one before has left."""
    root = tmp_path_factory.mktemp("way")
    scans, run = str(root / "scans"), str(root / "run")
    phantom = ("--phantom", "heart", "--patients", "8", "--val", "1", "--test", "2", "--size", "32", "--keep-full", "2")
    verbs = (
        ("simulate", scans, *phantom),
        ("inspect", scans, "--out", str(root / "scans.html")),
        ("train", scans, "--out", run, "--preset", "strong", "-device", "cpu", "--test", *SMALL),
        ("predict", run, "-i", f"{scans}/imagesTr", "-o", str(root / "maps"), "--entropy", "-device", "cpu"),
        ("evaluate", "-i", f"{run}/predictions/last/bottom", "-r", f"{scans}/labelsTr", "-o", str(root / "scores")),
        ("report", run),
    )
    for verb in verbs:
        assert main(list(verb)) == 0, verb
    return root


def test_the_run_is_finished_and_scored_on_validation_and_test_scans(way: Path) -> None:
    finished = json.loads((way / "run" / "finished.json").read_text())
    assert finished["steps"] == 12
    assert {entry["part"] for entry in finished["summary"]} == {"val", "test"}
    with (way / "run" / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    # 3 patients with 2 frames each, 3 classes, 3 outputs, 2 checkpoints
    assert len(rows) == 3 * 2 * 3 * 3 * 2


def test_predictions_have_the_geometry_of_their_images(way: Path) -> None:
    images = sorted((way / "scans" / "imagesTr").glob("*.nii.gz"))
    assert len(images) == 16
    for path in images:
        image, labels = nib.load(path), nib.load(way / "maps" / path.name.replace("_0000", ""))
        np.testing.assert_array_equal(image.affine, labels.affine)
        assert image.shape == labels.shape
        assert set(np.unique(labels.dataobj)) <= {0, 1, 2, 3}


def test_entropy_maps_lie_between_certain_and_undecided(way: Path) -> None:
    values = np.asarray(nib.load(next((way / "maps").glob("*_entropy.nii.gz"))).dataobj)
    assert values.min() >= 0
    assert 0 < values.max() <= np.log(4) + 1e-5


def test_scores_of_the_files_are_scores_of_the_run(way: Path) -> None:
    """On equal grids, what evaluate finds in the NIfTI files is what training wrote into metrics.csv."""
    with (way / "run" / "metrics.csv").open() as file:
        of_run = {
            (row["case"], row["class"]): row["dsc"]
            for row in csv.DictReader(file)
            if (row["checkpoint"], row["branch"]) == ("last", "bottom")
        }
    with (way / "scores" / "metrics.csv").open() as file:
        of_files = {(row["case"], row["class"]): row["dsc"] for row in csv.DictReader(file)}
    assert of_files
    for key, dsc in of_files.items():
        assert (float(dsc) if dsc else None) == (pytest.approx(float(of_run[key])) if of_run[key] else None)


def test_scores_on_the_grid_of_the_files_keep_validation_and_test_apart(way: Path) -> None:
    native = way / "run" / "native"
    parts = []
    for folder in (way / "run", native):
        with (folder / "metrics.csv").open() as file:
            parts.append({(row["case"], row["part"]) for row in csv.DictReader(file)})
    assert parts[0] == parts[1]
    for part in ("val", "test"):
        cases = json.loads((native / f"summary_last_bottom_{part}.json").read_text())["metric_per_case"]
        assert len(cases) == sum(own == part for _, own in parts[0])


def test_reports_stand_by_themselves(way: Path) -> None:
    for page in (way / "run" / "report.html", way / "scans.html"):
        text = page.read_text()
        assert "data:image/png;base64" in text
        assert 'src="http' not in text


def test_training_again_does_nothing(way: Path) -> None:
    before = (way / "run" / "last.pt").stat().st_mtime_ns
    arguments = [
        "train",
        str(way / "scans"),
        "--out",
        str(way / "run"),
        "--preset",
        "strong",
        "-device",
        "cpu",
        "--test",
    ]
    assert main([*arguments, *SMALL]) == 0
    assert (way / "run" / "last.pt").stat().st_mtime_ns == before
