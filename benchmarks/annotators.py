"""Labels as strangers leave them: annotators who finish a mask, scribble on it or stop half-way.

``study`` draws the label maps of one folder with the truth about each structure. Nothing here knows how mixseg reads
them. ``own_folders.py`` writes such studies as files; the tests of ``mixseg.datasets.evidence`` take the arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from scipy import ndimage

from bodies import BODIES, grid
from mixseg.datasets.partial_labels import GENERATORS


def disc(width):
    """A round brush."""
    offset = np.arange(width) - (width - 1) / 2
    return np.add.outer(offset**2, offset**2) <= (width / 2) ** 2 + 0.01


def stroke(area, rng, width):
    """A curved stroke between points of a 2D region, painted with a brush, inside the region."""
    inner = ndimage.binary_erosion(area, disc(width))
    points = np.argwhere(inner if inner.any() else area)
    line = np.zeros_like(area)
    corners = points[rng.integers(len(points), size=int(rng.integers(2, 4)))]
    for a, b in pairwise(corners):
        for t in np.linspace(0, 1, 2 * int(np.abs(a - b).max()) + 1):
            line[tuple(np.round(a + (b - a) * t).astype(int))] = True
    return ndimage.binary_dilation(line, disc(width)) & area


def in_slices(region, draw, first=0, every=1):
    """What ``draw`` makes of every n-th slice that the region has."""
    out = np.zeros_like(region)
    for k in np.flatnonzero(region.any((0, 1)))[first::every]:
        out[:, :, k] = draw(region[:, :, k])
    return out


def brush(region, rng, plan):
    """A stroke on every n-th slice (n may be 1) of the study's annotator."""
    return in_slices(region, lambda area: stroke(area, rng, plan.width), plan.first, plan.every)


def one_slice(region, rng, plan):
    """A stroke on one slice."""
    k = rng.choice(np.flatnonzero(region.any((0, 1))))
    out = np.zeros_like(region)
    out[:, :, k] = stroke(region[:, :, k], rng, plan.width)
    return out


def share_of_area(region, rng, plan):
    """40 % of each slice, grown from a point."""

    def grow(area):
        points = np.argwhere(area)
        away = np.linalg.norm(points - points[rng.integers(len(points))], axis=1)
        out = np.zeros_like(area)
        out[tuple(points[np.argsort(away)[: max(1, int(0.4 * len(points)))]].T)] = True
        return out

    return in_slices(region, grow)


def share_of_slices(region, rng, plan):
    """The first 40 % of the slices, outlined in full."""
    found = np.flatnonzero(region.any((0, 1)))
    keep = found[: max(1, int(0.4 * len(found)))] if rng.random() < 0.5 else found[-max(1, int(0.4 * len(found))) :]
    out = np.zeros_like(region)
    out[:, :, keep] = region[:, :, keep]
    return out


def full_slices(region, rng, plan):
    """Every second (or n-th) slice outlined in full."""
    return in_slices(region, lambda area: area, plan.first, max(plan.every, 2))


def blob(region, rng, plan):
    """A ball in the middle of each part, in 3D."""
    depth = ndimage.distance_transform_edt(region)
    return region & (depth > 0.55 * depth.max())


def made_by(name, **options):
    """One of mixseg's own generators, without its background."""

    def draw(region, rng, plan):
        wide = {"width": plan.width} if name.startswith("scribbles") else {}
        made = GENERATORS[name](region.astype(np.uint8), rng, **(options | wide))
        return made == 1

    return draw


def every(draw):
    """Only on every n-th slice of the plan."""

    def thinned(region, rng, plan):
        out = np.zeros_like(region)
        found = np.flatnonzero(region.any((0, 1)))[plan.first :: plan.every]
        out[:, :, found] = draw(region, rng, plan)[:, :, found]
        return out

    return thinned


HABITS: dict[str, Callable] = {
    "brush": brush,
    "one slice": one_slice,
    "40 % of the area": share_of_area,
    "40 % of the slices": share_of_slices,
    "full slices": full_slices,
    "blob": blob,
    "scribbles": every(made_by("scribbles")),
    "scribbles-border": every(made_by("scribbles-border")),
    "points": every(made_by("points", radius=2)),
    "erosion-3x3": made_by("erosion-3x3"),
    "erosion-10x10": made_by("erosion-10x10"),
}


@dataclass
class Plan:
    """How one annotator works on one file."""

    habit: str
    width: int
    every: int
    first: int


@dataclass
class Made:
    """One label map with the truth about it.

    Attributes:
        array: Ids.
        spacing: In mm.
        names: By id.
        truth: By the name of a structure; None where either answer is right.
        habits: How each structure was drawn, for the tables.
        name: Of the file.
    """

    array: np.ndarray
    spacing: tuple[float, float, float]
    names: dict[int, str]
    truth: dict[str, str | None]
    habits: dict[str, str] = field(default_factory=dict)
    name: str = "label.nii.gz"


