"""The whole way on built-in data, in minutes on a CPU: simulate, train, predict, score, report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mixseg.datasets.simulate import Recipe, simulate_phantom
from mixseg.report.comparison import comparison_rows, write_comparison
from mixseg.report.run_report import write_report
from mixseg.runs.device import Hardware
from mixseg.training.folder import train_folder

PATIENTS = {"patients": 30, "val": 4, "test": 8}
"""18 patients are left to train on: 3 with full masks, 15 with a few labelled pixels a slice."""
METHODS = ("lower-bound", "kl-ent")
SETTINGS: dict[str, Any] = {"preset": "quick", "dims": 2, "target": ["LV"]}


def demo(out: Path) -> tuple[list[tuple[str, ...]], Path]:
    """Train without and with mixseg on a phantom dataset made in ``out``; returns the table of both and the page."""
    scans = out / "scans"
    if not (scans / "dataset.json").exists():
        recipe = Recipe(partial="erosion-3x3", keep_full=3)
        simulate_phantom(scans, recipe, kind="heart", size=64, seed=0, **PATIENTS)
    print(f"{scans}: heart scans made by formula; 3 patients outlined, 15 with a few labelled pixels a slice")
    runs = [out / method for method in METHODS]
    for method, run in zip(METHODS, runs, strict=True):
        print(f"\n{method}: training")
        train_folder(scans, run, settings={**SETTINGS, "method": method}, hardware=Hardware("cpu"), test=True)
        write_report(run)
    return comparison_rows(runs), write_comparison(runs, out / "report.html")
