"""From a run and images to label maps in the geometry of each image."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mixseg.core.errors import MixsegError, SomeFailedError, lacks_memory, listed
from mixseg.core.files import check_name, sweep, write_json
from mixseg.core.messages import say
from mixseg.core.progress import Progress
from mixseg.core.types import CLASSES, ENTROPY, PROBABILITY, Branch, Case, Device
from mixseg.data.prepare.files import check_geometry, read_header, read_native
from mixseg.data.scan import Native, Scan
from mixseg.datasets import formats
from mixseg.datasets.layouts.images import find_images
from mixseg.evaluation.pairing import is_beside
from mixseg.inference.predictor import Predictor
from mixseg.inference.sidecar import (
    Origin,
    Sidecar,
    begin_maps,
    check_not_overwriting,
    file_name,
    hashes,
    map_name,
    volumes_ml,
)
from mixseg.inference.sliding_window import OnProgress
from mixseg.methods.outputs import MEAN_OF_BOTH, output_name
from mixseg.runs.config import Config
from mixseg.runs.folder import RunFolder


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
    overwrite: bool = False,
    device: Device = "auto",
) -> list[Path]:
    """Write a label map for each image of ``images``, with a sidecar that says what made it; returns the maps.

    An image that cannot be read, or is too large, does not keep the others from being predicted: it is told of when
    they are written. What the same command wrote before is replaced.

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
        overwrite: Whether to replace other maps too: of another model or image, or nobody's that we know.
        device: Where to compute.

    Raises:
        MixsegError: A map would be lost, which is told before any work; or images could not be predicted.
    """
    folder = RunFolder(run)
    facts, classes = folder.facts, _classes(folder)
    config = covered(folder.config, window=window, overlap=overlap)
    cases = find_images(images, channels=facts["channels"])
    more = {"probabilities": probabilities, "entropy": entropy}
    endings = _endings(classes, **more)
    _check_not_among_images(cases, images, out)
    predictor = Predictor.of(folder, device=device, checkpoint=checkpoint, branch=branch, config=config)
    if not overwrite:
        check_not_overwriting(cases, out, endings, classes, predictor.origin)
    who = f"{_who(predictor)} of {run} predicts; label maps go to {out}."
    say(who, *_unfinished(folder), *_left_over(cases, out, endings))
    unit = "slices" if config.data.dims == 2 else "windows"
    written, bad, said = list[Path](), list[str](), ""
    sweep(out)
    with _begins_anew(), Progress("predicting", total=len(cases)) as bar:
        for case in cases:
            try:
                scan = predictor.prepare(read_image(case, clip=config.data.clip))
                plan = predictor.memory_plan(scan, outputs=1, probabilities=probabilities or entropy)
                for sentence in (*scan.placed.remarks(), *([plan] if plan != said else [])):
                    bar.say(sentence)
                said = plan
                on_progress = partial(_show_progress, bar, case.id, unit)
                maps = _answered(predictor, scan, classes, on_progress=on_progress, **more)
                about = _about(maps, predictor.origin, case, scan, classes)
            except (MixsegError, MemoryError, RuntimeError) as error:
                bad.append(_told(error, case))
                bar.step(case.id)
                continue
            if not written:
                write_json(out / CLASSES, classes)  # for whoever scores them
            written += _write(maps, about, case, out)
            bar.step(case.id)
    _check_all_predicted(bad, cases)
    return written


def _check_all_predicted(bad: Sequence[str], cases: Sequence[Case]) -> None:
    """Nothing, or the sentences about images that could not be predicted."""
    if bad:
        each, done = "\n".join(bad), f"{len(cases) - len(bad)} of {len(cases)} images predicted"
        raise SomeFailedError(
            f"{each}\n{done}: mend the others, or take them away, and predict again.",
            "some-failed",
            failed=len(bad),
            total=len(cases),
        )


@contextmanager
def _begins_anew() -> Iterator[None]:
    """Inside, an interrupt says that nothing is continued: label maps that are there may be another run's."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise type(error)("stopped; the same command begins again with the first image") from None


