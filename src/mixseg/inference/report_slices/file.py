"""examples.npz: written with the scores of a run, read without unpickling."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
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
from mixseg.inference.report_slices.choices import choose, choose_common
from mixseg.inference.report_slices.cuts import Example, Plane, cut
from mixseg.inference.report_slices.montage import Montage

SAID = ("case", "part", "rank", "dsc")
"""What is written about an example beside its pictures."""
LAID_OUT, TILED = ("indices", "columns", "pixel"), ("image", "truth", "answer")
"""What is written about a montage, and its pictures."""


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
