"""From DICOM series to a run and back: inspected, trained on and predicted, and nobody's name is in what is left."""

import json
import re

import numpy as np
import pytest

from dicom_files import PATIENT, oblique, write_series
from made_runs import config, data
from mixseg.cli import main
from mixseg.core.types import Case, Source
from mixseg.datasets import formats
from mixseg.datasets.formats.dicom.writer import write_segmentation
from mixseg.evaluation.evaluate import evaluate
from mixseg.runs.device import Hardware
from mixseg.training.train import train
from scans import CLASSES, discs

SMALL = ["--preset", "quick", "--method", "single", "--no-cross-validation"]
for setting in ("steps=2", "width=2", "depth=2", "validate_every=2"):
    SMALL += ["--set", setting]
SECRETS = (PATIENT, "hospital-", "1.2.840")


@pytest.fixture
def folder(tmp_path):
    """Four patients, of whom three have a segmentation and one a series with a gap, too."""
    pytest.importorskip("highdicom")
    root = tmp_path / "scans"
    for number in range(4):
        image, mask, _ = discs((24, 22, 3), number)
        place = root / f"P{number}"
        about = {"patient": f"hospital-{number}", "study": f"1.2.840.{number}", "series": f"1.2.840.{number}.1"}
        write_series(place / "cine", image, oblique((1.5, 1.5, 8)), name="1.2.840.{}", **about)
        if number < 3:
            series = Source(tuple(sorted((place / "cine").iterdir())))
            write_segmentation(place / "seg", mask, CLASSES, series)
    about = {"patient": "hospital-3", "study": "1.2.840.3", "number": 2}
    write_series(root / "P3" / "gap", np.zeros((24, 22, 5), np.int16), oblique(), change=lambda _, k: k != 2, **about)
    return root


def test_a_folder_of_series_is_inspected_trained_on_and_predicted(folder, tmp_path, capsys):
    assert main(["inspect", str(folder), "-o", str(tmp_path / "page.html")]) == 3  # one series has a gap
    out = capsys.readouterr().out
    assert "3" in re.search(r"full masks +(\d+)", out)[1]
    run = tmp_path / "run"
    assert main(["train", str(folder), "--out", str(run), *SMALL]) == 0
    assert main(["predict", str(run), "-i", str(folder / "P3" / "cine"), "-o", str(tmp_path / "maps")]) == 0
    (path,) = (tmp_path / "maps").glob("*.nii.gz")
    image = formats.read(Source(tuple(sorted((folder / "P3" / "cine").iterdir()))))
    assert not formats.same_geometry(image, formats.read(path))
    written = [path for top in (run, tmp_path / "maps", tmp_path / ".prepared") for path in top.rglob("*")]
    texts = [path for path in written if path.suffix in {".json", ".jsonl", ".csv", ".html", ".txt"}]
    assert len(texts) > 5
    for path in [*texts, tmp_path / "page.html"]:
        said = path.read_text(encoding="utf-8")
        assert not [secret for secret in SECRETS if secret in said], path
    assert json.loads((run / "config.json").read_text())["data"]["dataset"] == "own"
    said = out + "".join(capsys.readouterr())
    assert not [secret for secret in SECRETS if secret in said]


def test_a_series_is_answered_with_a_segmentation_that_refers_to_it(folder, tmp_path):
    train(config(steps=2), data(val=0), tmp_path / "run", hardware=Hardware("cpu"))
    series = Source(tuple(sorted((folder / "P3" / "cine").iterdir())))
    words = ["predict", str(tmp_path / "run"), "-i", str(series.path.parent), "-device", "cpu"]
    assert main([*words, "-o", str(tmp_path / "plain")]) == 0
    assert main([*words, "-o", str(tmp_path / "dicom"), "--format", "dicom-seg", "--entropy"]) == 0
    expected = formats.read(tmp_path / "plain" / "cine.nii.gz")
    found = formats.read(Source((tmp_path / "dicom" / "cine.dcm",), grid=series.files))
    assert expected.array.any()
    assert (found.array == expected.array).all()
    np.testing.assert_allclose(found.affine, expected.affine, atol=1e-5)
    mask = Source((tmp_path / "plain" / "cine.nii.gz",), ids={0: 0, 1: 1})
    truth = Case("cine", "P3", (series,), full=mask, classes=("background", "disc"))
    assert [row.dsc for row in evaluate(tmp_path / "dicom", [truth]).rows] == [1.0]
    assert {path.name for path in (tmp_path / "dicom").iterdir()} == {
        "cine.dcm",
        "cine.mixseg.json",
        "cine_entropy.nii.gz",
        "classes.json",
        "volumes.csv",
    }
    assert main([*words, "-o", str(tmp_path / "dicom"), "--format", "dicom-seg", "--entropy"]) == 0
    formats.write(tmp_path / "images" / "x.nii.gz", np.ones((16, 16, 1), np.int16), affine=np.eye(4))
    words[3] = str(tmp_path / "images")
    assert main([*words, "-o", str(tmp_path / "none"), "--format", "dicom-seg"]) == 4
    assert not (tmp_path / "none").exists()
