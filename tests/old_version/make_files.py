"""Make the files that a version leaves behind: run this with the version whose files are wanted, not with a later one.

    PYTHONPATH=CHECKOUT/src OMP_NUM_THREADS=1 python -W ignore make_files.py

writes files.tar.xz and expected.json (what is to be read from them) beside this script. It calls the command line
alone, but for two things: the scans are smaller than ``mixseg simulate`` makes them, and one training is stopped on the
way.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

import nibabel
import numpy as np
import torch

from mixseg import __version__, engine, run
from mixseg.cli import main
from mixseg.datasets import phantom

HERE = Path(__file__).resolve().parent
BATCH = {"full": 2, "partial": 2, "bare": 1}
FLAT = {"method": "kl-ent", "preset": "quick", "dims": 2, "size": [32, 32], "clip": [1, 99], "width": 2, "depth": 2}
LONG = {"steps": 10, "validate_every": 2, "precision": "fp32", "seed": 3, "lr": 0.02}
DEEP = {
    "method": "kl-ent", "preset": "quick", "dims": 3, "patch": [16, 16, 4], "stride": [8, 8, 4], "window": "uniform",
    "network": "vnet", "width": 1, "depth": 1, "optimizer": "sgd", "average": 0.9,
}  # fmt: skip
CONFIGS = {
    "config-2d.json": {**FLAT, **LONG, "batch": BATCH, "weights": {"mix": 1.0, "dice": 1.0}, "largest": [3]},
    "config-3d.json": {**DEEP, **LONG, "batch": BATCH},
    "config-arrays.json": {**FLAT, **LONG, "size": [16, 16], "depth": 1, "batch": BATCH, "dataset": "nnunet"},
}
"""Words of version 0.1.0: a later version has to understand them."""
IMAGE = "scans/imagesTr/patient006_frame01_0000.nii.gz"
STOPPED = 5
"""The step of the checkpoint that the training which was stopped has left: between two looks."""


def call(*words: str, code: int = 0) -> None:
    """``mixseg WORDS``; the words are kept in the run folder, and the path of this script is not."""
    sys.argv = ["mixseg", *words]
    assert main(words) == code, words


def make_scans() -> None:
    """Seven scans of six patients: two with full masks, one with strokes, one without labels, and one each to judge."""
    phantom.write(Path("made"), kind="heart", patients=6, val=1, test=1, size=(32, 32), slices=4, seed=7)
    for path in sorted(Path("made").rglob("*_frame10*")):
        if "patient001" not in path.name:
            path.unlink()
    call("simulate", "scans", "--from", "made", "--partial", "scribbles", "--keep-full", "2")
    Path("scans/labelsTr/patient004_frame01.nii.gz").unlink()
    shutil.rmtree("made")


def make_stopped(*words: str) -> None:
    """A training that the user interrupts at the look after step 5, with a checkpoint after each step."""

    class Interrupted(run.Look):
        def __call__(self, method, progress, before, terms):
            if round(progress * LONG["steps"]) > STOPPED:
                raise KeyboardInterrupt
            return super().__call__(method, progress, before, terms)

    whole, run.Look, engine.SECONDS_BETWEEN_CHECKPOINTS = run.Look, Interrupted, -1.0
    call(*words, code=130)
    run.Look, engine.SECONDS_BETWEEN_CHECKPOINTS = whole, 60.0


def expected(folder: str) -> dict:
    """What can be read from a finished run, and what its checkpoints predict for the test scan."""
    out = Path(folder)
    weights = torch.load(out / "last.pt", weights_only=True)["method"]
    matrices = [name for name, tensor in weights.items() if tensor.ndim > 1]
    log = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return {
        "labels": {checkpoint: predicted(folder, checkpoint) for checkpoint in ("best", "last")},
        "weights": {name: float(weights[name].double().sum()) for name in (matrices[0], matrices[1], matrices[-1])},
        "tensors": len(weights),
        "log_steps": [entry["step"] for entry in log],
        "last_entry": log[-1],
        "metrics_rows": len((out / "metrics.csv").read_text().splitlines()) - 1,
    }


def predicted(folder: str, checkpoint: str) -> dict:
    """The label map of the test scan."""
    call("predict", folder, "-i", IMAGE, "-o", f"maps-{checkpoint}", "--checkpoint", checkpoint, "--device", "cpu")
    (path,) = Path(f"maps-{checkpoint}").rglob("*.nii.gz")
    labels = np.ascontiguousarray(np.asarray(nibabel.load(path).dataobj, dtype=np.uint8))
    shutil.rmtree(f"maps-{checkpoint}")
    found = {"file": path.name, "shape": labels.shape, "voxels": np.bincount(labels.ravel(), minlength=4).tolist()}
    return {**found, "sha256": hashlib.sha256(labels.tobytes()).hexdigest()}


def make_all() -> None:
    """Everything, in the current folder."""
    make_scans()
    for name, content in CONFIGS.items():
        Path(name).write_text(json.dumps(content, indent=1) + "\n")
    call("prepare", "scans", "prepared", "--size", "16", "16", "--clip", "1", "99", "--workers", "1")
    call("prepare", "scans", "scans.zip", "--pack", "--clip", "1", "99", "--workers", "1")
    for dims in (2, 3):
        call("train", "scans", "--out", f"run-{dims}d", "--config", f"config-{dims}d.json", "--device", "cpu", "--test")
    make_stopped("train", "scans", "--out", "run-2d-stopped", "--config", "config-2d.json", "--device", "cpu", "--test")
    found = {"version": __version__, "stopped_after": STOPPED} | {name: expected(name) for name in ("run-2d", "run-3d")}
    (HERE / "expected.json").write_text(json.dumps(found, indent=1) + "\n")


def anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """A file without its owner and time; locks are left out."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = 1_600_000_000
    return None if Path(entry.name).name == ".lock" else entry


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        make_all()
        with tarfile.open(HERE / "files.tar.xz", "w:xz", preset=9) as archive:
            for name in ("scans", "prepared", "scans.zip", "run-2d", "run-3d", "run-2d-stopped", *CONFIGS):
                archive.add(name, name, filter=anonymous)
        os.chdir(HERE)
