"""Which scans of a run are shown, and examples.npz: written with the scores, read without unpickling."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixseg.core.errors import MixsegError
from mixseg.core.files import writing_arrays
from mixseg.core.types import Bytes
from mixseg.data.scan import Scan
from mixseg.evaluation.scores import Row
from mixseg.inference.maps import Maps
from mixseg.inference.report_slices.cuts import Choice, Example, Montage, Plane, Rank, cut

EACH = 3
"""How many of the worst scans are kept, of the best, and of those that no score chose."""
CHECKPOINT = "last"
"""The checkpoint whose labels are shown."""
SAID = ("case", "part", "rank", "dsc")
"""What is written about an example beside its pictures."""
LAID_OUT, TILED = ("indices", "columns", "pixel"), ("image", "truth", "answer")
"""What is written about a montage, and its pictures."""


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


def read_examples(path: Path) -> list[Example]:
    """The examples of a run; none if it has no such file."""
    if not path.exists():
        return []
    try:
        with np.load(path, allow_pickle=False) as held:
            return [_example(held, number, about) for number, about in enumerate(json.loads(str(held["about"])))]
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError, TypeError) as error:
        raise MixsegError(f"{path} holds no examples ({error}): remove it, or train the run again.") from error


def _example(held: Mapping[str, Bytes], number: int, about: Mapping[str, Any]) -> Example:
    return Example(
        **{key: about[key] for key in SAID},
        plane=Plane(**{**about["plane"], "pixel": tuple(about["plane"].get("pixel", (1.0, 1.0)))}),
        image=held[f"{number}/image"],
        truth=held[f"{number}/truth"],
        labels={name: held[f"{number}/labels/{name}"] for name in about["outputs"]},
        entropy=held[f"{number}/entropy"],
        foreground=held.get(f"{number}/foreground"),
        montage=_montage(held, number, about["montage"]) if "montage" in about else None,
    )


def _montage(held: Mapping[str, Bytes], number: int, about: Mapping[str, Any]) -> Montage:
    pictures = {name: held[f"{number}/montage/{name}"] for name in TILED}
    return Montage(tuple(about["indices"]), about["columns"], tuple(about["pixel"]), **pictures)
