"""Label maps -> how each structure was annotated: as the user says, else as the evidence does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mixseg.core.errors import MixsegError
from mixseg.core.workers import run_all
from mixseg.datasets import formats
from mixseg.datasets.evidence import LabelFacts, judge, measure
from mixseg.datasets.labels import LabelFlags
from mixseg.datasets.layouts.globs import matching, names_of
from mixseg.datasets.layouts.own.labellings import BACKGROUND, UNLABELED, Labelling
from mixseg.datasets.layouts.table import Reading, State

MANY = 24
"""From so many label maps on, processes that measure them are worth their start."""

OUTLINED: Mapping[bool, State] = {True: "finished", False: "absent"}
STROKED: Mapping[bool, State] = {True: "strokes", False: "untouched"}
"""A structure that has voxels, and one that has none."""


@dataclass(frozen=True)
class Read:
    """A label map with what it means.

    Attributes:
        labelling: Its files and names.
        readings: By class; nothing where it has a problem.
        background: Whether voxels are painted as background, so that 0 is unlabeled.
        unlabeled: Whether voxels are painted as unlabeled, so that 0 is the background.
        facts: What was measured.
        problem: Why it cannot be used.
    """

    labelling: Labelling
    readings: Mapping[str, Reading] = field(default_factory=dict)
    background: bool = False
    unlabeled: bool = False
    facts: LabelFacts | None = None
    problem: str = ""


@dataclass(frozen=True)
class Stated:
    """What the user says about how label maps were annotated.

    Attributes:
        flags: On the command line, which win.
        structures: In mixseg.json, by the id of a scan and the name of a class.
        full: Globs there, of finished masks.
        scribbles: Globs there, of strokes.
    """

    flags: LabelFlags
    structures: Mapping[str, Mapping[str, State]] = field(default_factory=dict)
    full: Sequence[str] = ()
    scribbles: Sequence[str] = ()

    def of(self, scan: str, root: Path, each: Labelling, painted: Mapping[str, bool]) -> dict[str, Reading]:
        """What is said of the structures of a label map; nothing of those of which nothing is."""
        names = names_of(scan, each.files, root)
        whole = _whole(names, painted, self.full, self.scribbles, "mixseg.json says so")
        stated = {
            name: Reading(state, "mixseg.json says so")
            for name, state in self.structures.get(scan, {}).items()
            if name in painted
        }
        flagged = _whole(names, painted, self.flags.full, self.flags.scribbles, "a flag says so")
        return {**self._by_ids(painted), **whole, **stated, **flagged}

    def _by_ids(self, painted: Mapping[str, bool]) -> dict[str, Reading]:
        """What flags about ids say of all label maps."""
        states = STROKED if self.flags.foreground_only else OUTLINED if self.flags.background == 0 else None
        if states is None:
            return {}
        return {name: Reading(states[there], "a flag says so") for name, there in painted.items()}


def _whole(
    names: Sequence[str], painted: Mapping[str, bool], full: Sequence[str], scribbles: Sequence[str], why: str
) -> dict[str, Reading]:
    """All structures of a label map that one of two lists of globs names."""
    for globs, states in ((scribbles, STROKED), (full, OUTLINED)):
        glob = matching(globs, names)
        if glob is not None:
            return {name: Reading(states[there], f"{glob}: {why}") for name, there in painted.items()}
    return {}


@dataclass(frozen=True)
class _Job:
    labelling: Labelling
    classes: tuple[str, ...]
    called: Path
    """Its files with their folders, in one name: what words say of one is evidence."""


def read_all(
    maps: Mapping[str, Sequence[Labelling]], classes: tuple[str, ...], by_user: Stated, root: Path
) -> dict[str, list[Read]]:
    """Each label map with its readings.

    Args:
        maps: By scan.
        classes: The background first.
        by_user: What the user has said.
        root: The folder of the scans.
    """
    jobs = [_Job(each, classes, _called(each, root)) for of_one in maps.values() for each in of_one]
    names = [job.labelling.files[0].name for job in jobs]
    workers = 1 if len(jobs) < MANY else None
    measured = run_all(_measured, jobs, names=names, label="reading labels", workers=workers)
    facts = [each for each in measured if isinstance(each, LabelFacts)]
    judged = iter(judge(facts, classes[1:]))
    found = iter(measured)
    result: dict[str, list[Read]] = {}
    for scan, of_one in maps.items():
        result[scan] = []
        for each in of_one:
            one = next(found)
            if isinstance(one, str):
                result[scan].append(Read(each, problem=one))
            else:
                result[scan].append(_read(scan, root, each, one, next(judged), by_user))
    return result


def _called(each: Labelling, root: Path) -> Path:
    parts = dict.fromkeys(part for file in each.files for part in file.relative_to(root).parts)
    return Path(" ".join(parts))


def _measured(job: _Job) -> LabelFacts | str:
    """The facts of one label map, or why there are none: it runs in a process of its own."""
    each, classes = job.labelling, job.classes
    if each.problem:
        return each.problem
    numbers = {name: index for index, name in enumerate((*classes, UNLABELED)) if index} | {
        BACKGROUND: len(classes) + 1
    }
    ids = {0: 0, **{value: numbers[name] for value, name in each.names.items()}}
    try:
        volume = formats.read_labels(replace(each.source, ids=ids))
    except MixsegError as error:
        return str(error)
    there = {number: name for name, number in numbers.items() if name in each.names.values()}
    return measure(volume.array, there, file=job.called, spacing=volume.spacing, status=each.status)


def _read(
    scan: str, root: Path, each: Labelling, facts: LabelFacts, judged: Mapping[str, Reading], by_user: Stated
) -> Read:
    painted = {name: name in facts.structures and facts.structures[name].voxels > 0 for name in judged}
    readings = dict(judged)
    if each.declares:  # a structure that the file does not name was not looked for, as far as anybody can tell
        readings |= {
            name: Reading("untouched", "the file does not name it")
            for name in judged
            if name not in each.names.values()
        }
    readings |= by_user.of(scan, root, each, painted)
    return Read(each, readings, facts.background, facts.unlabeled, facts)
