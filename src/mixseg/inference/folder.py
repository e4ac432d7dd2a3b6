"""From a run and images to label maps in the geometry of each image."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from mixseg.core.errors import MixsegError, SomeFailedError, lacks_memory
from mixseg.core.files import check_name, sweep, write_json
from mixseg.core.messages import result, say
from mixseg.core.progress import Progress
from mixseg.core.types import CLASSES, Branch, Device
from mixseg.datasets.layouts.images import find_images
from mixseg.inference.answer import Job
from mixseg.inference.predictor import Predictor
from mixseg.inference.sidecar import check_not_overwriting
from mixseg.inference.targets import Target, check_not_among_images, left_over, nesting, targets_of
from mixseg.inference.volumes import check_table, write_volumes
from mixseg.methods.outputs import MEAN_OF_BOTH, output_name
from mixseg.runs.config import Config
from mixseg.runs.folder import RunFolder
from mixseg.runs.model_file import ModelFile, trained_at


def predict_folder(
    run: Path,
    images: Path | Sequence[Path],
    out: Path,
    *,
    checkpoint: Literal["best", "last"] | None = None,
    branch: Branch | None = None,
    format: str | None = None,  # noqa: A002 - the flag
    nested: Sequence[str] | None = None,
    probabilities: bool = False,
    entropy: bool = False,
    window: Literal["gaussian", "uniform"] | None = None,
    overlap: float | None = None,
    overwrite: bool = False,
    device: Device = "auto",
) -> list[Path]:
    """Write a label map for each image of ``images``, with a sidecar that says what made it; returns the maps.

    An image that cannot be read, or is too large, does not keep the others from being predicted: it is told of when
    they are written. What the same command wrote before is replaced. ``volumes.csv`` has the ml of each structure.

    Args:
        run: A run folder, or a model file.
        images: Folders with images in them or in their folders, image files, or a dataset in a known layout.
        out: Gets a label map of the name of each image, on its grid.
        checkpoint: Which weights; None is the best ones if there are any, else the last ones.
        branch: Which of two branches, or the mean of both; None is the method's own answer.
        format: A name in ``FORMATS``; None keeps the file type of each image.
        nested: Structures inside others, "INNER:OUTER", which then include them; none at all for those that the run
            knows; None for one structure a voxel.
        probabilities: Also write ``CASE_probability_CLASS``.
        entropy: Also write ``CASE_entropy``, in nats.
        window: How windows of a volume are weighed, if not as in the run's config.
        overlap: Share of a window that the next one sees too, likewise.
        overwrite: Whether to replace other maps too: of another model or image, or nobody's that we know.
        device: Where to compute.

    Raises:
        MixsegError: A map would be lost, which is told before any work; or images could not be predicted.
    """
    folder = trained_at(run)
    facts, classes = folder.facts, _classes(folder)
    config = covered(folder.config, window=window, overlap=overlap)
    pairs = nesting(nested, facts.get("nested", {}), classes)
    places = [images] if isinstance(images, Path) else images
    targets = targets_of(find_images(places, channels=facts["channels"], without=out, say=say), out, format, pairs)
    check_not_among_images(targets, many=any(place.is_dir() for place in places))
    predictor = Predictor.of(folder, device=device, checkpoint=checkpoint, branch=branch, config=config)
    job = Job(predictor, classes, pairs, probabilities, entropy, trained_on=facts.get("input_ranges", {}))
    if not overwrite:
        check_not_overwriting(targets, job.endings, classes, predictor.origin, pairs)
        check_table(out)
    who = f"{_who(predictor)} of {run} predicts; label maps go to {out}."
    say(who, *_unfinished(folder), *left_over(targets, job.endings))
    for place in dict.fromkeys(target.folder for target in targets):
        sweep(place)
    return _predict_all(job, targets, out)


def _predict_all(job: Job, targets: Sequence[Target], out: Path) -> list[Path]:
    """The maps of all scans that can be predicted, each said to a program as it is done.

    Raises:
        SomeFailedError: There are others.
    """
    written, bad = list[Path](), list[str]()
    with _begins_anew(), Progress("predicting", total=len(targets)) as bar:
        for target in targets:
            try:
                found = job.answer(target, bar)
            except (MixsegError, MemoryError, RuntimeError) as error:
                bad.append(_failed(error, target))
            else:
                if not written:
                    write_json(out / CLASSES, job.classes)  # for whoever scores them
                written += found.write(job, target)
            bar.step(target.case.id)
    if written:
        write_volumes(out)
    check_all_done(bad, len(targets), done="images predicted", again="predict again")
    return written


def check_all_done(bad: Sequence[str], total: int, *, done: str, again: str) -> None:
    """Nothing, if all scans are done.

    Args:
        bad: A sentence about each that failed.
        total: How many there are.
        done: What the others are, in words.
        again: What to do then.

    Raises:
        SomeFailedError: Some are not.
    """
    if bad:
        each, count = "\n".join(bad), f"{total - len(bad)} of {total} {done}"
        raise SomeFailedError(
            f"{each}\n{count}: mend the others, or take them away, and {again}.",
            "some-failed",
            failed=len(bad),
            total=total,
        )


@contextmanager
def _begins_anew() -> Iterator[None]:
    """Inside, an interrupt says that nothing is continued: label maps that are there may be another run's."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise type(error)("stopped; the same command begins again with the first image") from None


def _failed(error: Exception, target: Target) -> str:
    """Why an image has no label map, in a sentence, which a program is told at once.

    What is the fault of neither the image nor the memory is raised.
    """
    if not isinstance(error, MixsegError):
        if not lacks_memory(error):
            raise error
        path = target.case.image[0].path
        error = MixsegError(
            f"{path} takes more memory than there is: check its voxel size, leave --probabilities and --entropy out, "
            "or predict it on a larger machine.",
            "out-of-memory",
            file=path,
        )
    result({"scan": target.case.id, "error": error.described})
    return str(error)


def _classes(run: RunFolder | ModelFile) -> list[str]:
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


def _unfinished(run: RunFolder | ModelFile) -> list[str]:
    """One sentence, or none if it is finished."""
    if run.finished is not None:
        return []
    return [f"{run.path} is not finished: train it to its end, step {run.config.training.steps}, for a better answer."]
