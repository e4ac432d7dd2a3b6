"""Methods on the built-in scans, preset quick: DSC of every output for every seed.

python benchmarks/phantom.py --out runs [--3d] [--methods lower-bound kl-ent | all] [--seeds 0 1 2] [--steps 600]

Hearts, left ventricle, Set-3: their slices, or with --3d volumes. Runs that are finished are left as they are, one that
was stopped goes on. Writes phantom.json (phantom-3d.json) and, from both, phantom.md to docs/results
(--results FOLDER), from all runs of that length below --out: parts of the grid may be run apart, and elsewhere, with
`python -m mixseg.training` on the packed scans; finished ones need no weights. Proposals come from kl of the same seed,
which is trained first if it must be.
"""

import argparse
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mixseg.cli.demo import PATIENTS, SETTINGS
from mixseg.core.files import replacing, write_json
from mixseg.core.text_files import read_json
from mixseg.datasets import phantom
from mixseg.methods import METHODS
from mixseg.report.experiment.tables_markdown import grid
from mixseg.runs.config import make_config
from mixseg.runs.device import Hardware
from mixseg.runs.folder import RunFolder
from mixseg.training.folder import train_folder

PROPOSER = "kl"
SAME_EVERYWHERE = {"precision": "fp32"}  # also on a CPU that has bf16
RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
MEASURES = {"DSC last (%)": ("last", "dsc", 100.0), "DSC best (%)": ("best", "dsc", 100.0)} | {
    "HD95 last (voxels)": ("last", "hd95_vox", 1.0)
}


@dataclass(frozen=True)
class Bench:
    """One table.

    Attributes:
        name: Of its file in docs/results.
        title: Above the table.
        flag: Of the command that makes it.
        patients: How many there are in all, to validate and to test on.
        scans: What else the phantom is told.
        settings: Of its runs; the recipe is the preset's.
        note: What is said of the table.
    """

    name: str
    title: str
    flag: str
    patients: Mapping[str, int]
    scans: Mapping[str, object]
    settings: Mapping[str, object]
    note: str

    @property
    def steps(self):
        """As many as the preset has."""
        return make_config(**self.settings).training.steps

    def write_scans(self, folder):
        """Make them, unless they are there."""
        if not (folder / "dataset.json").exists():
            phantom.write(folder, seed=0, **self.patients, **self.scans)


SLICES = Bench(
    name="phantom",
    title="# Methods on the phantom",
    flag="",
    patients=PATIENTS,
    scans={"kind": "heart", "size": (64, 64)},
    settings={**SETTINGS, **SAME_EVERYWHERE, "set": 3, "partial": "erosion-3x3"},
    note="""\
{train} train patients (3 with full masks, 15 with an eroded core of the left ventricle), {val} to validate and {test}
to test on, all made by formula at 64 x 64; preset `quick`, {steps} steps on the {device} in fp32. Mean ± standard
deviation over seeds of the mean over test scans, and in brackets each seed's. The first output of a method is its
answer. Both upper bounds see the same scans here. A small network on easy pictures: it shows that each method works,
not which is best.

What sees partial labels stands apart, with `single`, where they weigh as much as full ones, ahead. The student of
`decoupled` fails, as it must. `ua-mt`, `glmi` and `ssco`, which see the same scans without labels, end about where
`lower-bound` does, and seed 1 is bad for all four; [glmi](../reference/methods/glmi.md#deviations) has weights of its
own here.
""",
)
VOLUMES = Bench(
    name="phantom-3d",
    title="## Volumes",
    flag=" --3d",
    patients=PATIENTS,
    scans={"kind": "heart", "size": (64, 64), "slices": 16},
    settings={**SETTINGS, **SAME_EVERYWHERE, "dims": 3, "patch": (48, 48, 16), "set": 3, "partial": "erosion-3x3"},
    note="""\
The same patients with 16 slices, trained on as volumes of 64 x 64 x 16 voxels: patches of 48 x 48 x 16, a V-Net of
width 4, preset `quick` in 3D, {steps} steps on the {device}; {train} train patients (3 with full masks, 15 with an
eroded core of the left ventricle), {val} to validate and {test} to test on. The recipe was chosen on the validation
scans of phantoms of another seed (11): [presets](../reference/presets.md#quick). Six runs take 8.5 minutes of one core.

Where the teacher (top) has 0, it marks nothing: 0.6 % of the voxels are foreground, and cross-entropy alone may leave a
network of four channels there. The student, whom the partial labels teach too, does not follow it. On the built-in
atria there is nothing to gain: they are large and lie alike, and random patches of a single outlined scan bring
`lower-bound` to 80 DSC, where the student has 78 (validation scans of seed 11, 500 steps, one run each).
""",
)
BENCHES = (SLICES, VOLUMES)


def path_of(runs, method, seed):
    """Where one run of the grid lies."""
    return runs / f"{method}-seed{seed}"


def train_grid(bench, scans, runs, methods, seeds, *, steps, device):
    """Train what is missing of the grid; a run that was made otherwise or from other scans is refused."""
    methods = [name for name in METHODS if name in methods or (name == PROPOSER and "proposals" in methods)]
    for seed in seeds:
        for method in methods:
            out = path_of(runs, method, seed)
            print(f"{out.name}: {'finished before' if RunFolder(out).finished else 'training'}", flush=True)
            source = {"proposals_from": path_of(runs, PROPOSER, seed).name} if method == "proposals" else {}
            settings = {**bench.settings, "method": method, "seed": seed, "steps": steps, **source}
            hardware = Hardware(device)
            train_folder(scans, out, settings=settings, dataset="phantom", hardware=hardware, test=True)


