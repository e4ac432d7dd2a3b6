"""The methods of a comparison: run folders, with the runs that differ in their seeds alone taken together."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mixseg.core.errors import MixsegError
from mixseg.evaluation.scores import MEAN, Row, mean_sd, summarise
from mixseg.methods.outputs import output_name
from mixseg.report.run_files import RunFiles, part_of_all
from mixseg.report.tables import known_columns
from mixseg.report.wording import count, part_name
from mixseg.runs.config import keys_where, settings_of

LONGEST = 60
"""A name of more letters fits into no table: such runs are told apart by their folders."""


@dataclass(frozen=True)
class Contender:
    """One method: a run, or several that differ in their seeds alone.

    Attributes:
        name: As the tables call it.
        runs: One per seed.
    """

    name: str
    runs: tuple[RunFiles, ...]

    @property
    def answer(self) -> str:
        """The output that the method stands for."""
        return self.runs[0].answer

    @property
    def branches(self) -> tuple[str, ...]:
        """The outputs of the method, its answer first."""
        return self.runs[0].branches

    def rows(self, part: str, branch: str) -> list[Row]:
        """The scores of all seeds."""
        return [row for run in self.runs for row in run.chosen(part=part, branch=branch)]


def gather(runs: Sequence[Path]) -> list[Contender]:
    """The runs as methods, in the given order, seeds together; a folder that is named twice counts once."""
    groups: dict[str, list[RunFiles]] = {}
    alike = {"seed", *keys_where(lambda key: not key.effect)}
    for path in {path.resolve(): path for path in runs}.values():
        run = RunFiles.read(path)
        if not run.rows:
            raise MixsegError(
                f"{path} has no scores yet: finish its training first, or leave it out.", "no-scores", folder=path
            )
        settings = {key: value for key, value in settings_of(run.config).items() if key not in alike}
        # Seeds learn from proposals of different runs; what tells methods apart is how those runs were trained.
        settings["proposals_from"] = " > ".join(run.facts.get("proposals", {}).get("methods", []))
        settings["data"] = run.facts.get("data", "")
        groups.setdefault(json.dumps(settings, sort_keys=True), []).append(run)
    if not groups:
        raise MixsegError("There is nothing to compare: name at least one run folder.", "no-runs")
    described = [
        json.loads(key) | {"data": f"{group[0].facts.get('folder', '')} {group[0].facts.get('data', '')[:8]}".strip()}
        for key, group in groups.items()
    ]
    found = [run for group in groups.values() for run in group]
    if not set.intersection(*({row.label for row in run.rows} for run in found)):
        found_in = "; ".join(f"{run.path}: {', '.join(run.classes[1:])}" for run in found)
        raise MixsegError(
            f"The runs have no class in common ({found_in}): compare those that segment the same.", "classes-differ"
        )
    for group in groups.values():
        _check_seeds_differ(group)
    names = [_name(settings, described) for settings in described]
    if max(map(len, names)) > LONGEST:
        folders = folder_names([group[0].path for group in groups.values()])
        names = [f"{of['method']} ({folder})" for of, folder in zip(described, folders, strict=True)]
    return [Contender(name, tuple(group)) for name, group in zip(names, groups.values(), strict=True)]


def common_part(contenders: Sequence[Contender]) -> str:
    """The part of the split that all were scored on, the test set if they were."""
    return part_of_all([run for contender in contenders for run in contender.runs])


def verdict(contenders: Sequence[Contender], part: str) -> str:
    """Who is ahead, by how much, on what."""
    means = [_mean(contender, part) for contender in contenders]
    best = max(range(len(contenders)), key=lambda number: means[number])
    scans = len({row.case for row in contenders[0].rows(part, contenders[0].answer)})
    said = f"{contenders[best].name} is ahead with {means[best]:.1f} % DSC on {count(scans, f'{part_name(part)} scan')}"
    if best == 0 or len(contenders) == 1:
        return f"{said}."
    return f"{said}, {means[best] - means[0]:.1f} points above {contenders[0].name}."


def score_lines(contenders: Sequence[Contender], part: str) -> list[tuple[str, ...]]:
    """Scores as lines of text, the head first: one per method, output and class, and their mean over classes."""
    found = [
        (contender, entry)
        for contender in contenders
        for branch in contender.branches
        for entry in summarise(contender.rows(part, branch))
    ]
    columns = known_columns([entry for _, entry in found])
    lines: list[tuple[str, ...]] = [("method", "output", "seeds", "class", "scans", *columns)]
    for contender, entry in found:
        output, seeds = output_name(entry["branch"], contender.branches), len(contender.runs)
        scans = {row.case for row in contender.rows(part, entry["branch"])}
        what = ("mean" if entry["class"] == MEAN else entry["class"], str(len(scans)))
        scores = (mean_sd(entry[metric], factor) for metric, factor in columns.values())
        lines.append((contender.name, output, str(seeds), *what, *scores))
    return lines


def folder_names(paths: Sequence[Path]) -> list[str]:
    """The names of different folders, each with as many of the folders above it as it takes to tell them all apart."""
    parts = [path.resolve().parts for path in paths]
    longest = max(map(len, parts))
    depth = next((n for n in range(1, longest) if len({each[-n:] for each in parts}) == len(parts)), longest)
    return [Path(*each[-depth:]).as_posix() for each in parts]


def _check_seeds_differ(group: Sequence[RunFiles]) -> None:
    """Nothing, or one sentence if a seed is there twice: a copy has no spread, and a repetition not that of seeds."""
    seen: dict[str, RunFiles] = {}
    for run in group:
        # Runs of one seed that learnt from different proposals are different runs.
        other = seen.setdefault(json.dumps([run.config.training.seed, run.facts.get("proposals")], sort_keys=True), run)
        if other is not run:
            raise MixsegError(
                f"{other.path} and {run.path} have the same config, data and seed: they would count as two seeds, and "
                "the spread would be wrong; leave one of them out.",
                "duplicate-run",
                folder=run.path,
                other=other.path,
            )


def _name(settings: dict[str, object], everyone: Sequence[dict[str, object]]) -> str:
    """The method, and what tells it from others of the same method."""
    same = [other for other in everyone if other["method"] == settings["method"]]
    differing = [key for key in settings if any(other[key] != settings[key] for other in same)]
    extra = ", ".join(f"{key} {json.dumps(settings[key])}" for key in differing)
    return f"{settings['method']} ({extra})" if extra else str(settings["method"])


def _mean(contender: Contender, part: str) -> float:
    """DSC of the answer in percent."""
    entries = summarise(contender.rows(part, contender.answer))
    value = next((entry for entry in entries if entry["class"] == MEAN), entries[0])["dsc"]["mean"]
    return math.nan if value is None else 100 * float(value)
