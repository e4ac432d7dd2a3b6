"""Do two checkouts of mixseg learn, predict and score the same, bit for bit? And how long does a step take in each?

    python benchmarks/compare_checkouts.py OLD NEW [--steps 100] [--rounds 2] [--jobs slices volumes] [--threads 1]
        [--keep FOLDER]

OLD and NEW are folders that hold src/mixseg. Both do the same small jobs on a CPU, through the command line alone, with
settings that OLD knows: make the phantom's scans, train on those of OLD, predict, score. Ends with an error if anything
differs. What is compared: weights, by their names, where both have them; label maps; the values of the tables, in the
columns that both have; the losses of the log. Time is that of the processor (user and system), from what a longer
training takes more than a short one, so that starting up does not count; the looks at the validation scans do. Each
is done in turn, and the least of the rounds is taken; a busy machine still moves it by a tenth.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import torch
from torch import Tensor

SCANS = ["--phantom", "heart", "--patients", "8", "--val", "2", "--test", "1", "--keep-full", "2", "--size", "48"]
ALIKE = {"seed": 1, "precision": "fp32", "validate_every": 25, "lr": 0.01}
JOBS: dict[str, dict[str, Any]] = {
    "slices": {"dims": 2, "size": [48, 48], "width": 4, "depth": 3},
    "volumes": {"dims": 3, "patch": [32, 32, 8], "width": 2, "depth": 2},
}
"""Flat keys of the config alone, which no version is to rename: all else is left to the preset."""
SHORT = 5
"""Steps of the training whose time is taken off."""
TABLES = ("metrics.csv", "native/metrics.csv")


@dataclass
class Checkout:
    """One side: where its code lies, where it writes, and the seconds that its trainings took of a processor."""

    name: str
    root: Path
    work: Path
    threads: int
    seconds: dict[str, float] = field(default_factory=dict)

    def call(self, *words: str) -> float:
        """Run ``mixseg WORDS`` in a process of its own; the seconds that it took of a processor."""
        return self.python("-m", "mixseg", *words)

    def python(self, *words: str) -> float:
        """Run Python with this checkout's mixseg; its output is shown if it fails."""
        threads = {name: str(self.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
        settings = {**os.environ, **threads, "PYTHONPATH": str(self.root / "src"), "CUDA_VISIBLE_DEVICES": ""}
        command = [sys.executable, "-W", "ignore", *words]
        with tempfile.TemporaryFile("w+") as said:
            process = subprocess.Popen(command, cwd=self.work, env=settings, stdout=said, stderr=subprocess.STDOUT)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode:
                said.seek(0)
                ending = said.read()[-3000:]
                raise SystemExit(f"{self.name}, mixseg of {self.root}: {' '.join(words)} failed.\n{ending}")
        return used.ru_utime + used.ru_stime

    def check(self) -> None:
        """An error if Python finds another mixseg than this one."""
        if not (self.root / "src" / "mixseg").is_dir():
            raise SystemExit(f"{self.root} has no src/mixseg: name two checkouts of the repository.")
        self.work.mkdir(parents=True)
        here = repr(str(self.root / "src"))
        self.python("-c", f"import mixseg, pathlib as p; assert p.Path(mixseg.__file__).is_relative_to({here})")

    def train(self, job: str, scans: Path, steps: int, turn: int) -> Path:
        """The run folder of ``job``, trained and scored. Each has its own arrays: preparing is timed alike."""
        out = self.work / f"{job}-{steps}-{turn}" / "run"
        settings = {**ALIKE, **JOBS[job], "steps": steps}
        words = [word for key, value in settings.items() for word in ("--set", f"{key}={json.dumps(value)}")]
        told = ["--method", "kl-ent", "--preset", "quick", "--device", "cpu", "--test"]
        took = self.call("train", str(scans), "--out", str(out), *told, *words)
        self.seconds[f"{job}-{steps}"] = min(took, self.seconds.get(f"{job}-{steps}", took))
        return out

    def of_a_step(self, job: str, steps: int) -> float:
        """Milliseconds that a step took of a processor."""
        return 1000 * (self.seconds[f"{job}-{SHORT + steps}"] - self.seconds[f"{job}-{SHORT}"]) / steps

    def predict(self, run: Path, images: Path) -> Path:
        """The label maps of ``run`` for ``images``, by checkpoint."""
        maps = run.parent / "maps"
        for checkpoint in checkpoints(run):
            words = ["--checkpoint", checkpoint, "--device", "cpu"]
            self.call("predict", str(run), "-i", str(images), "-o", str(maps / checkpoint), *words)
        return maps


@dataclass
class Finding:
    """A row of the table: whether something is the same in both, and in what it differs."""

    what: str
    equal: bool
    remark: str


def checkpoints(run: Path) -> list[str]:
    """Those that the run has left."""
    return [name for name in ("best", "last") if (run / f"{name}.pt").exists()]


def weights_in(content: Any) -> Mapping[str, Tensor]:
    """The state dict of the method: under that name, or the largest dictionary of tensors that there is."""
    if isinstance(content, Mapping) and isinstance(content.get("method"), Mapping):
        return {name: value for name, value in content["method"].items() if isinstance(value, Tensor)}
    return max(dictionaries(content), key=len, default={})


def dictionaries(content: Any) -> Iterator[dict[str, Tensor]]:
    """All dictionaries of tensors by name, at any depth."""
    if isinstance(content, Mapping):
        yield {name: value for name, value in content.items() if isinstance(name, str) and isinstance(value, Tensor)}
        for value in content.values():
            yield from dictionaries(value)


def same_bits(one: Tensor | np.ndarray, other: Tensor | np.ndarray) -> bool:
    """Equal in type, shape and every bit: a nan equals itself, 0 does not equal -0."""
    one, other = np.ascontiguousarray(one), np.ascontiguousarray(other)
    return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())


def compare_weights(old: Path, new: Path) -> tuple[bool, str]:
    """Two checkpoints."""
    one, other = (weights_in(torch.load(path, map_location="cpu", weights_only=True)) for path in (old, new))
    both = [name for name in one if name in other]
    differing = [name for name in both if not same_bits(one[name], other[name])]
    remark = f"{len(both) - len(differing)} of {len(both)} tensors are the same"
    if differing:
        gaps = [gap(one[name], other[name]) for name in differing]
        remark += f", {differing[0]} is not; the largest difference is {max(gaps):.1e}"
    if alone := len(one) + len(other) - 2 * len(both):
        remark += f"; {alone} have a name that one alone has"
    return bool(both) and not differing, remark


def gap(one: Tensor, other: Tensor) -> float:
    """The largest difference between two tensors; infinite where they have different shapes."""
    if one.shape != other.shape:
        return float("inf")
    return float((one.double() - other.double()).abs().max())


def compare_images(old: Path, new: Path) -> tuple[bool, str]:
    """All NIfTI files of two folders: the same names, with the same voxels in the same place."""
    return compare_files(old, new, "*.nii.gz", "images", compare_image)


def compare_image(old: Path, new: Path) -> bool:
    """Whether voxels and place are the same."""
    one, other = nibabel.load(old), nibabel.load(new)
    return same_bits(np.asarray(one.dataobj), np.asarray(other.dataobj)) and same_bits(one.affine, other.affine)


def compare_files(
    old: Path, new: Path, pattern: str, called: str, compare: Callable[[Path, Path], bool]
) -> tuple[bool, str]:
    """All files of two folders that match ``pattern``."""
    names = [{str(path.relative_to(root)) for path in root.rglob(pattern)} for root in (old, new)]
    both = sorted(names[0] & names[1])
    differing = [name for name in both if not compare(old / name, new / name)]
    remark = f"{len(both) - len(differing)} of {len(both)} {called} are the same"
    remark += f", {differing[0]} is not" if differing else ""
    alone = sorted(names[0] ^ names[1])
    remark += f"; {len(alone)} are in one alone, such as {alone[0]}" if alone else ""
    return bool(both) and not differing and not alone, remark


def compare_tables(old: Path, new: Path) -> tuple[bool, str]:
    """Two CSV files: the text of all values in the columns that both have."""
    one, other = (rows_of(path) for path in (old, new))
    if len(one) != len(other):
        return False, f"{len(one)} and {len(other)} rows"
    columns = [column for column in (one[0] if one else {}) if column in other[0]]
    pairs = [(before[key], after[key], key) for before, after in zip(one, other, strict=True) for key in columns]
    differing = [pair for pair in pairs if pair[0] != pair[1]]
    remark = f"{len(pairs) - len(differing)} of {len(pairs)} values are the same"
    remark += ", {2} is not: {0} and {1}".format(*differing[0]) if differing else ""
    return bool(pairs) and not differing, remark


def rows_of(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines))


