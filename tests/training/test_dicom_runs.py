"""From DICOM series to a run and back: inspected, trained on and predicted, and nobody's name is in what is left."""

import json

import numpy as np
import pytest

from dicom_files import PATIENT, oblique, write_series
from mixseg.cli import main
from mixseg.core.types import Source
from mixseg.datasets import formats
from mixseg.datasets.formats.dicom.writer import write_segmentation
from scans import CLASSES, discs

SMALL = ["--preset", "quick", "--method", "single"]
for setting in ("steps=4", "width=2", "depth=2", "validate_every=2"):
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
    assert main(["inspect", str(folder), "-o", str(tmp_path / "page.html")]) == 0
    out = capsys.readouterr().out
    assert "dicom" in out
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
    assert json.loads((run / "config.json").read_text())["data"]["dataset"] == "dicom"
    said = out + "".join(capsys.readouterr())
    assert not [secret for secret in SECRETS if secret in said]
