"""Lines of runs.jsonl -> groups that differ in nothing but the seed, and how each differs from its preset."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mixseg.evaluation.scores import MEAN
from mixseg.experiments.planner import changed, setting
from mixseg.experiments.protocol import PROTOCOLS, STRONG, steps_of
from mixseg.methods import METHODS
from mixseg.report.experiment.results import Spread, spread
from mixseg.runs.config import Config, flat, make_config, settings_of

Record = dict[str, Any]

OF_TERM = {
    "weak_over": "weak",
    "divergence": "distill",
    "temperature": "distill",
    "detach": "distill",
    "confidence": "entropy",
    "entropy_on": "entropy",
    "ramp": "entropy",
}
"""Settings of one term of the loss: a method without the term does the same whatever they say."""


@dataclass(frozen=True)
class Group:
    """Runs that differ in nothing but the seed.

    Attributes:
        dataset: Whose scans.
        column: The setting, "set-3" or "all".
        method: Row of METHODS; of proposals with the methods that they come from, such as "proposals-kl".
        preset: Where the settings come from.
        changes: ``key=value`` for each setting that differs from the preset's.
        records: The first run of each seed.
        again: Further runs of these seeds, on arrays that were prepared anew, say. No mean counts them.
    """

    dataset: str
    column: str
    method: str
    preset: str
    changes: tuple[str, ...]
    records: tuple[Record, ...]
    again: tuple[Record, ...] = ()

    @property
    def where(self) -> str:
        """The setting, as it is written in a table."""
        return self.column.replace("set-", "Set-")

    def score(self, metric: str, *, part: str, output: str, checkpoint: str = "last") -> Spread | None:
        """Mean and sd over the seeds that have it (DSC from 0 to 1), or None."""
        return spread(_mean_of(record, metric, part, checkpoint, output) for record in self.records)


def gather(records: Iterable[Record]) -> list[Group]:
    """The groups, in the order in which their first runs were added. The configs of their records are settings."""
    found: dict[tuple[Any, ...], list[Record]] = {}
    for record in ({**each, "config": flat(each["config"])} for each in records):
        config = record["config"]
        column = setting(config["method"], config["set"])
        method = "-".join([config["method"], *record["proposed_by"]])
        key = (config["dataset"], column, method, config["preset"], changes(config))
        found.setdefault(key, []).append(record)
    return [Group(*key, *_by_seed(records)) for key, records in found.items()]


def _by_seed(records: Iterable[Record]) -> tuple[tuple[Record, ...], tuple[Record, ...]]:
    """The first run of each seed, and the others."""
    first: dict[int, Record] = {}
    again = [record for record in records if first.setdefault(record["config"]["seed"], record) is not record]
    return tuple(first.values()), tuple(again)


def changes(config: Record) -> tuple[str, ...]:
    """``key=value`` for each of the settings that is neither the preset's nor the protocol's."""
    usual = usual_config(config["preset"], config["method"], config["dataset"], config["set"])
    # A line from before a key was made has its default, which is what every run did then.
    told = changed(_counted({**settings_of(Config()), **config}), _counted(usual))
    if usual["largest"] is None and told.get("largest"):
        del told["largest"]  # what the masks said is no choice
    weights = {**METHODS[config["method"]].weights, **config["weights"]}
    told = {key: value for key, value in told.items() if key not in OF_TERM or weights.get(OF_TERM[key])}
    return tuple(f"{key}={json.dumps(value).strip(chr(34))}" for key, value in told.items())


def _counted(config: Record) -> Record:
    """``config`` with 0 for the rows of a kind that were left to the scans, which had none."""
    return {**config, "batch": {kind: rows or 0 for kind, rows in config["batch"].items()}}


def usual_config(preset: str, method: str, dataset: str, n: int | None) -> Record:
    """The config of a method under a preset in the experiments on ``dataset``."""
    grid = STRONG.get(dataset, {}) if preset == "strong" else {}
    told = {"preset": preset, "method": method, "dataset": dataset, "set": n, **PROTOCOLS.get(dataset, {}), **grid}
    usual = settings_of(make_config(**told))
    return {**usual, "steps": steps_of(preset, dataset, n, usual["steps"], usual["batch"]["full"])}


def _mean_of(record: Record, metric: str, part: str, checkpoint: str, branch: str) -> float | None:
    """The mean over scans of one output; over classes too, where there are several."""
    wanted = (part, checkpoint, branch)
    entries = [entry for entry in record["figures"] if (entry["part"], entry["checkpoint"], entry["branch"]) == wanted]
    over_all = [entry for entry in entries if entry["class"] == MEAN] or entries
    return over_all[0][metric]["mean"] if over_all and metric in over_all[0] else None