def compare_logs(old: Path, new: Path) -> tuple[bool, str]:
    """The losses of two logs, look by look."""
    one, other = ([json.loads(line) for line in path.read_text().splitlines()] for path in (old, new))
    pairs = [((a["step"], a["loss"]), (b["step"], b["loss"])) for a, b in zip(one, other, strict=False)]
    differing = [pair for pair in pairs if pair[0] != pair[1]]
    remark = f"{len(pairs) - len(differing)} of {max(len(one), len(other))} looks have the same loss"
    remark += ", that at step {0[0]} not: {0[1]} and {1[1]}".format(*differing[0]) if differing else ""
    return bool(pairs) and not differing and len(one) == len(other), remark


def compare_runs(job: str, old: Path, new: Path) -> Iterator[Finding]:
    """All that a run leaves."""
    yield there(f"{job}: log.jsonl", old / "log.jsonl", new / "log.jsonl", compare_logs)
    for name in ("last.pt", "best.pt"):
        yield there(f"{job}: {name}", old / name, new / name, compare_weights)
    for name in TABLES:
        yield there(f"{job}: {name}", old / name, new / name, compare_tables)
    yield there(f"{job}: predictions", old / "predictions", new / "predictions", compare_images)
    yield there(f"{job}: predicted again", old.parent / "maps", new.parent / "maps", compare_images)


