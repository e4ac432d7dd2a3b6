"""The few slices that a report shows of a run: its worst and best scans, and some that every run of a split keeps.

Of a scan it is planes through its structure, and of a volume many of its slices side by side. They are written where
the scans are, in examples.npz, on a bare node too, and read where the report is made, without unpickling.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from mixseg.core import archives
from mixseg.core.errors import MixsegError
from mixseg.core.files import writing_arrays
from mixseg.core.text_files import parse_json
from mixseg.core.types import IGNORE, Bytes
from mixseg.evaluation.scores import Row

if TYPE_CHECKING:  # reading them needs no torch
    from mixseg.data.scan import Scan
    from mixseg.inference.predictor import Maps

Rank = Literal["worst", "best", "common"]

EACH = 3
"""How many of the worst scans are kept, of the best, and of those that no score chose."""
CHECKPOINT = "last"
"""The checkpoint whose labels are shown."""
SAID = ("case", "part", "rank", "dsc")
"""What is written about an example beside its pictures."""
LAID_OUT, TILED = ("indices", "columns", "pixel"), ("image", "truth", "answer")
"""What is written about a montage, and its pictures."""
LONGEST_SIDE = 256
"""Larger planes are thinned out: the examples of a run stay below 2 MB."""
TILES, COLUMNS = 10, 5
MARGIN = 0.15
"""Of what is marked, kept round it."""
TILE_SIDE = 96
"""Pixels of a tile: larger ones are thinned out."""


class Choice(NamedTuple):
    """A scan to show."""

    part: str
    case: str
    rank: Rank
    dsc: float


@dataclass(frozen=True)
class Plane:
    """A cut through a scan.

    Attributes:
        axis: The array axis that it is perpendicular to.
        index: Where on that axis.
        step: Every how many-th voxel of the plane is kept.
        upright: Whether its second axis (feet to head in most volumes) points upwards in the picture.
        why: What is to be seen there.
        pixel: Width and height of a pixel in mm, or in any unit where the voxel size is unknown.
    """

    axis: int
    index: int
    step: int
    upright: bool
    why: str
    pixel: tuple[float, float] = (1.0, 1.0)

    def of(self, volume: Bytes) -> Bytes:
        """The plane of ``(S1, S2, S3)`` as a picture: its first axis to the right, its second downwards or upwards."""
        picture = np.moveaxis(volume, self.axis, 0)[self.index, :: self.step, :: self.step].T
        return np.ascontiguousarray(picture[::-1] if self.upright else picture)


@dataclass(frozen=True)
class Montage:
    """Pictures of equal size, each made of tiles.

    Attributes:
        indices: The slices along the last axis, row by row.
        columns: Tiles in a row.
        pixel: Width and height of a pixel in mm.
        image: Grey values 0 to 255, of the first channel.
        truth: Class indices or IGNORE.
        answer: Class indices that the method answers.
    """

    indices: tuple[int, ...]
    columns: int
    pixel: tuple[float, float]
    image: Bytes = field(repr=False)
    truth: Bytes = field(repr=False)
    answer: Bytes = field(repr=False)

    @property
    def tile(self) -> tuple[int, int]:
        """Height and width of a tile in pixels."""
        rows = math.ceil(len(self.indices) / self.columns)
        return self.image.shape[0] // rows, self.image.shape[1] // self.columns


@dataclass(frozen=True)
class Example:
    """One plane of one scan, as pictures of equal size.

    Attributes:
        case: Id of the scan.
        part: "val" or "test".
        rank: Whether it is one of the worst, of the best, or of those that all runs on the same scans have in common.
        dsc: Of the method's answer, the mean over classes.
        plane: Which one.
        image: Grey values 0 to 255, of the first channel.
        truth: Class indices or IGNORE.
        labels: Class indices of each output, the answer first.
        entropy: Of the answer: 0 is sure, 255 is all classes alike.
        foreground: Probability that the answer gives to anything but background, 255 is 1; of common scans alone.
        montage: Of a volume, many of its slices; with the first of its planes alone.
    """

    case: str
    part: str
    rank: Rank
    dsc: float
    plane: Plane
    image: Bytes = field(repr=False)
    truth: Bytes = field(repr=False)
    labels: Mapping[str, Bytes] = field(repr=False)
    entropy: Bytes = field(repr=False)
    foreground: Bytes | None = field(default=None, repr=False)
    montage: Montage | None = None


def planes(
    truth: Bytes, answer: Bytes, *, dims: int, rank: Rank, spacing: tuple[float, ...] | None = None
) -> list[Plane]:
    """Where to look at a scan: the slice with most of the structure and, of a bad scan, the one with most errors.

    A volume is cut in three planes through the structure's centre.
    """
    inside = (truth > 0) & (truth != IGNORE)
    if not inside.any():
        inside = answer > 0
    step = max(1, math.ceil(max(truth.shape[3 - dims :]) / LONGEST_SIDE))
    sides = spacing or (1.0, 1.0, 1.0)

    def plane(axis: int, index: int, why: str) -> Plane:
        width, height = (side for of, side in enumerate(sides) if of != axis)
        return Plane(axis, index, step, dims == 3 and axis != 2, why, (width, height))

    if dims == 3:
        places = np.argwhere(inside)
        centre = np.median(places, axis=0) if len(places) else (np.array(truth.shape) - 1) / 2
        return [plane(axis, int(centre[axis]), "through the centre") for axis in (2, 1, 0)]
    found = [plane(0, int(inside.sum(axis=(1, 2)).argmax()), "largest structure")]
    wrong = ((truth != answer) & (truth != IGNORE)).sum(axis=(1, 2))
    if rank == "worst" and wrong.max() > wrong[found[0].index]:
        found.append(plane(0, int(wrong.argmax()), "most errors"))
    return found


def cut(scan: Scan, found: Maps, choice: Choice, *, dims: int) -> list[Example]:
    """The planes to show of a scan; ``found`` holds its label maps and how sure the answer is."""
    assert scan.full is not None, "val and test scans have full masks"
    assert found.entropy is not None, "examples show it"
    grey = scan.image[:, 0] if dims == 2 else scan.image[0]
    answer = next(iter(found.labels.values()))
    foreground = found.foreground if choice.rank == "common" else None
    examples = [
        Example(
            case=choice.case,
            part=choice.part,
            rank=choice.rank,
            dsc=choice.dsc,
            plane=plane,
            image=plane.of(grey),
            truth=plane.of(scan.full),
            labels={name: plane.of(each) for name, each in found.labels.items()},
            entropy=plane.of(found.entropy),
            foreground=None if foreground is None else plane.of(foreground),
        )
        for plane in planes(scan.full, answer, dims=dims, rank=choice.rank, spacing=scan.spacing)
    ]
    if dims == 3 and choice.rank != "common":
        examples[0] = replace(examples[0], montage=lay_out(grey, scan.full, answer, scan.spacing or (1.0, 1.0, 1.0)))
    return examples


def lay_out(grey: Bytes, truth: Bytes, answer: Bytes, spacing: tuple[float, ...]) -> Montage:
    """Slices ``(I, J)`` of volumes ``(I, J, K)``, evenly spread over those in which anything is marked."""
    marked = ((truth > 0) & (truth != IGNORE)) | (answer > 0)
    if not marked.any():
        marked = np.ones(truth.shape, bool)
    across, down, along = (np.flatnonzero(marked.any(axis=others)) for others in ((1, 2), (0, 2), (0, 1)))
    step = max(1, math.ceil(max(np.ptp(across), np.ptp(down)) / TILE_SIDE))
    window = (_widened(across, truth.shape[0], step), _widened(down, truth.shape[1], step))
    places = np.linspace(along[0], along[-1], TILES).round().astype(int)
    indices = tuple(int(place) for place in dict.fromkeys(places.tolist()))
    columns = min(COLUMNS, len(indices))
    tiled = (_tiled(volume, window, indices, columns) for volume in (grey, truth, answer))
    return Montage(indices, columns, (spacing[0], spacing[1]), *tiled)


def _widened(places: NDArray[np.intp], size: int, step: int) -> slice:
    margin = max(2, round(MARGIN * np.ptp(places)))
    return slice(max(0, int(places[0]) - margin), min(size, int(places[-1]) + 1 + margin), step)


def _tiled(volume: Bytes, window: tuple[slice, slice], indices: tuple[int, ...], columns: int) -> Bytes:
    """Tiles with the first axis to the right and the second downwards; those that are missing in a row are 0."""
    tiles = [volume[window][..., index].T for index in indices]
    tiles += [np.zeros_like(tiles[0])] * (-len(tiles) % columns)
    rows = [np.concatenate(tiles[start : start + columns], axis=1) for start in range(0, len(tiles), columns)]
    return np.ascontiguousarray(np.concatenate(rows))


def choose(rows: Iterable[Row], answer: str) -> list[Choice]:
    """The worst and the best scans by mean DSC over classes, the most extreme first; unscored ones are left out."""
    order = sorted((dsc, *key) for key, dsc in _scored(rows, answer).items())
    worst = min(EACH, (len(order) + 1) // 2)
    best = min(EACH, len(order) - worst)
    ranked: list[tuple[Rank, tuple[float, str, str]]] = [
        *(("worst", entry) for entry in order[:worst]),
        *(("best", entry) for entry in order[len(order) - best :][::-1]),
    ]
    return [Choice(part, case, rank, dsc) for rank, (dsc, part, case) in ranked]


def choose_common(rows: Iterable[Row], answer: str) -> list[Choice]:
    """Scans spread evenly over the test set by name (over the validation set where that alone was scored).

    Scores have no say, so every run on the same split keeps the same ones, and runs can be shown side by side.
    """
    scored = _scored(rows, answer)
    part = "test" if any(part == "test" for part, _ in scored) else next((part for part, _ in scored), "")
    cases = sorted(case for of, case in scored if of == part)
    places = dict.fromkeys((2 * number + 1) * len(cases) // (2 * EACH) for number in range(EACH if cases else 0))
    return [Choice(part, cases[place], "common", scored[part, cases[place]]) for place in places]


def _scored(rows: Iterable[Row], answer: str) -> dict[tuple[str, str], float]:
    """The mean DSC over classes of the answer, by part and case."""
    values: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if (row.checkpoint, row.branch) == (CHECKPOINT, answer) and not math.isnan(row.dsc):
            values.setdefault((row.part, row.case), []).append(row.dsc)
    return {key: float(np.mean(scores)) for key, scores in values.items()}


def write_examples(
    path: Path,
    rows: Sequence[Row],
    parts: Mapping[str, Sequence[Scan]],
    predict: Callable[[Scan], Maps],
    *,
    dims: int,
) -> None:
    """Write examples.npz.

    Args:
        path: The file.
        rows: Scores of the run; the first row is of the method's answer.
        parts: The scans that were scored, by part.
        predict: The label maps of each output, the answer first, and how sure the answer is.
        dims: 2 for stacks of slices, 3 for volumes.
    """
    scans = {(part, scan.name): scan for part, of_part in parts.items() for scan in of_part}
    examples: list[Example] = []
    answer = rows[0].branch if rows else ""
    for choice in (*choose(rows, answer), *choose_common(rows, answer)):
        scan = scans[choice.part, choice.case]
        examples += cut(scan, predict(scan), choice, dims=dims)
    arrays: dict[str, NDArray[np.generic]] = {}
    for number, example in enumerate(examples):
        arrays |= {f"{number}/{name}": getattr(example, name) for name in ("image", "truth", "entropy")}
        arrays |= {f"{number}/labels/{branch}": labels for branch, labels in example.labels.items()}
        if example.foreground is not None:
            arrays[f"{number}/foreground"] = example.foreground
        if example.montage is not None:
            arrays |= {f"{number}/montage/{name}": getattr(example.montage, name) for name in TILED}
    about = [
        {
            **{key: getattr(example, key) for key in SAID},
            **{"plane": asdict(example.plane), "outputs": list(example.labels)},
            **({"montage": {key: getattr(example.montage, key) for key in LAID_OUT}} if example.montage else {}),
        }
        for example in examples
    ]
    with writing_arrays(path) as keep:
        keep("about", np.array(json.dumps(about)))
        for name, array in arrays.items():
            keep(name, array)


class _Montage(TypedDict):
    indices: list[int]
    columns: int
    pixel: tuple[float, float]


class _Shown(TypedDict):
    case: str
    part: str
    rank: Rank
    dsc: float
    plane: Plane
    outputs: list[str]


class _About(_Shown, total=False):
    montage: _Montage


def read_examples(path: Path) -> list[Example]:
    """The examples of a run; none if it has no such file."""
    if not path.exists():
        return []
    held = archives.read_arrays(path)
    try:
        about = parse_json(str(held["about"]), path, list[_About])
        return [_example(held, number, each) for number, each in enumerate(about)]
    except (KeyError, ValueError) as error:
        raise MixsegError(
            f"{path} holds no examples ({error}): remove it, or train the run again.", "broken-file", file=path
        ) from error


def _example(held: Mapping[str, NDArray[np.generic]], number: int, about: Mapping[str, Any]) -> Example:
    image = _picture(held, f"{number}/image")
    others = {name: _picture(held, f"{number}/{name}", image.shape) for name in ("truth", "entropy")}
    foreground = f"{number}/foreground"
    return Example(
        **{key: about[key] for key in SAID},
        plane=Plane(**{**about["plane"], "pixel": tuple(about["plane"].get("pixel", (1.0, 1.0)))}),
        image=image,
        truth=others["truth"],
        labels={name: _picture(held, f"{number}/labels/{name}", image.shape) for name in about["outputs"]},
        entropy=others["entropy"],
        foreground=_picture(held, foreground, image.shape) if foreground in held else None,
        montage=_montage(held, number, about["montage"]) if "montage" in about else None,
    )


def _montage(held: Mapping[str, NDArray[np.generic]], number: int, about: Mapping[str, Any]) -> Montage:
    first = _picture(held, f"{number}/montage/{TILED[0]}")
    pictures = {name: _picture(held, f"{number}/montage/{name}", first.shape) for name in TILED}
    montage = Montage(tuple(about["indices"]), about["columns"], tuple(about["pixel"]), **pictures)
    if montage.columns < 1 or not montage.indices or 0 in montage.tile:
        raise ValueError(f"{len(montage.indices)} tiles in rows of {montage.columns}")
    return montage


def _picture(held: Mapping[str, NDArray[np.generic]], name: str, shape: tuple[int, ...] | None = None) -> Bytes:
    """Grey values or class indices of a plane; of ``shape``, if that is given."""
    found = held[name]
    if found.dtype != np.uint8 or found.ndim != 2 or not found.size or shape not in (None, found.shape):
        raise ValueError(f"{name} is {found.dtype} of {found.shape}")
    return found.astype(np.uint8, copy=False)
