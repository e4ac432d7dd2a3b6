"""docs/results/speed.json and the page and pictures made from it.

    python benchmarks/speed_page.py add speed.json      take in what train_step.py measured, then make the page
    python benchmarks/speed_page.py run FOLDER [--cache warm|cold]    take in the phases of a finished run, likewise
    python benchmarks/speed_page.py page                make docs/results/speed.md and the pictures

An entry takes the place of one of the same method, network, batch and machine; versions that were not measured again
stay, beside the new floors. What was tried on the way and what same_result.py printed are kept in the JSON file under
"tried" and "same", by hand.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from kernel_profile import draw

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "docs/results/speed.json"
PAGE = ROOT / "docs/results/speed.md"
PICTURES = ROOT / "docs/pictures"
EMPTY: dict[str, list[dict[str, Any]]] = {"entries": [], "runs": [], "same": [], "tried": []}
AFTER = "mixseg"
BEFORE = {"float32": "plain fp32", "bfloat16": "plain bf16"}
"""The plain loop that a picture compares with, by the precision that mixseg computes in."""

PHASES = ("data", "start", "compile", "steps", "validation", "checkpoints", "assess")

INTRODUCTION = """# Speed

<!-- made by `python benchmarks/speed_page.py page` from speed.json -->
What one training step takes, beside (a) a plain fp32 PyTorch loop as a paper's script has it, (b) the same under bf16
autocast, and two floors: the arithmetic (FLOP over the rate of a large matrix product) and the attainable (each
convolution alone with its fastest kernel and layout, recorded and replayed so that the host's part is left out, plus
the bytes that must move between them over the bandwidth of a large copy). All versions of a method are measured in one
run; where mixseg has changed since, it and the floors are measured anew (`--versions mixseg`), and the plain loops,
which never change, stay:

