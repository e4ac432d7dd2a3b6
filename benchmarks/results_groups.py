"""Lines of runs.jsonl -> groups that differ in nothing but the seed, and how each differs from its preset."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from mixseg.config import WITHOUT_EFFECT, make_config, to_dict
from mixseg.experiments.protocol import PROTOCOLS, STRONG, steps_of
from mixseg.methods import METHODS
from mixseg.scores import MEAN

Record = dict[str, Any]

NO_CHANGE = WITHOUT_EFFECT | {"seed", "set", "split", "proposals_from"}
"""Keys in which runs may differ and still be runs of one row."""


class Spread(NamedTuple):
    """A figure over seeds: each seed's mean over scans counts once."""

    mean: float
    sd: float | None
    seeds: int


@dataclass(frozen=True)
class Group:
    """Runs that differ in nothing but the seed.

    Attributes:
        dataset: Whose scans.
        n: Of Set-N; None is all train patients.
        method: Row of METHODS; of proposals with the methods that they come from, such as "proposals-kl".
        preset: Where the settings come from.
        changes: ``key=value`` for each setting that differs from the preset's.
        records: One per seed.
    """

    dataset: str
    n: int | None
    method: str
    preset: str
    changes: tuple[str, ...]
    records: tuple[Record, ...]

    def figure(self, metric: str, *, part: str, checkpoint: str, branch: str) -> Spread | None:
        """Mean and sd over the seeds that have it (DSC in percent), or None."""
        means = [_mean_of(record, metric, part, checkpoint, branch) for record in self.records]
        known = [100 * mean if metric == "dsc" else mean for mean in means if mean is not None]
        if not known:
            return None
        sd = statistics.stdev(known) if len(known) > 1 else None
        return Spread(statistics.fmean(known), sd, len(known))


def gather(records: Iterable[Record]) -> list[Group]:
    """The groups, in the order in which their first runs were added."""
    found: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        config = record["config"]
        n = None if METHODS[config["method"]].ignores_set else config["set"]
        method = "-".join([config["method"], *record["proposed_by"]])
        key = (config["dataset"], n, method, config["preset"], changes(config))
        found.setdefault(key, []).append(record)
    return [Group(*key, tuple(records)) for key, records in found.items()]


def changes(config: Record) -> tuple[str, ...]:
    """``key=value`` for each setting that is neither the preset's nor the protocol's."""
    preset, method, dataset = config["preset"], config["method"], config["dataset"]
    usual = _usual(preset, method, dataset, config["set"])
    own, now = (_flat(_weighed({**usual, **told}, method)) for told in ({}, config))
    told = {
        key: now.get(key, 0.0)  # a weight that is not there is 0
        for key in {**now, **own}
        if key.split(".")[0] not in NO_CHANGE and now.get(key, 0.0) != own.get(key, 0.0)
    }
    if usual["largest"] is None and told.get("largest"):
        del told["largest"]  # what the masks said is no choice
    return tuple(f"{key}={json.dumps(value).strip(chr(34))}" for key, value in told.items())


def _weighed(config: Record, method: str) -> Record:
    """``config`` with the weights of all terms, the method's own where it names none."""
    return {**config, "weights": {**METHODS[method].weights, **config["weights"]}}


def _usual(preset: str, method: str, dataset: str, n: int | None) -> Record:
    """The config of a method under a preset in the experiments on ``dataset``."""
    grid = STRONG.get(dataset, {}) if preset == "strong" else {}
    told = {"preset": preset, "method": method, "dataset": dataset, "set": n, **PROTOCOLS.get(dataset, {}), **grid}
    usual = to_dict(make_config(**told))
    return {**usual, "steps": steps_of(preset, dataset, n, usual["steps"], usual["batch"]["full"])}


def _flat(config: Record) -> Record:
    """``{"batch": {"full": 8}}`` -> ``{"batch.full": 8}``."""
    flat = {}
    for key, value in config.items():
        flat |= {f"{key}.{name}": each for name, each in value.items()} if isinstance(value, dict) else {key: value}
    return flat


def _mean_of(record: Record, metric: str, part: str, checkpoint: str, branch: str) -> float | None:
    """The mean over scans of one output; over classes too, where there are several."""
    wanted = (part, checkpoint, branch)
    entries = [entry for entry in record["figures"] if (entry["part"], entry["checkpoint"], entry["branch"]) == wanted]
    over_all = [entry for entry in entries if entry["class"] == MEAN] or entries
    return over_all[0][metric]["mean"] if over_all and metric in over_all[0] else None


@cache
def paper_values() -> dict[str, Any]:
    """The numbers that the paper prints, by experiment."""
    return json.loads(files("mixseg").joinpath("paper_values.json").read_text())


def paper_value(dataset: str, n: int | None, method: str, branch: str) -> dict[str, float] | None:
    """DSC (percent) and HD95 (voxels) of one output in the paper, if it has it."""
    where = "all" if n is None else f"set-{n}"
    values = paper_values()
    main = values.get(f"{dataset}-main", {}).get(where, {})
    if method in main:
        return main[method].get(branch)
    others = (values.get(f"{dataset}-{name}", {}) for name in ("semi-supervised", "proposals"))
    return next((other[where][method] for other in others if method in other.get(where, {})), None)
