"""One run: train a config on arrays, predict, evaluate, write the run folder.

Imports torch, numpy, scipy and Fabric alone, so that a bare GPU node can do it:
``python -m mixseg.run CONFIG.json --data ARCHIVE --split FILE --out DIR``.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric

from mixseg.checkpoint import State, Weights, Writer
from mixseg.config import Config, make_config, read_config, refuse_unused
from mixseg.data.augment import AUGMENTATIONS
from mixseg.data.batches import Feed
from mixseg.data.build import digest
from mixseg.data.crop import uncut
from mixseg.data.options import PrepareOptions
from mixseg.data.pack import unpack
from mixseg.data.prepared import Prepared, tuples
from mixseg.data.scan import Scan
from mixseg.data.split import NO_TEST, Split, read_split
from mixseg.data.views import see
from mixseg.engine import fetch_compiler, fit
from mixseg.errors import MixsegError
from mixseg.examples import CHECKPOINT, write_examples
from mixseg.exits import exit_code
from mixseg.files import write_json, writing_arrays
from mixseg.folder import RunFolder, environment
from mixseg.hardware import Hardware, accelerator_of, disband, lead, make_fabric, said_once, settle_precision
from mixseg.logbook import read_log
from mixseg.model import build
from mixseg.phases import Phases
from mixseg.predictor import Predictor
from mixseg.progress import Progress, track
from mixseg.proposals import FILE as PROPOSALS
from mixseg.proposals import Proposals, check_source, find_source, kept, origin_of, write_proposals
from mixseg.scores import Row, score_case, summarise, write_metrics
from mixseg.signals import terminable
from mixseg.training_data import (
    Data,
    check_classes,
    prepare_options,
    remarks,
    scan_of,
    settle_batch,
    settle_largest,
)
from mixseg.validation import Look


def train(
    config: Config,
    data: Data,
    out: Path,
    *,
    hardware: Hardware | None = None,
    test: bool = False,
    phases: Phases | None = None,
) -> RunFolder:
    """Train, or go on with, the run in ``out``; then predict and score the validation scans (and the test scans).

    Does nothing if the run is finished. Several processes may call it together (see Hardware): the first one writes and
    returns, the others are there for the training alone and end with it. ``phases`` counts what went before too.
    """
    folder, phases = RunFolder(out), phases or Phases()
    folder.refuse_foreign()
    check_classes(data)
    # Patients or masks that are missing are told now, before hours are spent.
    if test and not data.open_test():
        raise MixsegError(NO_TEST)
    config = replace(config, batch=settle_batch(config.batch, data), largest=settle_largest(config.largest, data))
    hardware = hardware or Hardware()
    precision = settle_precision(config.precision, hardware.device, dims=config.dims)
    if config.compile and accelerator_of(hardware.device) == "cuda":
        fetch_compiler()
    fabric = make_fabric(hardware, precision)
    with ExitStack() as held:
        held.callback(disband)

        def begin() -> bool:
            """Take the folder; False if there is nothing left to do in it."""
            held.enter_context(folder.locked())
            facts = environment(fabric.device, data.hash) | {"precision": precision} | _facts(data)
            folder.refuse_another(config, facts)
            done = folder.finished
            if done and (done["test"] or not test) and config == folder.config:
                return False
            folder.begin(config, facts)
            if data.proposals:
                write_proposals(folder.path / PROPOSALS, data.proposals)
            return True

        state = None
        begun, writer = lead(fabric, begin), held.enter_context(Writer())
        if begun:
            if (told := remarks(config, data)) and fabric.is_global_zero:
                print(*told, sep="\n", flush=True)
            state = _fit(config, data, folder, fabric, phases, writer)
        _let_go(fabric)
        if state is not None:
            held.enter_context(terminable())  # so that the last checkpoint is written to its end
            predictor = Predictor(state.method, config, fabric, len(data.classes))
            rows = _assess(predictor, state.weights(), data, folder, test=test)
            phases.end("assess")
            writer.wait()
            phases.end("checkpoints")
            _finish(rows, config, folder, fabric, phases, test=test)
    return folder


def _facts(data: Data) -> dict[str, Any]:
    """What environment.json holds about the scans."""
    facts = {"classes": list(data.classes), "channels": data.channels, "protocol": dict(data.protocol)}
    said = {
        "proposals": dict(data.proposals.origin) if data.proposals else {},
        "plan": list(data.plan),
        "folder": data.folder,
    }
    return facts | {key: value for key, value in said.items() if value}


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
            "steps": config.steps,
            "training_seconds": round(phases.trained, 1),
            "seconds": round(phases.trained + phases.seconds["assess"], 1),
            "phases": phases.entry(),
            "peak_gpu_gib": memory and round(memory, 2),
            "labelled_patches": labelled_patches(read_log(folder.path / "log.jsonl")),
            "test": test,
            "summary": summarise(rows),
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


def propose(
    config: Config, prepared: Prepared, split: Split, out: Path, *, hardware: Hardware | None = None
) -> Proposals | None:
    """The masks that ``config`` asks another run for: its answer for each scan that has no full mask here.

    As that run answers, partial labels or not: in the paper, the class with the highest probability everywhere. A run
    that has begun goes on with the masks it began with. None for a method that takes no proposals.
    """
    source = find_source(config, out)
    if source is None:
        return None
    begun = kept(out, source)
    if begun is not None:
        return begun
    scans = [scan_of(seen) for seen in see(prepared, split, sees="unlabelled", n=config.set, ratio=config.ratio).bare]
    if not scans:
        raise MixsegError(f"All train scans of {prepared.folder} have full masks: there is nothing to propose.")
    check_source(source, config, prepared, split, [scan.name for scan in scans])
    # A process that trains with others comes here before it knows of them, and finds the same masks as they do.
    predictor = Predictor.of(source, device=(hardware or Hardware()).device, checkpoint="last")
    wanted = [predictor.answer]
    masks = {
        scan.name: predictor.maps(scan, outputs=wanted).labels[predictor.answer]
        for scan in track(scans, "proposing masks", total=len(scans))
    }
    return Proposals(masks, origin_of(source))


def _fit(config: Config, data: Data, folder: RunFolder, fabric: Fabric, phases: Phases, writer: Writer) -> State:
    feed = Feed(
        data.train,
        config.batch.counts,
        grid=config.grid,
        seed=config.seed,
        intensity=config.intensity,
        augmentation=AUGMENTATIONS[config.augment],
        device=fabric.device,
        rank=fabric.global_rank,
        world=fabric.world_size,
        compiled=config.compile and fabric.device.type == "cuda",
    )
    method = build(config, channels=data.channels, classes=len(data.classes))
    watched = [*data.train.get("partial", ()), *data.train.get("bare", ())]
    seen, classes = data.train["full"], data.classes
    look = Look(data.val, watched, seen, classes=classes, config=config, device=fabric.device, feed=feed)
    return fit(method, feed, look, config=config, folder=folder.path, fabric=fabric, phases=phases, writer=writer)


def _assess(
    predictor: Predictor, checkpoints: Mapping[str, Weights], data: Data, folder: RunFolder, *, test: bool
) -> list[Row]:
    """Label maps and scores of every output of the checkpoints, on the training grid, in voxels and mm."""
    parts = {"val": data.val, "test": data.open_test() if test else ()}
    scans = [(part, scan) for part, of_part in parts.items() for scan in of_part]
    _say_plan([scan for _, scan in scans], predictor)
    bar = Progress("scoring", total=len(scans) * len(checkpoints), silent=not scans)
    jobs = []
    with ThreadPoolExecutor() as pool, writing_arrays(folder.path / "predictions.npz") as keep, bar:
        for checkpoint, weights in checkpoints.items():
            predictor.method.load_state_dict(weights)
            for part, scan in scans:
                for branch, labels in predictor.maps(scan).labels.items():
                    keep(f"{checkpoint}/{branch}/{scan.name}", labels)
                    key = {"case": scan.name, "part": part, "branch": branch, "checkpoint": checkpoint}
                    assert scan.full is not None, "val and test scans have full masks"
                    guess, truth = uncut(labels, scan.full, scan.beyond)
                    jobs.append(pool.submit(score_case, key, guess, truth, data.classes, scan.spacing))
                bar.step(scan.name)
        rows = [row for job in jobs for row in job.result()]
    predictor.method.load_state_dict(checkpoints[CHECKPOINT])
    predict = partial(predictor.maps, sureness=True)
    write_examples(folder.path / "examples.npz", rows, parts, predict, dims=predictor.config.dims)
    write_metrics(folder.path / "metrics.csv", rows)
    return rows


def _say_plan(scans: Sequence[Scan], predictor: Predictor) -> None:
    """What predicting the largest of some volumes takes."""
    largest = max(scans, key=lambda scan: scan.image.size, default=None)
    if largest is not None and predictor.config.dims == 3:
        print("Scoring:", predictor.memory_plan(largest, outputs=len(predictor.method.outputs)), flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train configs on what ``mixseg prepare`` made, with nothing installed but torch, numpy, scipy and Fabric."""
    parser = argparse.ArgumentParser(prog="python -m mixseg.run", description=main.__doc__)
    parser.add_argument("configs", nargs="+", type=Path, help="JSON configs; each run is named after its file")
    parser.add_argument("--data", required=True, type=Path, help="archive or folder made by `mixseg prepare`")
    parser.add_argument("--split", required=True, type=Path, help="splits.json with patients of train, val and test")
    parser.add_argument("--out", required=True, type=Path, help="folder for the run folders")
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda", "mps"])
    parser.add_argument("--devices", default=1, type=int, help="processes that train together, one per GPU")
    parser.add_argument("--test", action="store_true", help="open the test set and score it, once")
    options = parser.parse_args(arguments)
    code = exit_code(lambda: _train_all(options))
    if code:
        raise SystemExit(code)


