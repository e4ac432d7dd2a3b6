"""The methods of a comparison: run folders, with the runs that differ in their seeds alone taken together."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mixseg.core.errors import MixsegError, listed
from mixseg.evaluation.metrics import METRICS, bounds
from mixseg.evaluation.scores import MEAN, Row, interval_text, mean_sd, samples, summarise
from mixseg.evaluation.statistics import Estimate, estimate
from mixseg.methods.outputs import output_name
from mixseg.report.run_files import RunFiles, part_of_all
from mixseg.report.tables import known_columns
from mixseg.report.wording import part_name
from mixseg.runs.config import keys_where, settings_of

INTERVAL = "95 % interval"
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
        return [row for rows in self.trainings(part, branch) for row in rows]

    def trainings(self, part: str, branch: str) -> list[list[Row]]:
        """The scores of each seed."""
        return [run.chosen(part=part, branch=branch) for run in self.runs]

    def estimate(self, metric: str, part: str, branch: str, label: str = MEAN) -> Estimate:
        """The mean of a score over the scans of all seeds, of one class or over classes, and where it may lie."""
        chosen = [[row for row in rows if label in (MEAN, row.label)] for rows in self.trainings(part, branch)]
        return estimate(samples(chosen, metric), bounds=bounds(metric))


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


def check_comparable(contenders: Sequence[Contender], part: str) -> None:
    """Nothing, or one sentence about what makes a comparison one of data rather than of methods.

    Raises:
        MixsegError: The runs were scored on different scans, or trained on different data.
    """
    runs = [run for contender in contenders for run in contender.runs]
    for run in runs[1:]:
        here, there = ({row.case for row in each.rows if row.part == part} for each in (runs[0], run))
        if here != there:
            raise MixsegError(
                f"{runs[0].path} and {run.path} were scored on different {part_name(part)} scans "
                f"({_only(runs[0], here - there)}; {_only(run, there - here)}): train both on one split, or compare "
                "the scans that they share with --anyway.",
                "splits-differ",
                folder=runs[0].path,
                other=run.path,
                missing=sorted(here ^ there),
            )
        # Another grid or other partial labels of the same scans have another hash, too: that is a setting.
        alike = runs[0].config.data.prepare_options == run.config.data.prepare_options
        if alike and runs[0].facts.get("data") != run.facts.get("data"):
            raise MixsegError(
                f"{runs[0].path} and {run.path} were trained on different data "
                f"({_data_of(runs[0])}; {_data_of(run)}): train both on the same, or compare them with --anyway.",
                "data-differ",
                folder=runs[0].path,
                other=run.path,
            )


def _only(run: RunFiles, cases: Collection[str]) -> str:
    return f"{run.path.name} alone: {listed(sorted(cases)) or 'none'}"


def _data_of(run: RunFiles) -> str:
    return " ".join(filter(None, (str(run.facts.get("folder", "")), f"hash {str(run.facts.get('data', ''))[:8]}")))


def score_lines(contenders: Sequence[Contender], part: str) -> list[tuple[str, ...]]:
    """Scores as lines of text, the head first: one per method, output and class, and their mean over classes."""
    found = _entries(contenders, part)
    columns = _shown([entry for _, entry in found])
    scores_head = (text for head in columns for text in (head, INTERVAL))
    lines: list[tuple[str, ...]] = [("method", "output", "class", "seeds", "scans", "patients", *scores_head)]
    for contender, entry in found:
        output, seeds = output_name(entry["branch"], contender.branches), len(contender.runs)
        rows = contender.rows(part, entry["branch"])
        units = (str(len({row.case for row in rows})), str(len({row.patient for row in rows})))
        scores: list[str] = []
        for metric, factor in columns.values():
            within = contender.estimate(metric, part, entry["branch"], entry["class"])
            scores += (mean_sd(entry[metric], factor), interval_text(within, factor))
        lines.append((contender.name, output, entry["class"], str(seeds), *units, *scores))
    return lines


def _shown(entries: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, float]]:
    """The scores that fit beside each other with their intervals: distances in one unit; the others are records."""
    wanted = ("DSC", "HD95", "NSD", "lesion")
    known = {head: of for head, of in known_columns(entries).items() if head.startswith(wanted)}
    twice = {head for head in known if "(voxels)" in head and head.replace("voxels", "mm") in known}
    return {head: of for head, of in known.items() if head not in twice}


def score_records(contenders: Sequence[Contender], part: str) -> list[dict[str, object]]:
    """The same as numbers, a record per score, for a table that programs read."""
    found = []
    for contender, entry in _entries(contenders, part):
        for metric in METRICS:
            within = contender.estimate(metric, part, entry["branch"], entry["class"])
            if within.patients:
                where = {"method": contender.name, "output": entry["branch"], "class": entry["class"], "part": part}
                found.append({**where, "score": metric, **within._asdict()})
    return found


def _entries(contenders: Sequence[Contender], part: str) -> list[tuple[Contender, Mapping[str, Any]]]:
    return [
        (contender, entry)
        for contender in contenders
        for branch in contender.branches
        for entry in summarise(contender.rows(part, branch))
    ]


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
