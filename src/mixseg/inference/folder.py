"""From a run and images to label maps in the geometry of each image."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mixseg.core.errors import MixsegError, lacks_memory, listed
from mixseg.core.files import check_name, explained, sweep, write_json
from mixseg.core.progress import Progress
from mixseg.core.types import CLASSES, ENTROPY, PROBABILITY, Branch, Case, Device
from mixseg.data.prepare.build import bare_scan
from mixseg.data.prepare.files import read_header, read_native
from mixseg.data.prepare.options import PrepareOptions
from mixseg.data.prepare.store import PreparedCase
from mixseg.data.scan import Scan
from mixseg.datasets import formats
from mixseg.datasets.layouts.images import find_images
from mixseg.evaluation.pairing import is_beside
from mixseg.evaluation.scores import branch_name
from mixseg.inference.predictor import Predictor, Tell
from mixseg.runs.config import Config
from mixseg.runs.folder import RunFolder

RECORD = "mixseg_predicted.txt"
"""Beside predicted label maps: the names of the files that predictions wrote there, and may overwrite, one a line."""


def predict_folder(
    run: Path,
    images: Path,
    out: Path,
    *,
    checkpoint: Literal["best", "last"] | None = None,
    branch: Branch | None = None,
    probabilities: bool = False,
    entropy: bool = False,
    window: Literal["gaussian", "uniform"] | None = None,
    overlap: float | None = None,
    device: Device = "auto",
) -> list[Path]:
    """Write a label map for each image of ``images``; returns the files.

    An image that cannot be read, or is too large, does not keep the others from being predicted: it is told of when
    they are written.

    Args:
        run: A run folder.
        images: A folder of image files, or one of them, or a dataset in a known layout.
        out: Gets ``CASE.nii.gz``, class indices on the grid of the image.
        checkpoint: Which weights; None is the best ones if there are any, else the last ones.
        branch: Which of two branches, or the mean of both; None is the method's own answer.
        probabilities: Also write ``CASE_probability_CLASS.nii.gz``.
        entropy: Also write ``CASE_entropy.nii.gz``, in nats.
        window: How windows of a volume are weighed, if not as in the run's config.
        overlap: Share of a window that the next one sees too, likewise.
        device: Where to compute.
    """
    folder = RunFolder(run)
    facts, classes = folder.facts, _classes(folder)
    config = covered(folder.config, window=window, overlap=overlap)
    cases = find_images(images, channels=facts["channels"])
    more = {"probabilities": probabilities, "entropy": entropy}
    endings = _endings(classes, **more)
    _refuse_overwriting(cases, out, endings)
    if images.is_dir() and out.resolve() in {source.path.parent.resolve() for case in cases for source in case.image}:
        raise MixsegError(f"Label maps in {out}, beside their images, would be taken for scans: choose another -o.")
    predictor = Predictor.of(folder, device=device, checkpoint=checkpoint, branch=branch, config=config)
    options = replace(config.prepare_options, target=None)
    who = f"{_who(predictor)} of {run} predicts; label maps go to {out}."
    print("\n".join([who, *_unfinished(folder), *_left_over(cases, out, endings)]), flush=True)
    written: list[Path] = []
    bad, said = [], ""
    sweep(out)
    with _begins_anew(), Progress("predicting", total=len(cases)) as bar:
        for case in cases:
            try:
                scan, place = scan_of(case, options, channels=facts["channels"])
                for sentence in place.remarks():
                    bar.say(sentence)
                plan = predictor.memory_plan(scan, outputs=1, probabilities=probabilities or entropy)
                if plan != said:
                    bar.say(plan)
                said = plan
                maps = _answered(predictor, scan, place, classes, tell=partial(_tell, bar, case.id), **more)
            except (MixsegError, MemoryError, RuntimeError) as error:
                bad.append(_told(error, case))
                bar.step(case.id)
                continue
            if not written:
                _claim(out, [CLASSES])
                write_json(out / CLASSES, classes)  # for whoever scores them
            written += _write(maps, case, out)
            bar.step(case.id)
    if bad:
        done = f"{len(cases) - len(bad)} of {len(cases)} images predicted"
        raise MixsegError("\n".join([*bad, f"{done}: mend the others, or take them away, and predict again."]))
    return written


@contextmanager
def _begins_anew() -> Iterator[None]:
    """Inside, an interrupt says that nothing is continued: label maps that are there may be another run's."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise type(error)("stopped; the same command begins again with the first image") from None


def _answered(
    predictor: Predictor, scan: Scan, place: PreparedCase, classes: Sequence[str], *, tell: Tell, **more: bool
) -> dict[str, NDArray[np.generic]]:
    """The label map of a scan on its own grid, under "", and what ``more`` is asked for, by the ending of its name."""
    answer = predictor.answer
    if not any(more.values()):
        return {"": predictor.on_source(scan, place, outputs=[answer], tell=tell)[answer]}
    probs = predictor.probabilities_on_source(scan, place, outputs=[answer], tell=tell)[answer]
    return {"": predictor.decided(probs), **_maps(probs, classes, **more)}


def _told(error: Exception, case: Case) -> str:
    """Why an image has no label map, in a sentence; what is the fault of neither the image nor the memory is raised."""
    if isinstance(error, MixsegError):
        return str(error)
    if lacks_memory(error):
        return (
            f"{case.image[0].path} takes more memory than there is: check its voxel size, leave --probabilities and "
            "--entropy out, or predict it on a larger machine."
        )
    raise error


