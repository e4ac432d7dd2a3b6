"""The sentences and names of reports: what a radiologist reads first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mixseg.core.progress import duration
from mixseg.evaluation.scores import HELD_OUT, MEAN, STROKES, samples, summarise
from mixseg.evaluation.statistics import Comparison, compare
from mixseg.methods.outputs import STUDENT, TEACHER, output_name
from mixseg.report.run_files import RunFiles

PARTS = {"val": "validation", "test": "test", HELD_OUT: "held-out", STROKES: "partly labelled"}
SETTLING = 6
"""Patients below whom nobody is said to be ahead: no paired test over fewer can find a difference."""
MISSED = "A structure that was missed altogether has DSC 0 and the diagonal of the scan as its distances."
IN_VOXELS = "Distances are in voxels of the training grid, where a step between slices counts as one."


def title(run: RunFiles) -> str:
    """What a run is: method, data and seed."""
    config = run.config
    setting = [f"Set-{config.data.set}"] if config.data.set is not None else []
    data = run.facts.get("folder") or config.data.dataset  # earlier runs recorded the layout alone
    where = f" on {data}" if data else ""
    return ", ".join([config.method.name + where, *setting, f"seed {config.training.seed}"])


def part_name(part: str) -> str:
    """A part of the split in full."""
    return PARTS.get(part, part or "scored")


def count(number: int, noun: str) -> str:
    """``1 scan``, ``2 scans``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def mean_entry(run: RunFiles, *, part: str, branch: str, checkpoint: str = "last") -> Mapping[str, Any] | None:
    """The summary over classes of one output, or None if nothing was scored."""
    entries = summarise(run.chosen(part=part, branch=branch, checkpoint=checkpoint), intervals=True)
    return next((entry for entry in entries if entry["class"] == MEAN), entries[0] if entries else None)


def verdict(run: RunFiles) -> str:
    """The result in one sentence: the answer's DSC, where that may lie, on whom, and whether its teacher differs."""
    found = _figure(run)
    if found is None:
        return "No scan with a full mask has been scored yet."
    classes, part = len(run.classes) - 1, found["part"]
    over = f" (mean of {classes} classes)" if classes > 1 else ""
    what = f"the {output_name(run.answer, run.branches)} reaches {100 * found['dsc']['mean']:.1f} % DSC{over}"
    how = _estimated(run.estimated) if run.estimated and part in (HELD_OUT, STROKES) else ""
    where = "on the labelled voxels alone of" if part == STROKES else "on"
    whom = f"{count(found['cases'], f'{part_name(part)} scan')} of {count(found['patients'], 'patient')}"
    sentence = f"{how}{what} {where} {whom}, {_within(found)}"
    teacher = mean_entry(run, part=part, branch=TEACHER) if run.answer == STUDENT else None
    if teacher is not None and teacher["dsc"]["mean"] is not None:
        apart = compare(*(samples([run.chosen(part=part, branch=branch)]) for branch in (STUDENT, TEACHER)))
        sentence += _against(apart, teacher["dsc"]["mean"])
    return f"{sentence[:1].upper()}{sentence[1:]}."


def tells_of_others(run: RunFiles) -> bool:
    """Whether the verdict rests on more than one patient."""
    found = _figure(run)
    return found is not None and found["interval"] is not None


def _figure(run: RunFiles) -> Mapping[str, Any] | None:
    """What the run is quoted with: the mean over classes of its answer, if that was scored."""
    found = mean_entry(run, part=run.parts[0], branch=run.answer) if run.parts else None
    return None if found is None or found["dsc"]["mean"] is None else found


def _estimated(estimate: Mapping[str, Any]) -> str:
    return f"Estimated by {estimate['method']}, in trainings of {count(estimate['steps'], 'step')}: "


def _within(found: Mapping[str, Any]) -> str:
    if found["interval"] is None:
        return "which says little of other patients"
    low, high = (100 * bound for bound in found["interval"])
    return f"95 % interval {low:.1f} to {high:.1f}"


def _against(found: Comparison, teacher: float) -> str:
    """Where its teacher is, and how far apart they are where that can be told."""
    points = 100 * abs(found.difference)
    if found.patients > 1 and not found.settled:
        return f"; its teacher, at {100 * teacher:.1f} %, cannot be told apart from it"
    if found.patients < SETTLING:
        return f"; its teacher is at {100 * teacher:.1f} %"
    return f", {points:.1f} points {'above' if found.difference > 0 else 'below'} its teacher"


def circumstances(run: RunFiles) -> str:
    """Which checkpoint the sentence is about, and what the run cost."""
    if run.finished is None:
        done = run.log[-1]["step"] if run.log else 0
        scored = " The scores are those of an earlier, shorter training." if run.rows else ""
        return f"The run is not finished: {done} of {run.config.training.steps} steps are in the log.{scored}"
    cost = duration(run.finished["training_seconds"]) if "training_seconds" in run.finished else "unknown time"
    memory = run.finished.get("peak_gpu_gib")
    used = f", {memory:.1f} GiB of GPU memory" if memory else ""
    trained = f"trained in {cost} on {run.facts.get('device', '?')}{used}."
    if run.estimated and run.parts and run.parts[0] in (HELD_OUT, STROKES):
        folds, steps = run.estimated["folds"], run.estimated["steps"]
        return (
            f"Scored were {folds} trainings of {steps} steps that had not seen these patients. The run itself has "
            f"learnt from all of them, for {run.finished['steps']} steps, and may well be better; {trained}"
        )
    return f"Last checkpoint of {run.finished['steps']} steps; {trained}"
