"""The notebooks of the documentation run to their end, on small data, and show what they promise."""

import os
import re

import nbformat
import pytest
from nbclient import NotebookClient

from conftest import ROOT
from grids import write_scans

SMALL = {
    "own-arrays": {r"PATIENTS, STEPS, SIDE = .*": "PATIENTS, STEPS, SIDE = 9, 4, 32"},
    "compare-methods": {
        r"STEPS, SIDE, SEEDS = .*": "STEPS, SIDE, SEEDS = 2, 32, (0, 1)",
        r"DATASET, SETS = .*": "DATASET, SETS = {scans!r}, (1,)",
        r"size=\(SIDE, SIDE\),": "size=(SIDE, SIDE), width=2, depth=2, ratio=1, target=['LV'],",
    },
    "read-a-run": {r"steps=60": "steps=4", r"validate_every=10": "validate_every=2, width=2, depth=2"},
}
QUICKEST = "read-a-run"
ALL = os.environ.get("MIXSEG_NOTEBOOKS")


def outputs(book):
    """What each cell with code left, by kind."""
    return [[each.get("data", {"text/plain": each.get("text", "")}) for each in cell.outputs] for cell in book.cells
            if cell.cell_type == "code"]  # fmt: skip


def executed(name, scans):
    book = nbformat.read(ROOT / "docs" / "notebooks" / f"{name}.ipynb", as_version=4)
    for pattern, smaller in SMALL[name].items():
        found = 0
        for cell in book.cells:
            cell.source, count = re.subn(
                pattern, lambda _, text=smaller: text.replace("{scans!r}", repr(str(scans))), cell.source
            )
            found += count
        assert found, pattern
    return NotebookClient(book, timeout=300, kernel_name="python3").execute()


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning", "ignore::ResourceWarning")
def test_a_notebook_runs_to_its_end(name, tmp_path, monkeypatch):
    if name != QUICKEST and not ALL:
        pytest.skip("takes its time: make notebooks")
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    scans = write_scans(tmp_path / "scans") if name == "compare-methods" else tmp_path
    shown = outputs(executed(name, scans))
    kinds = {kind for cell in shown for each in cell for kind in each}
    text = str(shown)
    assert "text/html" in kinds, "tables"
    assert "<progress" in text, "a bar that moves in place"
    assert "\\x1b[" not in text, "no bar for a terminal"
    if name != "compare-methods":
        assert "image/png" in kinds, "figures are pictures"
    else:
        assert "toprule" in text


def test_a_notebook_is_kept_without_what_it_showed():
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        book = nbformat.read(path, as_version=4)
        nbformat.validate(book)
        assert all(not cell.outputs and cell.execution_count is None for cell in book.cells if cell.cell_type == "code")
        assert path.stem in SMALL