def _train_all(options: argparse.Namespace) -> None:
    """Train each config that the command line names."""
    if options.devices > 1 and len(options.configs) > 1:
        raise MixsegError("Several processes train one config together: start them for one config at a time.")
    for path in options.configs:
        phases = Phases()
        hardware, out = Hardware(options.device, devices=options.devices), options.out / path.stem
        with said_once(hardware):
            config, data = _gather(path, options, out, hardware)
        phases.end("data")
        train(config, data, out, hardware=hardware, test=options.test, phases=phases)


def _gather(path: Path, options: argparse.Namespace, out: Path, hardware: Hardware) -> tuple[Config, Data]:
    """The config in ``path``, and what it trains on."""
    given = read_config(path)
    config = make_config(**given)
    refuse_unused(given, config.dims)
    prepared = _arrays(options.data, options.out, prepare_options(config))
    # What the images were packed with holds for those that the run will predict, too.
    config = replace(config, clip=tuples(prepared.index["options"]["clip"]))
    for sentence in prepared.remarks():
        print(sentence, flush=True)
    split = read_split(options.split, prepared.cases, fold=config.fold, dataset=config.dataset)
    print(f"{path.stem}: {config.method}, {config.steps} steps", flush=True)
    proposals = propose(config, prepared, split, out, hardware=hardware)
    # An archive is named after the scans as a rule, a folder of arrays after anything.
    name = "" if options.data.is_dir() else options.data.stem
    return config, replace(Data.of(prepared, split, config, proposals=proposals), folder=name)


def _arrays(data: Path, out: Path, options: PrepareOptions) -> Prepared:
    """What to train on: a prepared folder as it is, or an archive unpacked under ``out``, once for all of one grid."""
    if not data.is_dir():
        name = f"{data.stem}-{digest(str(data.resolve()), str(options))[:8]}"
        return unpack(data, out / ".prepared" / name, options)
    prepared = Prepared(data)
    for key, made in tuples(prepared.index["options"]).items():
        asked = getattr(options, key)
        # The seed of partial labels is no part of a config, and clip need not be told twice.
        if asked != made and key != "seed" and not (key == "clip" and asked is None):
            raise MixsegError(
                f"{data} was prepared with {key} {made}, and the config asks for {asked}: "
                "change the config, or prepare the scans again."
            )
    return prepared


if __name__ == "__main__":
    main()