def plan(rng, habits=tuple(HABITS)):
    """Of an annotator."""
    often = rng.random() < 0.5
    habit = str(rng.choice(["brush", "scribbles"] if often else list(habits)))
    return Plan(habit, int(rng.integers(1, 7)), int(rng.choice([1, 2, 3, 3, 4, 5])), int(rng.integers(0, 2)))


def truth_of(drawn, region, kind):
    """Where strokes happen to cover more than 60 %, either answer is right."""
    return kind if kind == "finished" or drawn.sum() < 0.6 * region.sum() else None


def annotated(mask, spacing, names, kinds, rng, how, background=False):
    """One label map: each structure "finished", "strokes" or "untouched"."""
    out = np.zeros_like(mask)
    truth, habits = {}, {}
    for value, name in enumerate(names, 1):
        region = mask == value
        kind = kinds[name]
        drawn = np.zeros_like(region)
        if region.any() and kind != "untouched":
            drawn = region if kind == "finished" else HABITS[how.habit](region, rng, how)
        out[drawn] = value
        habits[name] = kind if kind != "strokes" else f"{how.habit} {how.every}"
        truth[name] = truth_of(drawn, region, kind) if drawn.any() else None
    finished = all(kind == "finished" for kind in kinds.values())
    painted = [name for name in names if (out == names.index(name) + 1).any()]
    for value, name in enumerate(names, 1):
        if not (out == value).any():
            mixed = {truth[other] for other in painted}
            truth[name] = "absent" if finished else "untouched" if mixed == {"strokes"} else None
    ids = dict(enumerate(names, 1))
    if background:
        ids[len(names) + 1] = "background"
        for k in range(0, mask.shape[2], how.every):
            out[:, :, k][stroke(mask[:, :, k] == 0, rng, how.width) & (out[:, :, k] == 0)] = len(names) + 1
        truth = {name: "strokes" if state == "finished" else state for name, state in truth.items()}
    return Made(out, spacing, ids, truth, habits)


def composition(rng, names, count):
    """For each file, the kind of each structure."""
    sort = str(rng.choice(["finished", "strokes", "both", "both", "both", "mixed", "mixed", "alone"]))
    kinds = []
    for number in range(1 if sort == "alone" else count):
        if sort in ("finished", "strokes"):
            kind = dict.fromkeys(names, sort)
        elif sort == "alone" or sort == "both":
            finished = rng.random() < 0.5 if number else sort == "both" or rng.random() < 0.5
            kind = dict.fromkeys(names, "finished" if finished else "strokes")
        else:
            kind = {name: str(rng.choice(["finished", "finished", "strokes"])) for name in names}
            if number == 0:
                kind = dict.fromkeys(names, "finished")
        if "strokes" in kind.values() and rng.random() < 0.2:
            kind[str(rng.choice(names))] = "untouched"
        kinds.append(kind)
    return kinds


def study(rng):
    """The label maps of one folder: their kind of body, the truth, the array's axes in any order."""
    body = str(rng.choice(list(BODIES)))
    make, names = BODIES[body]
    voxels = grid(rng)
    axes = rng.permutation(3)
    how = plan(rng)
    files = []
    for number, kinds in enumerate(composition(rng, names, int(rng.integers(2, 8)))):
        how = how if rng.random() < 0.7 else plan(rng)
        mask, spacing = make(rng, voxels)
        made = annotated(
            mask, spacing, names, kinds, rng, how, background=rng.random() < 0.15 and "strokes" in kinds.values()
        )
        made.array = np.ascontiguousarray(made.array.transpose(axes))
        made.spacing = tuple(float(spacing[axis]) for axis in axes)
        made.name = f"scan{number:02}-label.nii.gz"
        files.append(made)
    _forgive(body, names, files)
    return body, names, files


SMALLER = ("blob", "erosion-3x3", "erosion-10x10")
"""Habits that leave a smooth body within the body."""


def _forgive(body, names, files):
    """Where nothing shows that smooth bodies are too small, no finished one and no neighbour, nobody can tell."""
    if body == "heart":
        return
    for name in names:
        if any(made.truth[name] == "finished" for made in files):
            continue
        for made in files:
            habit = made.habits[name].rsplit(" ", 1)[0]
            hidden = habit in SMALLER or (body, habit) == ("tree", "40 % of the slices")
            if hidden and made.truth[name] == "strokes":
                made.truth[name] = None
    for made in files:
        if "strokes" not in made.truth.values():
            made.truth = {name: None if state == "untouched" else state for name, state in made.truth.items()}
