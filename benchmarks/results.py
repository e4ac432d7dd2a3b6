"""Keep what runs have found: a line per run in docs/results/runs.jsonl, tables made from it, a picture of the curves.

python benchmarks/results.py add RUN_FOLDER... [--commit HASH]  # a line for each finished run
python benchmarks/results.py tables                  # docs/results/*.md and the README's table, from those lines
python benchmarks/results.py curves RUN_FOLDER...    # docs/pictures/DATASET-curves.png
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mixseg.core.errors import MixsegError
from mixseg.core.files import replacing
from mixseg.core.text_files import read_json
from mixseg.core.types import renamed
from mixseg.data.prepare.build import digest
from mixseg.evaluation.metrics import METRICS
from mixseg.evaluation.scores import UNKNOWN
from mixseg.report.run_files import RunFiles, dsc_by_case
from mixseg.runs.config import KEYS, Config, flat, keys_where, settings_of
from mixseg.runs.provenance import source_hash_of

ROOT = Path(__file__).resolve().parents[1]
RUNS = ROOT / "docs" / "results" / "runs.jsonl"
PICTURES = ROOT / "docs" / "pictures"

LOCATED = keys_where(lambda key: key.located)
"""Keys that hold paths: of another machine, a line tells the name alone."""

Record = dict[str, Any]


def read_runs(path: Path = RUNS) -> list[Record]:
    """The lines of runs.jsonl."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


HASHED = {"unlabeled": "bare", "cutmix": "mix"}
"""Names that have changed, as the ids of published runs have them."""


def make_record(run: Path, commit: str | None = None) -> Record:
    """The line of a finished run. It holds no path and no command: those belong to the machine that trained.

    Args:
        run: Its folder.
        commit: That its sources are of, where it was trained from a copy that did not know; what it says otherwise.
    """
    files = RunFiles.read(run)
    facts, finished = files.facts, files.finished
    if finished is None:
        raise MixsegError(f"{run} is not finished: train it to its end first.", "not-finished", folder=run)
    facts = {**facts, "commit": commit or facts.get("commit")}
    check_commit(run, facts)
    config = read_json(run / "config.json")
    for key in LOCATED:
        group = config.get(KEYS[key].group)
        place = group if isinstance(group, dict) else config  # earlier versions wrote no groups
        place[key] = Path(place.get(key, "")).name
    return {
        "id": run_id(config, facts),
        "config": config,
        "data": facts["data"],
        "proposed_by": facts.get("proposals", {}).get("methods", []),
        "classes": facts["classes"],
        "counts": {part: len(names) for part, names in facts["protocol"].items()},
        "split": digest(*_protocol(facts))[:16],
        **{key: facts[key] for key in ("python", "versions", "device", "commit", "source")},
        **{key: finished[key] for key in ("training_seconds", "seconds", "peak_gpu_gib", "test")},
        "best_step": files.best and files.best.step,
        "collapse_warnings": sum("Collapse" in warned.sentence for warned in files.warned),
        "figures": [_figure(entry) for entry in finished["summary"]],
        **({} if facts["protocol"]["test patients"] else {"scans": _scans(files)}),
    }


def check_commit(run: Path, facts: Record) -> None:
    """Nothing, or one sentence about a run whose sources are not those of a commit of this repository."""
    commit, source = facts.get("commit"), facts.get("source")
    if not commit or not source or commit.endswith("-dirty"):
        raise MixsegError(
            f"{run} was not made from a clean commit ({commit}): run it again from one.", "no-clean-commit", folder=run
        )
    try:
        there = source_hash_of(commit, ROOT)
    except subprocess.CalledProcessError:
        raise MixsegError(
            f"{run} names the commit {commit}, which this repository does not have: fetch it.",
            "unknown-commit",
            folder=run,
        ) from None
    if there != source:
        raise MixsegError(
            f"{run} was made from other sources than those of its commit {commit}: run it again.",
            "sources-differ",
            folder=run,
        )


