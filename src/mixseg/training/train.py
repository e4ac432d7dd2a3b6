"""One run: train a config on what it sees, score it, write the run folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric

from mixseg.core.errors import MixsegError
from mixseg.core.files import write_json, writing_arrays
from mixseg.core.messages import say
from mixseg.core.progress import Progress
from mixseg.core.signals import terminable
from mixseg.data.augment import AUGMENTATIONS
from mixseg.data.batches import Feed
from mixseg.data.input_check import ranges
from mixseg.data.resample import restore_cropped
from mixseg.data.scan import Scan
from mixseg.data.supervision import Data
from mixseg.datasets.split import NO_TEST
from mixseg.evaluation.scores import Row, score_case, summarise, write_metrics
from mixseg.inference.predictor import Predictor
from mixseg.inference.report_slices import CHECKPOINT, write_examples
from mixseg.runs.build import build, fetch_compiler
from mixseg.runs.checkpoint import State, Weights, Writer
from mixseg.runs.config import Config
from mixseg.runs.device import (
    Hardware,
    accelerator_of,
    destroy_process_group,
    make_fabric,
    on_rank_zero,
    settle_precision,
)
from mixseg.runs.folder import RunFolder, environment
from mixseg.runs.log import OnEntry, Phases, read_log
from mixseg.training.assemble import settle_batch, settle_largest
from mixseg.training.checks import check_classes, remarks
from mixseg.training.loop import fit
from mixseg.training.pseudo_labels import FILE as PROPOSALS
from mixseg.training.pseudo_labels import write_proposals
from mixseg.training.validation import Validation


@dataclass(frozen=True)
class Trained:
    """What a training leaves in memory: what it has just written need not be read again.

    Attributes:
        predictor: With the weights of any of the checkpoints.
        checkpoints: Weights by name.
    """

    predictor: Predictor
    checkpoints: Mapping[str, Weights]

    def of(self, checkpoint: str) -> Predictor:
        """The predictor, with the weights of ``checkpoint`` until another one's are asked for."""
        self.predictor.method.load_state_dict(self.checkpoints[checkpoint])
        return self.predictor


def train(config: Config, data: Data, out: Path, **more: Any) -> RunFolder:  # noqa: ANN401 - see train_run
    """The run in the folder ``out``, trained: see ``train_run``."""
    run = RunFolder(out)
    train_run(run, config, data, **more)
    return run


def train_run(
    run: RunFolder,
    config: Config,
    data: Data,
    *,
    hardware: Hardware | None = None,
    test: bool = False,
    phases: Phases | None = None,
    on_log: OnEntry | None = None,
) -> Trained | None:
    """Train, or go on with, ``run``; then predict and score the validation scans (and the test scans).

    Does nothing if the run is finished, and returns None. Several processes may call it together (see Hardware): the
    first one writes and returns, the others are there for the training alone and end with it. ``phases`` counts what
    went before too.
    """
    phases = phases or Phases()
    run.check_not_foreign()
    check_classes(data)
    # Patients or masks that are missing are told now, before hours are spent.
    if test and not data.open_test():
        raise MixsegError(NO_TEST, "no-test-patients")
    batch, largest = settle_batch(config.training.batch, data), settle_largest(config.inference.largest, data)
    config = config.changed(batch=batch, largest=largest)
    hardware = hardware or Hardware()
    precision = settle_precision(config.runtime.precision, hardware.device, dims=config.data.dims)
    if config.runtime.compile and accelerator_of(hardware.device) == "cuda":
        fetch_compiler()
    fabric = make_fabric(hardware, precision)
    trained = None
    with ExitStack() as held:
        held.callback(destroy_process_group)

        def begin() -> bool:
            """Take the folder; False if there is nothing left to do in it."""
            held.enter_context(run.locked())
            facts = environment(fabric.device, data.hash) | {"precision": precision} | _facts(data)
            run.check_same_run(config, facts)
            done = run.finished
            if done and (done["test"] or not test) and config == run.config:
                return False
            run.begin(config, facts)
            if data.proposals:
                write_proposals(run.path / PROPOSALS, data.proposals)
            return True

        state = None
        begun, writer = on_rank_zero(fabric, begin), held.enter_context(Writer())
        if begun:
            if (sentences := remarks(config, data)) and fabric.is_global_zero:
                say(*sentences)
            state = _fit(config, data, run, fabric, phases, writer, on_log)
        _let_go(fabric)
        if state is not None:
            held.enter_context(terminable())  # so that the last checkpoint is written to its end
            predictor = Predictor(state.method, config, fabric, data.classes, data.channels)
            trained = Trained(predictor, state.weights())
            rows = _assess(trained, data, run, test=test)
            phases.end("assess")
            writer.wait()
            phases.end("checkpoints")
            _finish(rows, config, run, fabric, phases, test=test)
    return trained


