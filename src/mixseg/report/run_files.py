"""What a report reads: the files of one run folder, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from mixseg.core import archives
from mixseg.core.errors import MixsegError
from mixseg.core.schema import Content
from mixseg.core.text_files import read_json
from mixseg.evaluation.scores import HELD_OUT, STROKES, Row, read_metrics
from mixseg.inference.report_slices import CHECKPOINT, Example, choose, read_examples
from mixseg.runs.config import Config
from mixseg.runs.folder import CROSS_VALIDATION, RunFolder
from mixseg.runs.log import read_log


class Warned(NamedTuple):
    """Something that the log said aloud."""

    step: int
    sentence: str


class Best(NamedTuple):
    """The look that chose the best checkpoint."""

    step: int
    score: float


class Estimated(TypedDict):
    """What summary.json of a cross-validation has to hold."""

    method: str
    folds: int
    steps: int


@dataclass(frozen=True)
class RunFiles:
    """One run as its files tell it; an unfinished run has fewer of them.

    Attributes:
        path: The run folder.
        config: config.json.
        facts: environment.json.
        log: The entries of log.jsonl.
        rows: metrics.csv, and that of its cross-validation.
        finished: finished.json, or None.
        estimated: summary.json of its cross-validation, or None: how scans were held out from trainings like this one.
    """

    path: Path
    config: Config
    facts: Content
    log: list[Content]
    rows: list[Row]
    finished: Content | None
    estimated: Content | None = None

    @staticmethod
    def read(run: Path | RunFolder) -> RunFiles:
        """The run in a folder, of which somebody may have read some files already."""
        folder = run if isinstance(run, RunFolder) else RunFolder(run)
        path, apart = folder.path, folder.path / CROSS_VALIDATION
        scored = [file for file in (path / "metrics.csv", apart / "metrics.csv") if file.exists()]
        return RunFiles(
            path=path,
            config=folder.config,
            facts=folder.facts,
            log=read_log(path / "log.jsonl"),
            rows=[row for file in scored for row in read_metrics(file)],
            finished=folder.finished,
            estimated=read_json(apart / "summary.json", Estimated, missing_ok=True),
        )

    @cached_property
    def examples(self) -> list[Example]:
        """Of examples.npz; of a run that scored nothing itself, those of its cross-validation."""
        own = read_examples(self.path / "examples.npz")
        return own if own or not self.estimated else self._held_out_examples()

    def _held_out_examples(self) -> list[Example]:
        """Of all folds, ranked among each other."""
        found = [
            example
            for file in sorted((self.path / CROSS_VALIDATION).glob("*/examples.npz"))
            for example in read_examples(file)
            if example.rank != "common"
        ]
        of_case = {case: [each for each in found if each.case == case] for case in {each.case for each in found}}
        chosen = choose([row for row in self.rows if row.part in (HELD_OUT, STROKES)], self.answer)
        return [
            replace(example, part=choice.part, rank=choice.rank)
            for choice in chosen
            for example in of_case.get(choice.case, [])
        ]

    @cached_property
    def branches(self) -> tuple[str, ...]:
        """The outputs of the method, its answer first."""
        looked: dict[str, Any] = next((entry["dsc"] for entry in self.log if entry.get("dsc")), {})
        return tuple(dict.fromkeys([*looked, *(row.branch for row in self.rows)]))

    @property
    def answer(self) -> str:
        """The output that the method stands for."""
        return self.branches[0] if self.branches else ""

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """Names by class index, the background first."""
        if self.facts.get("classes"):
            return tuple(self.facts["classes"])
        return ("background", *dict.fromkeys(row.label for row in self.rows))

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The parts of the split that were scored, the test set first: it is the one to quote."""
        return tuple(sorted({row.part for row in self.rows}, key=lambda part: (part != "test", part)))

    @property
    def warned(self) -> list[Warned]:
        """What the log warned of, in order."""
        return [Warned(entry["step"], entry["warning"]) for entry in self.log if entry.get("warning")]

    @property
    def best(self) -> Best | None:
        """The first look with the highest score, if there were validation scans."""
        # Where there was nothing to score the log holds null.
        entries = [Best(entry["step"], entry["score"]) for entry in self.log if entry.get("score") is not None]
        return max(entries, key=lambda entry: (entry.score, -entry.step)) if entries else None

    @property
    def best_is_last(self) -> bool:
        """Whether the last look chose the best checkpoint, so that the two hold the same weights."""
        return bool(self.finished and self.best and self.best.step == self.finished["steps"])

    def labels_on(self, example: Example, output: str) -> NDArray[np.uint8] | None:
        """What an output marked on the plane of ``example``, which may be another run's; None if that is not known."""
        path = self.path / "predictions.npz"
        if not path.exists():
            return None
        key = f"{CHECKPOINT}/{output}/{example.case}"
        with archives.opened(path) as held:
            found = archives.array_of(held, key) if key in archives.array_names(held) else None
        labels = None if found is None or found.ndim != 3 else example.plane.of(found.astype(np.uint8, copy=False))
        return labels if labels is not None and labels.shape == example.truth.shape else None

    def chosen(self, *, part: str, branch: str, checkpoint: str = "last") -> list[Row]:
        """The rows of one output on one part."""
        wanted = (part, branch, checkpoint)
        return [row for row in self.rows if (row.part, row.branch, row.checkpoint) == wanted]


def part_of_all(runs: Sequence[RunFiles]) -> str:
    """The part of the split that all runs were scored on, the test set if they were."""
    for part in ("test", "val", HELD_OUT, STROKES, ""):
        if all(part in run.parts for run in runs):
            return part
    raise MixsegError(
        f"{runs[0].path} and the other runs have no scores on a common part of the split: finish them, or score them "
        "on the same one.",
        "no-common-part",
        folder=runs[0].path,
    )


def dsc_by_case(rows: Iterable[Row]) -> dict[str, float]:
    """The mean DSC over classes of each case that has one."""
    values: dict[str, list[float]] = {}
    for row in rows:
        if not math.isnan(row.dsc):
            values.setdefault(row.case, []).append(row.dsc)
    return {case: float(np.mean(scores)) for case, scores in values.items()}