def _classes(run: RunFolder) -> list[str]:
    """Their names by index, after which files may be called."""
    classes: list[str] = run.facts["classes"]
    for name in classes:
        check_name("class", name, run.path / "environment.json")
    return classes


def covered(config: Config, *, window: Literal["gaussian", "uniform"] | None, overlap: float | None) -> Config:
    """``config`` with other windows for its predictions, where they are given."""
    if config.dims == 2 and (window is not None or overlap is not None):
        flag = "--window" if window is not None else "--overlap"
        raise MixsegError(f"Slices are predicted whole, without windows: leave {flag} out.")
    if window is not None:
        config = replace(config, window=window)
    if overlap is not None:
        if not 0 <= overlap < 1:
            raise MixsegError(f"Windows cannot overlap by {overlap:g} of their size: give a share from 0 to below 1.")
        i, j, k = (max(1, round((1 - overlap) * side)) for side in config.patch)
        config = replace(config, stride=(i, j, k))
    return config


def _who(predictor: Predictor) -> str:
    """Which output of which weights users get."""
    mean_of = "mean of " if predictor.answer == "ensemble" else ""
    return f"The {mean_of}{branch_name(predictor.answer, predictor.method.outputs)} of the {predictor.origin}"


def _unfinished(run: RunFolder) -> list[str]:
    """One sentence, or none if it is finished."""
    if run.finished is not None:
        return []
    return [f"{run.path} is not finished: train it to its end, step {run.config.steps}, for a better answer."]


def _left_over(cases: Sequence[Case], out: Path, endings: Sequence[str]) -> list[str]:
    """One sentence about maps of an earlier prediction of the ``cases`` that this one does not replace, if any."""
    names = {case.id for case in cases}
    replaced = {_file(case, ending) for case in cases for ending in endings}
    found = sorted(path.name for path in out.glob("*.nii.gz") if is_beside(formats.stem(path), names))
    old = [name for name in found if name not in replaced]
    return [f"Left over in {out} from an earlier prediction ({len(old)}): {listed(old)}"] if old else []


def _tell(bar: Progress, name: str, said: str) -> None:
    bar.step(f"{name}, {said}", count=0)


def _file(case: Case, ending: str) -> str:
    return f"{case.id}{ending}.nii.gz"


def _endings(classes: Sequence[str], *, probabilities: bool, entropy: bool) -> list[str]:
    """Those of the names of the files of a scan, that of the label map first."""
    return ["", *(f"{PROBABILITY}{name}" for name in classes if probabilities), *([ENTROPY] if entropy else [])]


def _maps(
    probs: NDArray[np.float32], classes: Sequence[str], *, probabilities: bool, entropy: bool
) -> dict[str, NDArray[Any]]:
    """What else is written of the probabilities ``(classes, I, J, K)``, by the ending of its file's name."""
    maps: dict[str, NDArray[Any]] = {}
    if probabilities:
        maps |= {f"{PROBABILITY}{name}": probs[index] for index, name in enumerate(classes)}
    if entropy:
        safe = np.clip(probs, 1e-12, 1)
        maps[ENTROPY] = -(safe * np.log(safe)).sum(axis=0)
    return maps


def scan_of(case: Case, options: PrepareOptions, *, channels: int) -> tuple[Scan, PreparedCase]:
    """An image file on the training grid, and the way back."""
    if len(case.image) != channels:
        raise MixsegError(
            f"{case.image[0].path} has {len(case.image)} channels, and the run was trained on {channels}: "
            "give the images that it was trained on, CASE_0000, CASE_0001, ... for several channels."
        )
    bare = replace(case, full=None, partial=None)
    return bare_scan(read_header(bare), read_native(bare, clip=options.clip), options)


def _refuse_overwriting(cases: Sequence[Case], out: Path, endings: Sequence[str]) -> None:
    """Nothing, or one sentence about a file that would be lost: an image, or any that no prediction wrote."""
    for case in cases:
        for source in case.image:
            if source.path.resolve() == (out / _file(case, "")).resolve():
                raise MixsegError(f"The label map of {source.path} would take its place: choose another -o.")
    own = _own(out)
    for name in [CLASSES, *(_file(case, ending) for case in cases for ending in endings)]:
        if name not in own and (out / name).exists():
            raise MixsegError(
                f"{out / name} would be overwritten, and mixseg predict did not write it (no {RECORD} names it): "
                "choose another -o."
            )


def _write(maps: Mapping[str, NDArray[Any]], case: Case, out: Path) -> list[Path]:
    """Write the maps of a scan, by the ending of their names; returns the files."""
    files = {_file(case, ending): values for ending, values in maps.items()}
    _claim(out, list(files))
    for name, values in files.items():
        formats.write(out / name, values, like=case.image[0])
    return [out / name for name in files]


def _own(out: Path) -> set[str]:
    """The names of the files in ``out`` that predictions wrote."""
    record = out / RECORD
    return set(record.read_text(encoding="utf-8").splitlines()) if record.is_file() else set()


def _claim(out: Path, names: Sequence[str]) -> None:
    """Record files as ours. Before they are written: what is killed on the way can then be begun again."""
    new = [name for name in names if not (out / name).exists()]  # the others are ours, or they had been refused
    with explained(out / RECORD):
        out.mkdir(parents=True, exist_ok=True)
        with (out / RECORD).open("a", encoding="utf-8") as file:
            file.writelines(f"{name}\n" for name in new)
