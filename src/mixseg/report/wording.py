"""The sentences and names of reports: what a radiologist reads first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mixseg.core.progress import duration
from mixseg.evaluation.scores import MEAN, summarise
from mixseg.methods.outputs import STUDENT, TEACHER, output_name
from mixseg.report.run_files import RunFiles

PARTS = {"val": "validation", "test": "test"}
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
    entries = summarise(run.chosen(part=part, branch=branch, checkpoint=checkpoint))
    return next((entry for entry in entries if entry["class"] == MEAN), entries[0] if entries else None)


def verdict(run: RunFiles) -> str:
    """The result in one sentence: the answer's DSC, on which scans, and how far from its teacher."""
    part = run.parts[0] if run.parts else ""
    found = mean_entry(run, part=part, branch=run.answer)
    if found is None or found["dsc"]["mean"] is None:
        return "No scan with a full mask has been scored yet."
    classes = len(run.classes) - 1
    mean = 100 * found["dsc"]["mean"]
    name = output_name(run.answer, run.branches)
    over = f" (mean of {classes} classes)" if classes > 1 else ""
    sentence = f"The {name} reaches {mean:.1f} % DSC{over} on {count(found['cases'], f'{part_name(part)} scan')}"
    teacher = mean_entry(run, part=part, branch=TEACHER) if run.answer == STUDENT else None
    if teacher is None or teacher["dsc"]["mean"] is None:
        return sentence + "."
    return f"{sentence}, {_against(mean - 100 * teacher['dsc']['mean'])} its teacher."


def _against(difference: float) -> str:
    if abs(difference) < 0.05:
        return "level with"
    return f"{abs(difference):.1f} points {'above' if difference > 0 else 'below'}"


def circumstances(run: RunFiles) -> str:
    """Which checkpoint the sentence is about, and what the run cost."""
    if run.finished is None:
        done = run.log[-1]["step"] if run.log else 0
        scored = " The scores are those of an earlier, shorter training." if run.rows else ""
        return f"The run is not finished: {done} of {run.config.training.steps} steps are in the log.{scored}"
    cost = duration(run.finished["training_seconds"]) if "training_seconds" in run.finished else "unknown time"
    memory = run.finished.get("peak_gpu_gib")
    used = f", {memory:.1f} GiB of GPU memory" if memory else ""
    return (
        f"Last checkpoint of {run.finished['steps']} steps; trained in {cost} on {run.facts.get('device', '?')}{used}."
    )