def _answered(
    predictor: Predictor, scan: Scan, classes: Sequence[str], *, on_progress: OnProgress, **more: bool
) -> dict[str, NDArray[np.generic]]:
    """The label map of a scan on its own grid, under "", and what ``more`` is asked for, by the ending of its name."""
    answer = predictor.answer
    if not any(more.values()):
        return {"": predictor.on_source(scan, outputs=[answer], on_progress=on_progress)[answer]}
    probs = predictor.probabilities_on_source(scan, outputs=[answer], on_progress=on_progress)[answer]
    return {"": predictor.decided(probs), **_maps(probs, classes, **more)}


def _about(
    maps: Mapping[str, NDArray[np.generic]], origin: Origin, case: Case, scan: Scan, classes: Sequence[str]
) -> Sidecar:
    """What the maps of a scan, by the ending of their names, were made from."""
    volumes = volumes_ml(np.asarray(maps[""], np.uint8), classes, scan.placed)
    return Sidecar(**asdict(origin), image=hashes(case), maps=tuple(map(map_name, maps)), volumes_ml=volumes)


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
    if config.data.dims == 2 and (window is not None or overlap is not None):
        flag = "--window" if window is not None else "--overlap"
        raise MixsegError(
            f"Slices are predicted whole, without windows: leave {flag} out.", "flag-not-applicable", flag=flag
        )
    if window is not None:
        config = config.changed(window=window)
    if overlap is not None:
        if not 0 <= overlap < 1:
            raise MixsegError(
                f"Windows cannot overlap by {overlap:g} of their size: give a share from 0 to below 1.",
                "invalid-value",
                flag="--overlap",
                value=overlap,
            )
        i, j, k = (max(1, round((1 - overlap) * side)) for side in config.data.patch)
        config = config.changed(stride=(i, j, k))
    return config


def _who(predictor: Predictor) -> str:
    """Which output of which weights users get."""
    mean_of = "mean of " if predictor.answer == MEAN_OF_BOTH else ""
    return f"The {mean_of}{output_name(predictor.answer, predictor.method.outputs)} of the {predictor.origin}"


def _unfinished(run: RunFolder) -> list[str]:
    """One sentence, or none if it is finished."""
    if run.finished is not None:
        return []
    return [f"{run.path} is not finished: train it to its end, step {run.config.training.steps}, for a better answer."]


def _left_over(cases: Sequence[Case], out: Path, endings: Sequence[str]) -> list[str]:
    """One sentence about maps of an earlier prediction of the ``cases`` that this one does not replace, if any."""
    names = {case.id for case in cases}
    replaced = {file_name(case, ending) for case in cases for ending in endings}
    found = sorted(path.name for path in out.glob("*.nii.gz") if is_beside(formats.stem(path), names))
    old = [name for name in found if name not in replaced]
    return [f"Left over in {out} from an earlier prediction ({len(old)}): {listed(old)}"] if old else []


def _show_progress(bar: Progress, name: str, unit: str, done: int, count: int) -> None:
    bar.partly(f"{name}, {done} of {count} {unit}", done / count)


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


def read_image(case: Case, *, clip: tuple[float, float] | None) -> Native:
    """The image of a case in 8 bits, without any labels."""
    case = replace(case, full=None, partial=None)
    header = read_header(case)
    check_geometry(case, header)
    return read_native(case, header, clip=clip)


def _check_not_among_images(cases: Sequence[Case], images: Path, out: Path) -> None:
    """Nothing, or one sentence about an image that its label map would replace, or that it would lie beside."""
    for case in cases:
        for source in case.image:
            if source.path.resolve() == (out / file_name(case, "")).resolve():
                raise MixsegError(
                    f"The label map of {source.path} would take its place: choose another -o.",
                    "would-overwrite",
                    file=source.path,
                )
    if images.is_dir() and out.resolve() in {source.path.parent.resolve() for case in cases for source in case.image}:
        raise MixsegError(
            f"Label maps in {out}, beside their images, would be taken for scans: choose another -o.",
            "output-among-images",
            folder=out,
        )


def _write(maps: Mapping[str, NDArray[Any]], about: Sidecar, case: Case, out: Path) -> list[Path]:
    """Write the maps of a scan, by the ending of their names, after what there is to say about them; returns them."""
    begin_maps(case, out, list(maps), about)
    files = {out / file_name(case, ending): values for ending, values in maps.items()}
    for path, values in files.items():
        formats.write(path, values, like=case.image[0])
    return list(files)
