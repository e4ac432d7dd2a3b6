"""A folder of scans -> what it holds: who is supervised how, which classes, what is odd, and every bad file."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mixseg.core.errors import MixsegError
from mixseg.core.progress import Progress
from mixseg.core.types import Case
from mixseg.core.workers import cores
from mixseg.datasets import read_table
from mixseg.datasets.labels import LabelFlags
from mixseg.datasets.layouts.table import ScanTable
from mixseg.datasets.split import read_whole_split, split_beside, unnamed
from mixseg.report.inspection import tables
from mixseg.report.inspection.oddities import oddities
from mixseg.report.inspection.scan import LabelMap, Preview, ScanReport, inspect_scan
from mixseg.report.inspection.tables import Row

__all__ = ["Inspection", "LabelMap", "Preview", "ScanReport", "inspect"]

MOST_THREADS = 8
"""Each holds a scan and its label maps in memory."""


@dataclass(frozen=True)
class Inspection:
    """What a folder holds.

    Attributes:
        table: What was understood of it, a row a scan.
        scans: What the files of each scan hold that can be used, in the order of the table.
    """

    table: ScanTable
    scans: tuple[ScanReport, ...]

    @property
    def folder(self) -> Path:
        """Where the scans lie."""
        return self.table.folder

    @property
    def layout(self) -> str:
        """A row of ``DATASETS``."""
        return self.table.layout

    @property
    def meanings(self) -> tuple[str, ...]:
        """What the label ids were found to mean, and why: a sentence per folder of label maps."""
        return self.table.meanings

    @property
    def cases(self) -> list[Case]:
        """The scans that can be used."""
        return [one.case for one in self.scans]

    @property
    def problems(self) -> list[str]:
        """A sentence per bad file."""
        return [*self.table.problems, *(sentence for one in self.scans for sentence in one.problems)]

    @property
    def other_problems(self) -> list[str]:
        """Those that no line of ``understood`` says."""
        shown = self.table.problems if self.understood() else []
        return [sentence for sentence in self.problems if sentence not in shown]

    @property
    def questions(self) -> list[str]:
        """What somebody has to say before a training: whether labels are finished, a sentence per structure."""
        return [
            f"{row.id}: {name} seems {reading.state} ({reading.why})"
            for row in self.table.unsure
            for name, reading in row.unsure.items()
        ]

    @cached_property
    def oddities(self) -> list[str]:
        """What deserves a second look, and what settles it."""
        return [*oddities(self.scans), *self._split_oddities()]

    def _split_oddities(self) -> list[str]:
        """What a training would say of the split file beside the scans, if one lies there."""
        path = split_beside(self.folder)
        if path is None:
            return []
        try:
            split = read_whole_split(path, self.cases, dataset=self.layout)
        except MixsegError as error:
            return [str(error)]
        return [sentence] if (sentence := unnamed(path, split, self.cases)) else []

    def summary(self) -> list[Row]:
        """(what, answer) lines about the whole folder."""
        return tables.summary(self.table, self.scans, len(self.problems))

    def understood(self) -> list[Row]:
        """A line per scan with its files, how they were drawn and why that is thought; nothing where all is fixed."""
        return tables.understood(self.table)

    def class_table(self) -> list[Row]:
        """How often each class occurs, the head first: in how many scans, and its share of the labelled voxels."""
        return tables.classes(self.scans)

    def scan_table(self) -> list[Row]:
        """A line per scan, the head first."""
        return tables.scans(self.scans)


def inspect(
    folder: Path, *, dataset: str | None = None, flags: LabelFlags | None = None, previews: int = 12
) -> Inspection:
    """Read every file of ``folder`` and say what is there; bad files are reported, all of them.

    Args:
        folder: Scans in any of the known layouts.
        dataset: The layout; recognised if not given.
        flags: What the user says about label ids.
        previews: How many scans to keep a slice of.
    """
    table = read_table(folder, dataset, flags)
    cases = table.cases
    shown = set(sample(cases, previews))
    scans: dict[int, ScanReport] = {}
    # Decompressing, most of the work, runs outside the interpreter lock: threads are enough.
    threads = min(MOST_THREADS, cores())
    with ThreadPoolExecutor(threads) as pool, Progress("inspecting", total=len(cases)) as bar:
        jobs = {pool.submit(inspect_scan, case, preview=index in shown): index for index, case in enumerate(cases)}
        try:
            for job in as_completed(jobs):
                scans[jobs[job]] = job.result()
                bar.step(cases[jobs[job]].id)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    return Inspection(table, tuple(scans[index] for index in range(len(cases))))


def sample(cases: Sequence[Case], count: int) -> list[int]:
    """Indices of scans to show: evenly spread, every way of being supervised among them."""
    groups: dict[str, list[int]] = {}
    for index, case in enumerate(cases):
        groups.setdefault(tables.kind_in_words(case), []).append(index)
    chosen: list[int] = []
    left = min(count, len(cases))
    # The smallest group first: what it cannot fill goes to the others.
    for number, group in enumerate(sorted(groups.values(), key=len)):
        take = min(len(group), -(-left // (len(groups) - number)))
        chosen += [group[position * len(group) // take] for position in range(take)]
        left -= take
    return sorted(chosen)