```
python benchmarks/train_step.py --out speed.json
python benchmarks/speed_page.py add speed.json
```
"""
SOFTWARE = ("python", "torch", "cudnn")
SAME = ("device", "threads", "preset", "dims", "network", "width", "precision")
"""Whether mixseg compiles is its own choice, and no part of this."""
COLUMNS = (
    "| method | images a step | version | ms a step | (a) takes | of arithmetic | of attainable | start s | peak GiB |"
)


def read() -> dict[str, list[dict[str, Any]]]:
    """What is known so far."""
    return {**EMPTY, **(json.loads(FILE.read_text()) if FILE.exists() else {})}


def key_of(entry: dict[str, Any]) -> str:
    """What two measurements of the same thing share."""
    env = entry["environment"]
    settings = [env[name] for name in SAME]
    return json.dumps([entry["method"], entry.get("batch"), entry.get("grid"), entry.get("inductor"), *settings])


def add(known: dict[str, list[dict[str, Any]]], measured: list[dict[str, Any]]) -> None:
    """Take in what a benchmark found; what failed is left out."""
    for entry in measured:
        if "versions" in entry:
            key = key_of(entry)
            old = [each for each in known["entries"] if key_of(each) == key]
            new = [beside(each, entry) for each in old] if old else [entry] * bool(entry["versions"])
            known["entries"] = [*(each for each in known["entries"] if each not in old), *new]


def beside(entry: dict[str, Any], newer: dict[str, Any]) -> dict[str, Any]:
    """``newer`` in the place of ``entry``; what it left out or failed in stays, if the software is still the same."""
    if any(entry["environment"][name] != newer["environment"][name] for name in SOFTWARE):
        return newer
    new = {name: version for name, version in newer["versions"].items() if not version["error"]}
    old = {name: version for name, version in entry["versions"].items() if name not in new}
    whole = {name: found for name, found in newer.items() if not (isinstance(found, dict) and "error" in found)}
    # Feed, look and profile belong to the version that they were measured with.
    found = {**(entry if AFTER in old else {}), "floors": entry["floors"], **whole}
    profiles = {name: of for name, of in entry.get("profile", {}).items() if name in old}
    floors = {which: found["floors"].get(f"{which}_ms") for which in ("arithmetic", "attainable")}
    versions = {
        name: version | {f"times_{which}": version["ms"] / ms for which, ms in floors.items() if ms and version["ms"]}
        for name, version in {**old, **new}.items()
    }
    return {**found, "versions": versions, "profile": {**profiles, **newer.get("profile", {})}}


def add_run(known: dict[str, list[dict[str, Any]]], folder: Path, cache: str) -> None:
    """Take in where the seconds of a finished run went."""
    config, finished, facts = (
        json.loads((folder / f"{name}.json").read_text()) for name in ("config", "finished", "environment")
    )
    about = {name: config[name] for name in ("method", "preset", "set", "dims", "compile")}
    machine = {"device": facts["device"], "torch": facts["versions"]["torch"], "cache": cache}
    line = {**about, **machine, "steps": finished["steps"], "phases": finished["phases"]}
    same = [*about, *machine, "steps"]
    known["runs"] = [*(old for old in known["runs"] if any(old[name] != line[name] for name in same)), line]


def page(known: dict[str, list[dict[str, Any]]]) -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    machines = list(dict.fromkeys(machine_of(entry) for entry in known["entries"]))
    for machine in machines:
        entries = sorted((entry for entry in known["entries"] if machine_of(entry) == machine), key=dims_of)
        parts.append("\n".join([f"## {machine}\n", versions_line(entries), "", *step_table(entries), ""]))
        parts += [
            f"![{name_of(entry)}: kernels before and after](../pictures/{picture_of(entry)})\n"
            for entry in entries
            if drawable(entry)
        ]
        parts += [side_lines(entries)]
    if known["runs"]:
        parts.append(run_table(known["runs"]))
    if known["same"]:
        parts.append(same_table(known["same"]))
    if known["tried"]:
        parts.append(tried_table(known["tried"]))
    return "\n".join(part for part in parts if part)


def machine_of(entry: dict[str, Any]) -> str:
    """The device, with the threads where they matter."""
    env = entry["environment"]
    plural = "s" if env["threads"] > 1 else ""
    return env["device"] if env["device_type"] == "cuda" else f"{env['device']}, {env['threads']} thread{plural}"


def dims_of(entry: dict[str, Any]) -> int:
    """The number of axes of an image."""
    return int(entry["environment"]["dims"])


def name_of(entry: dict[str, Any]) -> str:
    """The method, and that it is one of volumes."""
    return entry["method"] + (" in 3D" if dims_of(entry) == 3 else "")


def versions_line(entries: list[dict[str, Any]]) -> str:
    """What the numbers were measured with: a line for each set of versions, with the ceilings of all its runs."""
    ceilings: dict[str, list[dict[str, float]]] = {}
    for entry in entries:
        env = entry["environment"]
        cuda = f", CUDA {env['cuda']}, cuDNN {env['cudnn']}" if env["cuda"] else ""
        versions = f"Python {env['python']}, torch {env['torch']}{cuda}, Fabric {env['lightning_fabric']}"
        ceilings.setdefault(versions, []).append(entry["ceilings"])
    return "\n".join(
        f"{versions}; large matrix product {span([one['matmul_flops'] / 1e12 for one in found])} TFLOP/s, "
        f"copy {span([one['copy_bytes_per_s'] / 1e9 for one in found])} GB/s."
        for versions, found in ceilings.items()
    )


def span(values: list[float]) -> str:
    """The least and the most of some values, three digits each."""
    return " to ".join(dict.fromkeys(f"{float(f'{end(values):.3g}'):g}" for end in (min, max)))


def step_table(entries: list[dict[str, Any]]) -> list[str]:
    """A row for each version of each method."""
    lines = [
        COLUMNS,
        "|---|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for entry in entries:
        env, first = entry["environment"], True
        base = entry["versions"].get("plain fp32", {}).get("ms")
        for name, version in entry["versions"].items():
            if version["error"]:
                continue
            what = f"`{entry['method']}`" if first else ""
            rows = " + ".join(str(count) for count in entry["batch"].values() if count)
            size = f"{rows} of {'x'.join(map(str, entry['grid']))}" if first else ""
            how = name
            if name == AFTER:
                plain = ", not compiled" if env["device_type"] == "cuda" and not env["compile"] else ""
                how = f"mixseg, {env['preset']}, {env['precision']}{plain}"
            lines.append(
                f"| {what} | {size} | {how} | {version['ms']:.2f} | {ratio(base, version['ms'])} | "
                f"{times(version, 'arithmetic')} | {times(version, 'attainable')} | {version['start_s']:.1f} | "
                f"{version['peak_gib']:.2f} |"
            )
            first = False
    return lines


def ratio(base: float | None, ms: float) -> str:
    """How many times as long (a) takes."""
    return "" if base is None else f"{base / ms:.2f} x"


def times(version: dict[str, Any], which: str) -> str:
    """The ratio to a floor, where it was measured."""
    found = version.get(f"times_{which}")
    return "" if found is None else f"{found:.2f} x"


def side_lines(entries: list[dict[str, Any]]) -> str:
    """Floors, feeds and looks, a line for each method."""
    lines = []
    for entry in entries:
        floor, look, feed = (entry.get(key, {}) for key in ("floors", "look", "feed"))
        if "flop" in floor:
            alone, between = sum(floor["convolutions_ms"].values()), sum(floor["bytes_ms"].values())
            cuda, recorded = entry["environment"]["device_type"] == "cuda", floor.get("recorded", False)
            lines.append(
                f"- {name_of(entry)}: arithmetic {floor['arithmetic_ms']:.2f} ms ({floor['flop'] / 1e12:.3g} TFLOP), "
                f"attainable {floor['attainable_ms']:.2f} ms (convolutions {alone:.2f}, between them {between:.2f})"
                + (": too high, each convolution was launched by the host" if cuda and not recorded else "")
            )
        if "ms" in look:
            lines.append(
                f"- {name_of(entry)}: a look at {look['slices']} slices takes {look['ms']:.0f} ms, "
                f"a batch {feed['ms']:.2f} ms ({feed['host_ms']:.2f} of the host)"
            )
    return "\n".join([*lines, ""]) if lines else ""


def run_table(runs: list[dict[str, Any]]) -> str:
    """Where the seconds of whole runs go."""
    lines = [
        "## Whole runs\n",
        "Seconds by phase, from finished.json; the last column is the sum of all phases over the steps. "
        "What it takes to import torch and Fabric before that is not in it.\n",
        f"| run | device | compiled before | steps | {' | '.join(PHASES)} | all / steps |",
        f"|---|---|---|--:|{'--:|' * (len(PHASES) + 1)}",
    ]
    for run in runs:
        seconds = [run["phases"].get(name, 0.0) for name in PHASES]
        name = f"`{run['method']}`, {run['preset']}" + (f", Set-{run['set']}" if run["set"] else "")
        cells = " | ".join(f"{value:.1f}" for value in seconds)
        before = {"warm": "yes", "cold": "no"}[run["cache"]] if run["compile"] else "not compiled"
        whole = sum(seconds) / run["phases"]["steps"]
        lines.append(f"| {name} | {run['device']} | {before} | {run['steps']} | {cells} | {whole:.2f} |")
    return "\n".join([*lines, ""])


def same_table(same: list[dict[str, Any]]) -> str:
    """How far fast steps are from plain ones."""
    lines = [
        "## Does it train the same?\n",
        "The loss and its terms in each of twelve steps of a small network, fast against plain (eager, channels first, "
        "every kernel launched anew), on the same batches in fp32: `python benchmarks/same_result.py`. "
        "The largest difference, relative to the loss; rounding, carried through the steps, explains 0.002.\n",
        "| method | device | recorded | compiled and recorded |",
        "|---|---|--:|--:|",
    ]
    for row in same:
        found = [f"{row[how]:.1e}" if how in row else "not run" for how in ("recorded", "compiled")]
        lines.append(f"| `{row['method']}` | {row['device']} | {' | '.join(found)} |")
    return "\n".join([*lines, ""])


def tried_table(tried: list[dict[str, Any]]) -> str:
    """What was tried, kept or not."""
    lines = [
        "## What was tried\n",
        "Measured one by one, on the way; a later row may have been measured with the kept ones before it.\n",
        "| what | where | ms a step | kept | why |",
        "|---|---|--:|---|---|",
    ]
    for row in tried:
        kept = "yes" if row["kept"] else "no"
        lines.append(f"| {row['what']} | {row['where']} | {row['ms']} | {kept} | {row['why']} |")
    return "\n".join([*lines, ""])


def drawable(entry: dict[str, Any]) -> bool:
    """Whether both profiles are there."""
    names = (BEFORE[entry["environment"]["precision"]], AFTER)
    return all("ms_by_kind" in entry.get("profile", {}).get(name, {}) for name in names)


def picture_of(entry: dict[str, Any]) -> str:
    """The file name of an entry's picture."""
    env = entry["environment"]
    device = env["device"] if env["device_type"] == "cuda" else "cpu"
    words = [device, entry["method"], f"{env['dims']}d", env["preset"]]
    return "speed-" + "-".join(words).lower().replace(" ", "-") + ".png"


def write(known: dict[str, list[dict[str, Any]]]) -> None:
    """The JSON file, the page and the pictures."""
    FILE.write_text(json.dumps(known, indent=1) + "\n")
    PAGE.write_text(page(known))
    for entry in known["entries"]:
        if drawable(entry):
            title = f"{name_of(entry)} on {machine_of(entry)}: where the time of a step goes, by kind of kernel"
            found, before = entry["profile"], BEFORE[entry["environment"]["precision"]]
            draw(found[before], found[AFTER], PICTURES / picture_of(entry), names=(before, AFTER), title=title)


def main() -> None:
    """Read, take in, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("add").add_argument("file", type=Path, nargs="+")
    run = verbs.add_parser("run")
    run.add_argument("folder", type=Path, nargs="+")
    run.add_argument("--cache", choices=["warm", "cold"], default="warm")
    verbs.add_parser("page")
    args = parser.parse_args()
    known = read()
    for path in getattr(args, "file", ()):
        add(known, json.loads(path.read_text())["entries"])
    for folder in getattr(args, "folder", ()):
        add_run(known, folder, args.cache)
    write(known)


if __name__ == "__main__":
    main()
