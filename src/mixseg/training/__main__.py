"""``python -m mixseg.training``: from prepared arrays or an archive, with torch, numpy, scipy and Fabric alone."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mixseg.core.console import exit_code
from mixseg.core.errors import MixsegError
from mixseg.core.messages import say
from mixseg.data.intensity import GreyRange
from mixseg.data.prepare.archive import contents, unpack
from mixseg.data.prepare.build import digest
from mixseg.data.prepare.store import Prepared
from mixseg.datasets.split import Split, read_split
from mixseg.runs.config import Config, check_keys_apply, make_config, read_config
from mixseg.runs.device import Hardware, on_rank_zero_only
from mixseg.runs.folder import RunFolder
from mixseg.runs.log import Phases
from mixseg.runs.provenance import COMMIT_VARIABLE
from mixseg.training.assemble import assemble
from mixseg.training.train import train_run


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
        raise MixsegError(
            "Several processes train one config together: start them for one config at a time.", "several-configs"
        )
    for path in options.configs:
        phases, hardware = Phases(), Hardware(options.device, devices=options.devices)
        settings, run = read_config(path), RunFolder(options.out / path.stem)
        source = Packed(options.data, options.split)
        found = assemble(source, settings, run, hardware=hardware, test=options.test)
        with on_rank_zero_only(hardware):
            say(f"{path.stem}: {found.config.method.name}, {found.config.training.steps} steps")
        phases.end("data")
        train_run(run, found.config, found.data, hardware=hardware, test=options.test, phases=phases)


class Packed:
    """Scans in an archive or in a prepared folder, on a machine that need not read image files."""

    def __init__(self, data: Path, split: Path) -> None:
        self.data, self.parts = data, split
        # An archive is named after the scans as a rule, a folder of arrays after anything.
        self.name = "" if data.is_dir() else data.stem
        self.made = Prepared(data) if data.is_dir() else None
        if self.made is not None:
            made = self.made.options
            self.headers = [case.header for case in self.made.cases]
            self.grey = GreyRange(made["clip"], made.get("clip_by", "percentiles"))
        else:
            self.headers, _, self.grey, _ = contents(data)

    def complete(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """``settings`` with what the images were packed with: it holds for those that the run will predict, too."""
        if settings.get("clip") is None and "clip_by" not in settings:
            return {**settings, "clip": self.grey.clip, "clip_by": self.grey.by}
        return dict(settings)

    def config(self, settings: Mapping[str, Any], run: RunFolder, hardware: Hardware) -> tuple[Config, Sequence[str]]:
        """As it is told: plans are made where the files are."""
        config = make_config(**settings)
        check_keys_apply(settings, config.data.dims)
        return config, []

    def split(self, config: Config) -> Split:
        """That of the file."""
        return read_split(self.parts, self.headers, fold=config.data.fold, dataset=config.data.dataset)

    def prepare(self, config: Config, out: Path) -> Prepared:
        """A prepared folder as it is, or an archive unpacked beside ``out``, once for all runs of one grid."""
        options = config.data.prepare_options
        if self.made is None:
            name = f"{self.data.stem}-{digest(str(self.data.resolve()), str(options))[:8]}"
            return unpack(self.data, out.parent / ".prepared" / name, options)
        for key, made in self.made.options.items():
            asked = getattr(options, key)
            if asked != made and key != "seed":  # that of partial labels is no part of a config
                raise MixsegError(
                    f"{self.data} was prepared with {key} {made}, and the config asks for {asked}: "
                    "change the config, or prepare the scans again.",
                    "settings-differ",
                    folder=self.data,
                    key=key,
                    value=asked,
                    expected=made,
                )
        return self.made


if __name__ == "__main__":
    main()
