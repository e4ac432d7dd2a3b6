"""``mixseg demo``: the whole way on built-in data, in minutes on a CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mixseg.cli.flags import Output
from mixseg.core.messages import say

PATIENTS = {"patients": 30, "val": 4, "test": 8}
"""18 patients are left to train on: 3 with full masks, 15 with a few labelled pixels a slice."""
METHODS = ("lower-bound", "kl-ent")
SETTINGS: dict[str, Any] = {"preset": "quick", "dims": 2, "target": ["LV"]}


def demo(*, out: Output = Path("demo")) -> None:
    """Show the whole way on built-in data, in minutes on a CPU: simulate, train, predict, evaluate, report.

    $ mixseg demo --out demo

    Args:
        out: The folder for everything that is made.
    """
    from mixseg.cli.compare import show_comparison

    runs = _train(_make_scans(out / "scans"), out)
    say("\nLeft ventricle of the test patients:")
    show_comparison(tuple(runs), out / "report.html")


def _make_scans(folder: Path) -> Path:
    """The phantom dataset in ``folder``, made unless it is there."""
    from mixseg.datasets.simulate import Recipe, simulate_phantom

    if not (folder / "dataset.json").exists():
        recipe = Recipe(partial="erosion-3x3", keep_full=3)
        simulate_phantom(folder, recipe, kind="heart", size=64, seed=0, **PATIENTS)
    say(f"{folder}: heart scans made by formula; 3 patients fully annotated, 15 with a few labelled pixels a slice")
    return folder


def _train(scans: Path, out: Path) -> list[Path]:
    """Run folders in ``out``, trained without and with mixseg, each with its page."""
    from mixseg.report.run_report import write_report
    from mixseg.runs.device import Hardware
    from mixseg.training.folder import train_folder

    runs = [out / method for method in METHODS]
    for method, run in zip(METHODS, runs, strict=True):
        say(f"\n{method}: training")
        train_folder(scans, run, settings={**SETTINGS, "method": method}, hardware=Hardware("cpu"), test=True)
        write_report(run)
    return runs
