"""The tables of reports: scores, what was changed from the preset, versions, and the protocol card."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from mixseg.evaluation.scores import HELD_OUT, MEAN, STROKES, UNKNOWN, certainty, mean_sd, worth_showing
from mixseg.methods.outputs import output_name
from mixseg.report.html import Html, table
from mixseg.report.run_files import RunFiles
from mixseg.report.wording import count
from mixseg.runs.config import make_config, settings_of

COLUMNS = {
    "DSC (%)": ("dsc", 100.0),
    "HD95 (voxels)": ("hd95_vox", 1.0),
    "HD95 (mm)": ("hd95_mm", 1.0),
    "ASSD (voxels)": ("assd_vox", 1.0),
    "ASSD (mm)": ("assd_mm", 1.0),
    "NSD (%)": ("nsd", 100.0),
    "volume error (ml)": ("volume_error_ml", 1.0),
    "lesion F1 (%)": ("lesion_f1", 100.0),
}
WHO = {
    "full": "train, with full masks",
    "proposed": "train, with masks that another run proposed",
    "partial": "train, partly labelled",
    "unlabeled": "train, without labels",
    "unused": "not used, a class was not looked for",
    "val": "validation",
    "test patients": "test",
    "unscored": "not scored, no full mask",
}


FEW_CLASSES = 4
"""So many fit beside each other in a table."""

Entry = Mapping[str, Any]
"""What ``summarise`` says about one output on one part, for one class or the mean over classes."""


def overview(entries: Sequence[Entry], branches: Sequence[str]) -> Html:
    """One line per checkpoint and output of a part: DSC of each class, then the means over classes."""
    classes = list(dict.fromkeys(entry["class"] for entry in entries))
    if len(classes) == 1:
        return by_class(entries, branches)
    shown = [name for name in classes if name != MEAN] if len(classes) <= FEW_CLASSES + 1 else []
    groups: dict[tuple[str, str], dict[str, Entry]] = {}
    for entry in entries:
        groups.setdefault((entry["checkpoint"], entry["branch"]), {})[entry["class"]] = entry
    dsc, distances = _columns(entries)
    distances = {head: text for head, text in distances.items() if head.startswith("HD95")}
    names = (*map(_of_mean, dsc), *(f"{name}, DSC (%)" for name in shown), *map(_of_mean, distances))
    lines = (
        (
            checkpoint,
            output_name(branch, branches),
            of[MEAN]["cases"],
            *(text(of[MEAN]) for text in dsc.values()),
            *(mean_sd(of[name]["dsc"], 100.0) for name in shown),
            *(text(of[MEAN]) for text in distances.values()),
        )
        for (checkpoint, branch), of in groups.items()
    )
    return table(lines, ("checkpoint", "output", "scans", *names))


def by_class(entries: Sequence[Entry], branches: Sequence[str]) -> Html:
    """One line per checkpoint, output and class of a part, mean ± sd over scans."""
    dsc, distances = _columns(entries)
    columns = {**dsc, **distances}
    lines = (
        (
            entry["checkpoint"],
            output_name(entry["branch"], branches),
            entry["class"],
            entry["cases"],
            entry["left_out"],
            *(text(entry) for text in columns.values()),
        )
        for entry in entries
        if entry["class"] != MEAN
    )
    return table(lines, ("checkpoint", "output", "class", "scans", "left out", *columns))


Column = Callable[[Entry], str]


def _columns(entries: Sequence[Entry]) -> tuple[dict[str, Column], dict[str, Column]]:
    """What is to be said of an entry: of its DSC, with the interval, and of its distances."""
    known = {head: partial(_score, *of) for head, of in known_columns(entries).items()}
    dsc: dict[str, Column] = {head: text for head, text in known.items() if head.startswith("DSC")}
    return {**dsc, **certainty(entries)}, {head: text for head, text in known.items() if head not in dsc}


def _score(metric: str, factor: float, entry: Entry) -> str:
    return mean_sd(entry.get(metric, UNKNOWN), factor)


def _of_mean(head: str) -> str:
    return f"mean {head}" if head in COLUMNS else head


def known_columns(entries: Sequence[Entry]) -> dict[str, tuple[str, float]]:
    """The columns that at least one entry has a value for."""
    return {head: of for head, of in COLUMNS.items() if worth_showing(of[0], entries)}


def changes(run: RunFiles) -> Html:
    """What this run has that its preset has not."""
    config = run.config
    preset = make_config(method=config.method.name, preset=config.preset, dims=config.data.dims)
    ours, theirs = ({**settings_of(each), "batch": each.training.batch.counts} for each in (config, preset))
    lines = [(key, _value(ours[key]), _value(theirs[key])) for key in ours if ours[key] != theirs[key]]
    return table(lines, ("key", "this run", f"preset {config.preset}"))


def environment(facts: Mapping[str, Any]) -> Html:
    """Versions, device, commit and data."""
    versions = facts.get("versions", {})
    kept = {
        key: value for key, value in facts.items() if key not in ("versions", "protocol", "classes", "input_ranges")
    }
    lines = [*((key, _value(value)) for key, value in kept.items()), *((key, versions[key]) for key in versions)]
    return table(lines, ("what", "value"))


def protocol(run: RunFiles) -> Html:
    """The protocol card: who was train, val and test, how the checkpoint was chosen, what the seed drives."""
    protocol: Mapping[str, Any] = run.facts.get("protocol") or {}
    lines: list[tuple[str, object]] = [(WHO.get(who, who), _people(who, protocol[who])) for who in protocol]
    if "val" not in protocol:
        lines.append((WHO["val"], _people("val", sorted({row.case for row in run.rows if row.part == "val"}))))
    if run.estimated:
        lines.append(("held out in turn", _held_out(run)))
    if "test" in run.parts or protocol.get("test patients", True):  # without test scans there is nothing to open
        lines.append(("test set", _opened(run)))
    lines += [
        ("checkpoints", _checkpoints(run)),
        ("seed", _seed(run)),
        ("data", _data(run)),
    ]
    return table(lines, ("", "who and how"))


def _held_out(run: RunFiles) -> str:
    protocol: Mapping[str, Any] = run.estimated or {}
    cases = sorted({row.case for row in run.rows if row.part in (HELD_OUT, STROKES)})
    return (
        f"{count(len(cases), 'scan')}: {', '.join(cases)}. Each by one of {count(protocol['folds'], 'training')} of "
        f"{count(protocol['steps'], 'step')} ({protocol['method']}), whose last checkpoint was scored."
    )


def _people(who: str, names: object) -> str:
    if not isinstance(names, Sequence) or isinstance(names, str):
        return _value(names)
    if who == "unscored":  # patients, and scans of others
        return ", ".join(map(str, names))
    noun = "patient" if "patient" in who else "scan"
    return f"{count(len(names), noun)}: {', '.join(map(str, names))}" if names else "none"


def _opened(run: RunFiles) -> str:
    if "test" in run.parts:
        scans = len({row.case for row in run.rows if row.part == "test"})
        return f"Opened by this run, after training: {count(scans, 'scan')} scored."
    return "Not opened by this run: nothing here was chosen or scored on it."


def _checkpoints(run: RunFiles) -> str:
    last = f"last: the weights after step {run.config.training.steps}, the end; no score chose it."
    none = "There were no validation scans to choose a best one on."
    if "val" in run.parts:
        none = "No validation scan shows a structure to choose a best one on."
    if run.finished is None:
        last = f"last: the newest weights that were kept; step {run.config.training.steps} will be the end."
        none = "No validation has chosen a best one yet."
    if run.best is None:
        return f"{last} {none}"
    return (
        f"{last} best: the highest mean DSC of the {output_name(run.answer, run.branches)} on the validation scans, "
        f"looked at every {count(run.config.training.validation_interval, 'step')}: step {run.best.step}, "
        f"{100 * run.best.score:.2f} %. "
        "Its validation scores are a little too good, because it was chosen on them."
    )


def _data(run: RunFiles) -> str:
    layout = run.config.data.dataset and f"layout {run.config.data.dataset}"
    content = f"hash {run.facts['data']}" if run.facts.get("data") else ""
    return ", ".join(filter(None, (run.facts.get("folder"), layout, content))) or "not recorded"


def _seed(run: RunFiles) -> str:
    seed = run.config.training.seed
    return f"{seed}: drives initialisation, order and noise, never the split. ± is over scans, not over seeds."


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_value(item)}" for key, item in value.items()) or "-"
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ", ".join(_value(item) for item in value) or "-"
    return "-" if value in ("", None) else value if isinstance(value, str) else json.dumps(value)
