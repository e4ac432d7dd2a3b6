"""Verbs about runs: train, self-train, predict, evaluate, report, demo."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro import conf

from mixseg.cli.flags import (
    AS_FOUND,
    AS_PLANNED,
    PLAINLY,
    Branch,
    Device,
    File,
    Folder,
    Grid,
    Input,
    Labels,
    Layout,
    Output,
    Run,
    Settings,
    Source,
    Training,
)
from mixseg.core.errors import MixsegError

if TYPE_CHECKING:
    from mixseg.core.types import Case
    from mixseg.runs.folder import RunFolder


def train(
    folder: Folder,
    *,
    out: Output,
    method: Annotated[str | None, conf.arg(metavar="NAME", help_behavior_hint="(default: kl-ent)")] = None,
    preset: Annotated[str | None, conf.arg(metavar="NAME", help_behavior_hint="(default: strong)")] = None,
    config: File = None,
    set: Settings = (),  # noqa: A002 - the flag
    source: Source = None,
    dataset: Layout = None,
    labels: Labels = AS_FOUND,
    device: Device = "auto",
    grid: Grid = AS_PLANNED,
    training: Training = PLAINLY,
    nodes: int = 1,
    test: bool = False,
    resume: Annotated[bool, conf.arg(name="continue", aliases=["--c"])] = False,
) -> None:
    """Train on a folder of scans, whatever mixture of full masks, partial labels and nothing it holds.

    $ mixseg train Dataset001_Heart --out run

    is all it takes: it prints a plan (slices or volumes, voxel size, patches, how many at once) and follows it. The
    same command goes on where a run stopped, and with more steps trains a finished one longer.

    $ mixseg train Dataset001_Heart --out again --method proposals --from run

    trains a fresh network on the full masks and on those that a finished run proposes for the other scans.

    $ mixseg train Dataset001_Heart --out quick --preset quick -device cpu --set steps=200 --set batch.full=4

    Args:
        folder: Scans in any known layout.
        out: The run folder.
        method: Of training; docs/concepts/method.md and docs/reference/methods explain them.
        preset: Where all other settings come from; paper is the publication's protocol, quick is for a CPU.
        config: A JSON file with config keys.
        set: One config key, with a value in JSON; may be repeated, and wins over the flags and the file.
        source: For proposals: the finished run that proposes masks, whose settings are taken over where none are given.
        dataset: The layout (nnunet, acdc, la, h5, png, phantom); recognised if not given.
        labels: What the ids of label maps mean.
        device: auto takes the GPU if there is one.
        grid: What is trained on; the rest is planned.
        training: How to train.
        nodes: Machines that train together.
        test: Score the test scans too, when the run is done.
        resume: Accepted and not needed: a run that has begun is always continued.
    """
    from mixseg.cli.settings import parse
    from mixseg.runs.config import read_config
    from mixseg.runs.device import Hardware
    from mixseg.runs.folder import RunFolder
    from mixseg.runs.typed_json import merged
    from mixseg.training.folder import train_folder

    settings = {} if config is None else read_config(config)
    proposer = None if source is None else os.path.relpath(source.resolve(), out.resolve().parent)
    named = {"method": method, "preset": preset, "proposals_from": proposer}
    settings = merged(settings, {key: value for key, value in named.items() if value is not None})
    settings = merged(merged(settings, {**grid.settings(), **training.settings()}), parse(set))
    hardware = Hardware(device, training.devices, nodes)
    before = RunFolder(out).finished
    run = train_folder(folder, out, settings=settings, dataset=dataset, flags=labels, hardware=hardware, test=test)
    _print_scores(run)
    done = f"{out} is finished already; more steps (--set steps=N) train it longer."
    print(done if run.finished == before else f"Finished: {out}")
    print("A page about it:", shlex.join(["mixseg", "report", str(out)]))


def _print_scores(run: RunFolder) -> None:
    """What the last checkpoint of a finished run reached: its answer, and the teacher if there is one."""
    from mixseg.cli.printing import print_table
    from mixseg.evaluation.scores import branch_name, table

    entries = [entry for entry in (run.finished or {})["summary"] if entry["checkpoint"] == "last"]
    branches = [entry["branch"] for entry in entries]  # the answer comes first, and a teacher is called top
    shown = [entry for entry in entries if entry["branch"] in (branches[0], "top")]
    if shown:
        head, *rows = table([{**entry, "branch": branch_name(entry["branch"], branches)} for entry in shown])
        print("\nScores on the training grid:")
        print_table(rows, head)
        print()


def self_train(
    folder: Folder,
    *,
    source: Annotated[Path, conf.arg(name="from", metavar="RUN")],
    out: Output,
    rounds: int = 5,
    set: Settings = (),  # noqa: A002 - the flag
    dataset: Layout = None,
    labels: Labels = AS_FOUND,
    device: Device = "auto",
    training: Training = PLAINLY,
    test: bool = False,
) -> None:
    """Train round after round, each a fresh network on the full masks and on what the round before proposes.

    $ mixseg self-train Dataset001_Heart --from run --rounds 5 --out rounds

    leaves a run folder per round, and a picture of DSC and HD95 against the round. Finished rounds are left as they
    are: the same command goes on where it stopped, and more rounds can be asked for.

    Args:
        folder: Scans in any known layout.
        source: The finished run that proposes the first masks; the rounds have its settings.
        out: The folder for the rounds.
        rounds: How many.
        set: One config key that differs from the first run's, with a value in JSON; may be repeated.
        dataset: The layout (nnunet, acdc, la, h5, png, phantom); recognised if not given.
        labels: What the ids of label maps mean.
        device: auto takes the GPU if there is one.
        training: How to train.
        test: Score the test scans too, in every round.
    """
    from mixseg.cli.printing import print_table
    from mixseg.cli.settings import parse
    from mixseg.report.self_training import write_rounds
    from mixseg.runs.device import Hardware
    from mixseg.runs.typed_json import merged
    from mixseg.training.self_training import self_train as go

    runs = go(
        folder,
        out,
        source=source,
        rounds=rounds,
        settings=merged(training.settings(), parse(set)),
        dataset=dataset,
        flags=labels,
        hardware=Hardware(device, training.devices),
        test=test,
    )
    (head, *rows), page = write_rounds(runs, out)
    if rows[0][0] != "0":
        print(f"{source}, round 0, was not scored on these scans and is left out: train it again with --test first.")
    print_table(rows, head)
    print(f"\nWith a picture: {page}")


def predict(
    run: Run,
    *,
    input: Input,  # noqa: A002 - the flag
    out: Output,
    checkpoint: Annotated[Literal["best", "last"] | None, conf.arg(help_behavior_hint="")] = None,
    branch: Branch = None,
    probabilities: bool = False,
    entropy: bool = False,
    window: Annotated[Literal["gaussian", "uniform"] | None, conf.arg(help_behavior_hint="")] = None,
    overlap: Annotated[float | None, conf.arg(help_behavior_hint="")] = None,
    device: Device = "auto",
) -> None:
    """Write a label map for each image of a folder, with the image's own geometry.

    $ mixseg predict run -i imagesTs -o predictions

    Args:
        run: A run folder.
        input: A folder of images, in any format, or one image.
        out: The folder for the label maps.
        checkpoint: best on the validation scans, or last; if not given, best where there is one.
        branch: Of a method with two: the student, the teacher or the mean of both; if not given, the student.
        probabilities: Write the probability of each class too.
        entropy: Write a map of how unsure the network is too.
        window: Of volumes: let the middle of a window count more than its rim, or all of it alike; if not given, as in
            the run's config.
        overlap: Of volumes: the share of a window that the next one sees too, such as 0.5; likewise.
        device: auto takes the GPU if there is one.
    """
    from mixseg.inference.folder import predict_folder

    predict_folder(
        run,
        input,
        out,
        checkpoint=checkpoint,
        branch=branch,
        probabilities=probabilities,
        entropy=entropy,
        window=window,
        overlap=overlap,
        device=device,
    )
    print(f"Written: {out}")


def evaluate(
    *,
    input: Input,  # noqa: A002 - the flag
    references: Annotated[Path, conf.arg(aliases=["-r"], metavar="FOLDER")],
    out: Output,
    dataset: Layout = None,
    labels: Labels = AS_FOUND,
) -> None:
    """Score label maps against reference masks: DSC, HD95 and ASSD per scan and class, in voxels and mm.

    $ mixseg evaluate -i predictions --references Dataset001_Heart/labelsTs -o scores

    prints a table and writes metrics.csv and nnU-Net's summary.json. A dataset will do as reference as well: its hidden
    or full masks are taken.

    Args:
        input: A folder of label maps named after their scans; or of such folders, one per branch; or a run.
        references: A folder of masks with the same names, or a dataset in any known layout.
        out: The folder for the tables.
        dataset: The layout of a dataset of references; recognised if not given.
        labels: What the ids of the reference masks mean.
    """
    from mixseg.cli.printing import print_list, print_table
    from mixseg.evaluation.evaluate import evaluate as score
    from mixseg.evaluation.pairing import is_run

    if is_run(out):
        raise MixsegError(f"{out} is a run, whose metrics.csv would be lost: choose another -o.")
    found = score(input, _references(references, dataset, labels), flags=labels)
    head, *rows = found.table()
    print_table(rows, head)
    print_list(found.remarks(), "Remarks:")
    print("\nWritten: " + ", ".join(str(path) for path in found.write(out)))


def report(
    runs: Annotated[tuple[Path, ...], conf.Positional, conf.arg(metavar="RUN [RUN ...]")],
    *,
    out: Annotated[Path | None, conf.arg(aliases=["-o"], metavar="FILE", help_behavior_hint="")] = None,
) -> None:
    """Write one self-contained HTML page about a run: curves, tables, best and worst scans, protocol, config.

    $ mixseg report run

    Of several runs it is a comparison: scores, paired tests, curves and the same slices side by side.

    $ mixseg report lower-bound kl-ent --out comparison.html

    Of an experiment it is its table beside the paper's, with all figures that its runs allow.

    $ mixseg report experiments/phantom/main

    Args:
        runs: A run folder, or several; the folder of an experiment, or one that holds several experiments.
        out: The page; if not given, report.html in the folder, or of several runs comparison.html beside the first.
    """
    from mixseg.cli.printing import print_table
    from mixseg.report.comparison import comparison_rows, write_comparison
    from mixseg.report.run_report import write_report

    if not runs:
        raise MixsegError("Name a run folder to report on: the --out of a training.")
    if len(runs) == 1:
        if not _report_experiments(runs[0], out):
            print(f"Written: {write_report(runs[0], out)}")
        return
    head, *rows = comparison_rows(runs)
    print_table(rows, head)
    print(f"\nWritten: {write_comparison(runs, out or runs[0].parent / 'comparison.html')}")


def _report_experiments(folder: Path, out: Path | None) -> bool:
    """Report on the experiment in ``folder``, or on all that it holds; False if there is none."""
    from mixseg.experiments.plan import experiments_in, is_experiment

    found = [folder] if is_experiment(folder) else experiments_in(folder)
    if out is not None and len(found) > 1:
        raise MixsegError(f"{folder} holds {len(found)} experiments, each with its own page: name one, or no --out.")
    if found:
        from mixseg.report.experiment.report import write_experiment
    for experiment in found:
        print(f"Written: {write_experiment(experiment, out)}")
    return bool(found)


def demo(*, out: Output = Path("demo")) -> None:
    """Show the whole way on built-in data, in minutes on a CPU: simulate, train, predict, evaluate, report.

    $ mixseg demo --out demo

    Args:
        out: The folder for everything that is made.
    """
    from mixseg.cli.demo import demo as show
    from mixseg.cli.printing import print_table

    (head, *rows), page = show(out)
    print("\nLeft ventricle of the test patients:")
    print_table(rows, head)
    print(f"\nCompared, with pictures: {page}")


def _references(folder: Path, dataset: str | None, labels: Labels) -> Path | Sequence[Case]:
    """A folder of masks as it is; a dataset as its cases."""
    from mixseg.datasets import formats, load

    if not folder.is_dir():
        raise MixsegError(f"{folder} is no folder: give the folder of reference masks, or a dataset.")
    if dataset is None and any(formats.suffix(path) for path in folder.iterdir()):
        return folder
    return load(folder, dataset, labels, print)