def _facts(data: Data) -> dict[str, Any]:
    """What environment.json holds about the scans."""
    facts = {"classes": list(data.classes), "channels": data.channels, "protocol": dict(data.protocol)}
    optional = {
        "input_ranges": ranges([scan for scans in data.train.values() for scan in scans]),
        "proposals": dict(data.proposals.origin) if data.proposals else {},
        "nested": dict(data.nested),
        "plan": list(data.plan),
        "folder": data.folder,
    }
    return facts | {key: value for key, value in optional.items() if value}


def _let_go(fabric: Fabric) -> None:
    """The first process goes on alone: the others end here, when nobody listens to them any more."""
    fabric.barrier()
    if not fabric.is_global_zero:
        raise SystemExit(0)


def _finish(
    rows: Sequence[Row], config: Config, folder: RunFolder, fabric: Fabric, phases: Phases, *, test: bool
) -> None:
    """Write what says that all is there."""
    memory = torch.cuda.max_memory_allocated() / 2**30 if fabric.device.type == "cuda" else None
    write_json(
        folder.path / "finished.json",
        {
            "steps": config.training.steps,
            "training_seconds": round(phases.trained, 1),
            "seconds": round(phases.trained + phases.seconds["assess"], 1),
            "phases": phases.entry(),
            "peak_gpu_gib": memory and round(memory, 2),
            "labelled_patches": labelled_patches(read_log(folder.path / "log.jsonl")),
            "test": test,
            "summary": summarise(rows, intervals=True),
        },
    )


def labelled_patches(log: Sequence[Mapping[str, Any]]) -> float | None:
    """Of the patches of partly labelled volumes, the share that held a label, over the whole log; None in 2D."""
    before, drawn, hits = 0, 0, 0.0
    for entry in log:
        if "labelled" in entry:
            drawn += entry["step"] - before
            hits += entry["labelled"] * (entry["step"] - before)
        before = entry["step"]
    return hits / drawn if drawn else None


def _fit(
    config: Config,
    data: Data,
    folder: RunFolder,
    fabric: Fabric,
    phases: Phases,
    writer: Writer,
    on_log: OnEntry | None = None,
) -> State:
    feed = Feed(
        data.train,
        config.training.batch.counts,
        grid=config.data.grid,
        seed=config.training.seed,
        intensity=config.data.intensity,
        augmentation=AUGMENTATIONS[config.training.augment],
        device=fabric.device,
        rank=fabric.global_rank,
        world=fabric.world_size,
        compiled=config.runtime.compile and fabric.device.type == "cuda",
    )
    method = build(config, channels=data.channels, classes=len(data.classes))
    watched = [*data.train.get("partial", ()), *data.train.get("unlabeled", ())]
    seen, classes = data.train["full"], data.classes
    validation = Validation(data.val, watched, seen, classes=classes, config=config, device=fabric.device, feed=feed)
    return fit(
        method,
        feed,
        validation,
        config=config,
        folder=folder.path,
        fabric=fabric,
        phases=phases,
        writer=writer,
        on_log=on_log,
    )


def _assess(trained: Trained, data: Data, run: RunFolder, *, test: bool) -> list[Row]:
    """Label maps and scores of every output of the checkpoints, on the training grid, in voxels and mm."""
    parts = {"val": data.val, "test": data.open_test() if test else ()}
    scans = [(part, scan) for part, of_part in parts.items() for scan in of_part]
    _say_plan([scan for _, scan in scans], trained.predictor)
    bar = Progress("scoring", total=len(scans) * len(trained.checkpoints), silent=not scans)
    jobs = []
    with ThreadPoolExecutor() as pool, writing_arrays(run.path / "predictions.npz") as keep, bar:
        for checkpoint in trained.checkpoints:
            predictor = trained.of(checkpoint)
            for part, scan in scans:
                for branch, labels in predictor.maps(scan).labels.items():
                    keep(f"{checkpoint}/{branch}/{scan.name}", labels)
                    key = {"case": scan.name, "part": part, "branch": branch, "checkpoint": checkpoint}
                    key["patient"] = scan.case.patient if scan.case else ""
                    assert scan.full is not None, "val and test scans have full masks"
                    guess, truth = restore_cropped(labels, scan.full, scan.cropped)
                    jobs.append(pool.submit(score_case, key, guess, truth, data.classes, scan.spacing))
                bar.step(scan.name)
        rows = [row for job in jobs for row in job.result()]
    predict = partial(trained.of(CHECKPOINT).maps, confidence=True)
    write_examples(run.path / "examples.npz", rows, parts, predict, dims=trained.predictor.config.data.dims)
    write_metrics(run.path / "metrics.csv", rows)
    return rows


def _say_plan(scans: Sequence[Scan], predictor: Predictor) -> None:
    """What predicting the largest of some volumes takes."""
    largest = max(scans, key=lambda scan: scan.image.size, default=None)
    if largest is not None and predictor.config.data.dims == 3:
        say(f"Scoring: {predictor.memory_plan(largest, outputs=len(predictor.method.outputs))}")