def there(what: str, old: Path, new: Path, compare: Callable[[Path, Path], tuple[bool, str]]) -> Finding:
    """The finding of ``compare``, or that something is missing."""
    missing = [side for side, path in (("OLD", old), ("NEW", new)) if not path.exists()]
    if missing:
        # Without a look that finds anything, no checkpoint is the best.
        return Finding(what, len(missing) == 2 and old.name == "best.pt", f"not there in {' and '.join(missing)}")
    return Finding(what, *compare(old, new))


def compare_checkouts(old: Checkout, new: Checkout, args: argparse.Namespace) -> list[Finding]:
    """Both do all jobs, in turn, so that a busy machine is so for both."""
    sides = (old, new)
    for side in sides:
        side.check()
        side.call("simulate", "scans", *SCANS)
    scans = old.work / "scans"
    found = [there("scans", scans, new.work / "scans", compare_images)]
    for job in args.jobs:
        print(f"{job} ...", flush=True)
        for turn in range(args.rounds):
            for side in sides:
                side.train(job, scans, SHORT, turn)
            runs = [side.train(job, scans, SHORT + args.steps, turn) for side in sides]
        for side, run in zip(sides, runs, strict=True):
            side.predict(run, scans / "imagesTr")
        found += compare_runs(job, *runs)
    return found


def print_all(found: Sequence[Finding], old: Checkout, new: Checkout, args: argparse.Namespace) -> None:
    """What is the same and what differs, and the time of a step."""
    width = max(len(finding.what) for finding in found)
    print()
    for finding in found:
        print(f"{finding.what:{width}}  {'equal  ' if finding.equal else 'DIFFERS'}  {finding.remark}")
    print()
    for job in args.jobs:
        before, after = (side.of_a_step(job, args.steps) for side in (old, new))
        ratio = f"{after / before:.2f}" if before > 0 else "unknown"
        print(f"{job}: a step takes {before:.1f} ms of a processor in OLD, {after:.1f} in NEW: NEW / OLD = {ratio}")


def main() -> None:
    """A line for each comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, help="a checkout")
    parser.add_argument("new", type=Path, help="another one, or the same to see that nothing is left to chance")
    parser.add_argument("--steps", type=int, default=100, help=f"that are timed; {SHORT} more are trained")
    parser.add_argument("--rounds", type=int, default=2, help="how often each training is timed")
    parser.add_argument("--jobs", nargs="+", default=list(JOBS), choices=list(JOBS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a new folder for all that is written; it stays")
    args = parser.parse_args()
    if min(args.steps, args.rounds, args.threads) < 1:
        parser.error("--steps, --rounds and --threads are at least 1")
    if args.keep and args.keep.exists():
        parser.error(f"{args.keep} is there already: name a new folder")
    with tempfile.TemporaryDirectory() as place:
        work = (args.keep or Path(place) / "work").absolute()
        old = Checkout("OLD", args.old.resolve(), work / "old", args.threads)
        new = Checkout("NEW", args.new.resolve(), work / "new", args.threads)
        found = compare_checkouts(old, new, args)
        print_all(found, old, new, args)
    if not all(finding.equal for finding in found):
        raise SystemExit("The two do not give the same.")


if __name__ == "__main__":
    main()
