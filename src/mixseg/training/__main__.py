"""``python -m mixseg.training``: from prepared arrays or an archive, with torch, numpy, scipy and Fabric alone."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mixseg.core.console import exit_code
from mixseg.core.errors import MixsegError
from mixseg.data.prepare.archive import unpack
from mixseg.data.prepare.build import digest
from mixseg.data.prepare.options import PrepareOptions
from mixseg.data.prepare.store import Prepared, tuples
from mixseg.data.supervision import Data
from mixseg.datasets.split import read_split
from mixseg.runs.config import Config, make_config, read_config, refuse_unused
from mixseg.runs.device import Hardware, said_once
from mixseg.runs.log import Phases
from mixseg.runs.provenance import COMMIT_VARIABLE
from mixseg.training.assemble import seen_by
from mixseg.training.pseudo_labels import propose
from mixseg.training.train import train


def main(arguments: Sequence[str] | None = None) -> None:
    """Train configs on what ``mixseg prepare`` made, with nothing installed but torch, numpy, scipy and Fabric."""
    parser = argparse.ArgumentParser(prog="python -m mixseg.training", description=main.__doc__)
    parser.add_argument("configs", nargs="+", type=Path, help="JSON configs; each run is named after its file")
    parser.add_argument("--data", required=True, type=Path, help="archive or folder made by `mixseg prepare`")
    parser.add_argument("--split", required=True, type=Path, help="splits.json with patients of train, val and test")
    parser.add_argument("--out", required=True, type=Path, help="folder for the run folders")
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda", "mps"])
    parser.add_argument("--devices", default=1, type=int, help="processes that train together, one per GPU")
    parser.add_argument("--commit", help="that the sources were copied from, for the record where there is no git")
    parser.add_argument("--test", action="store_true", help="open the test set and score it, once")
    options = parser.parse_args(arguments)
    if options.commit:
        os.environ[COMMIT_VARIABLE] = options.commit  # processes that train together inherit it
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
    refuse_unused(given, config.data.dims)
    prepared = _arrays(options.data, options.out, config.data.prepare_options)
    # What the images were packed with holds for those that the run will predict, too.
    config = config.changed(clip=tuples(prepared.index["options"]["clip"]))
    for sentence in prepared.remarks():
        print(sentence, flush=True)
    split = read_split(options.split, prepared.cases, fold=config.data.fold, dataset=config.data.dataset)
    print(f"{path.stem}: {config.method.name}, {config.training.steps} steps", flush=True)
    proposals = propose(config, prepared, split, out, hardware=hardware)
    # An archive is named after the scans as a rule, a folder of arrays after anything.
    name = "" if options.data.is_dir() else options.data.stem
    return config, replace(seen_by(config, prepared, split, proposals=proposals), folder=name)


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