def scores(run):
    """Mean test scores of each output of a finished run: ``{output: {measure: value}}``, the answer first."""
    found = {}
    for entry in RunFolder(run).finished["summary"]:
        for measure, (checkpoint, metric, factor) in MEASURES.items():
            if (entry["part"], entry["checkpoint"]) == ("test", checkpoint):
                found.setdefault(entry["branch"], {})[measure] = factor * entry[metric]["mean"]
    return found


def collect(runs):
    """Entries for phantom.json: one per method and output, with the value of each seed."""
    entries = []
    for method in METHODS:
        by_seed = {
            int(run.name.rpartition("seed")[2]): scores(run)
            for run in sorted(runs.glob(f"{method}-seed*"))
            if RunFolder(run).finished
        }
        for output in next(iter(by_seed.values()), {}):
            values = {name: {seed: found[output][name] for seed, found in by_seed.items()} for name in MEASURES}
            entries.append({"method": method, "output": output, "seeds": sorted(by_seed), "values": values})
    return entries


def mean_sd(values):
    """Mean and standard deviation over seeds; nan for the latter with one."""
    numbers = list(values.values())
    return float(np.mean(numbers)), float(np.std(numbers, ddof=1)) if len(numbers) > 1 else float("nan")


def lines_of(entries):
    """The table, the head first, as tuples of text."""
    lines = [("method", "output", "seeds", *MEASURES)]
    for entry in entries:
        cells = []
        for measure in MEASURES:
            mean, sd = mean_sd(entry["values"][measure])
            each = ", ".join(f"{value:.1f}" for value in entry["values"][measure].values())
            cells.append(f"{mean:.2f}" if np.isnan(sd) else f"{mean:.2f} ± {sd:.2f} ({each})")
        lines.append((f"`{entry['method']}`", entry["output"], str(len(entry["seeds"])), *cells))
    return lines


def below_lower_bound(entries):
    """Sentences about answers whose DSC is below lower-bound's by more than the larger spread of the two."""
    answers = {}
    for entry in entries:
        answers.setdefault(entry["method"], mean_sd(entry["values"]["DSC last (%)"]))
    if "lower-bound" not in answers:
        return ["`lower-bound` was not run: nothing to hold the others to."]
    bound, spread = answers["lower-bound"]
    found = [
        f"The answer of `{method}` is {bound - mean:.2f} points below `lower-bound`, more than the seeds' spread."
        for method, (mean, sd) in answers.items()
        if mean < bound - np.nanmax([sd, spread, 0.0])
    ]
    return found or ["No answer is below `lower-bound` by more than the larger of the two spreads over seeds (last)."]


def above_lower_bound(entries):
    """How far the answer of kl-ent lies above lower-bound, in a sentence with both spreads; nothing without both."""
    answers = {}
    for entry in entries:
        answers.setdefault(entry["method"], mean_sd(entry["values"]["DSC last (%)"]))
    if not {"lower-bound", "kl-ent"} <= set(answers):
        return []
    (mean, sd), (bound, spread) = answers["kl-ent"], answers["lower-bound"]
    return [
        f"The student of `kl-ent` lies {mean - bound:+.2f} DSC points from `lower-bound` (last); the spreads over "
        f"seeds are {sd:.2f} and {spread:.2f}."
    ]


def write(bench, entries, folder, *, steps, device):
    """Write the table's JSON, then phantom.md from that of every table; returns the lines of this one."""
    command = f"python benchmarks/phantom.py --out runs{bench.flag}"
    if {entry["method"] for entry in entries} == set(METHODS):
        command += " --methods all"
    if steps != bench.steps:
        command += f" --steps {steps}"
    found = {"command": command, "steps": steps, "device": device, "results": entries}
    write_json(folder / f"{bench.name}.json", found)
    there = [one for one in BENCHES if (folder / f"{one.name}.json").exists()]
    text = [line for one in there for line in section(one, read_json(folder / f"{one.name}.json"))]
    with replacing(folder / "phantom.md") as temporary:
        temporary.write_text("\n".join(text), encoding="utf-8")
    return section(bench, found)


def section(bench, found):
    """The lines of one table."""
    entries = found["results"]
    parts = dict(bench.patients)
    train = parts.pop("patients") - sum(parts.values())
    device = found.get("device", "cpu").upper()
    note = bench.note.format(train=train, steps=found["steps"], device=device, **parts)
    head, *rows = lines_of(entries)
    said = [*above_lower_bound(entries), *below_lower_bound(entries)]
    return [bench.title, "", f"```\n{found['command']}\n```", "", note, grid(head, rows, words=2), "", *said, ""]


def main():
    """Run what is missing, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for scans and runs")
    parser.add_argument("--3d", dest="volumes", action="store_true", help="volumes of hearts instead of slices")
    parser.add_argument("--methods", nargs="+", choices=[*METHODS, "all"], default=["lower-bound", "kl-ent"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--steps", type=int, help="if not as many as the preset has")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda", "mps", "auto"])
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the table")
    options = parser.parse_args()
    print(shlex.join(sys.argv), flush=True)
    bench = VOLUMES if options.volumes else SLICES
    steps, out = options.steps or bench.steps, options.out / "volumes" if options.volumes else options.out
    scans, runs = out / "scans", out / f"{steps}-steps"
    bench.write_scans(scans)
    methods = list(METHODS) if "all" in options.methods else options.methods
    train_grid(bench, scans, runs, methods, options.seeds, steps=steps, device=options.device)
    print("\n".join(write(bench, collect(runs), options.results, steps=steps, device=options.device)))


if __name__ == "__main__":
    main()