def run_id(config: Record, facts: Record) -> str:
    """A hash of what was asked for, of the arrays, of who was train, val and test, and of whose proposals were used.

    Of the config, in groups or without, what differs from the defaults of Config: a key that is added later does not
    rename older runs, and neither does a group.
    """
    defaults = settings_of(Config())
    asked = {key: value for key, value in flat(config).items() if key not in LOCATED and value != defaults[key]}
    asked |= {key: renamed(asked[key], HASHED) for key in ("batch", "weights") if key in asked}
    seen = [facts[key] for key in ("data", "proposals") if key in facts]
    return digest(asked, *seen[:1], *_protocol(facts), *seen[1:])[:16]


def _protocol(facts: Record) -> list[Record]:
    """Who was train, val and test, as it is hashed."""
    return [renamed(facts["protocol"], HASHED)] if "protocol" in facts else []


def _scans(files: RunFiles) -> dict[str, dict[str, float]]:
    """The mean DSC of each validation scan by output, the answer first: what differences are paired by."""
    by_output = {output: files.chosen(part="val", branch=output) for output in files.branches}
    return {
        output: {case: round(dsc, 5) for case, dsc in dsc_by_case(rows).items()} for output, rows in by_output.items()
    }


def _figure(entry: Record) -> Record:
    """One entry of ``scores.summarise`` with seven digits, without the metrics that are unknown."""
    kept = {key: entry[key] for key in ("part", "checkpoint", "branch", "class", "cases", "left_out")}
    known = {metric: entry[metric] for metric in METRICS if entry.get(metric, UNKNOWN)["mean"] is not None}
    rounded = {name: {key: value and round(value, 7) for key, value in of.items()} for name, of in known.items()}
    return {**kept, **rounded}


def add(runs: Sequence[Path], *, replace: bool, commit: str | None = None, path: Path = RUNS) -> None:
    """Put a line for each run into ``path``; what is there already stays, unless ``replace``."""
    held = {record["id"]: record for record in read_runs(path)}
    for run in runs:
        record = make_record(run, commit)
        before = held.get(record["id"])
        if before == record:
            print(f"{run.name}: is there already")
        elif before is not None and not replace:
            raise MixsegError(
                f"{run}: another run of the same config on the same data is in {path.name} (id {record['id']}); "
                "say --replace to put this one in its place.",
                "duplicate-run",
                folder=run,
            )
        else:
            held[record["id"]] = record
            print(f"{run.name}: {'added' if before is None else 'replaced'}")
    with replacing(path) as temporary:
        temporary.write_text("".join(json.dumps(record) + "\n" for record in held.values()))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of the three commands."""
    parser = argparse.ArgumentParser(prog="python benchmarks/results.py", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    commands = parser.add_subparsers(dest="command", required=True)
    adding = commands.add_parser("add", help="a line in runs.jsonl for each finished run")
    adding.add_argument("runs", nargs="+", type=Path, metavar="RUN_FOLDER")
    adding.add_argument("--replace", action="store_true", help="put it in the place of an earlier run of the config")
    adding.add_argument("--commit", help="of the sources, where the run does not know it; their hash has to agree")
    commands.add_parser("tables", help="make the tables anew")
    drawing = commands.add_parser("curves", help="draw the curves of runs whose log.jsonl is at hand")
    drawing.add_argument("runs", nargs="+", type=Path, metavar="RUN_FOLDER")
    drawing.add_argument("--out", type=Path, help="default: the picture of the data set's page")
    options = parser.parse_args(arguments)
    try:
        if options.command == "add":
            add(options.runs, replace=options.replace, commit=options.commit)
        elif options.command == "tables":
            from results_tables import write_pages

            print("\n".join(f"written: {path.relative_to(ROOT)}" for path in write_pages(read_runs(), ROOT)))
        else:
            from results_curves import draw

            dataset = RunFiles.read(options.runs[0]).config.data.dataset
            draw(options.runs, options.out or PICTURES / f"{dataset}-curves.png")
    except MixsegError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
