"""From a folder of files to a trained run, with its predictions in the geometry of the images."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mixseg.core import archives
from mixseg.core.files import replacing_folder
from mixseg.core.messages import say
from mixseg.core.progress import Progress
from mixseg.core.types import Case, Labels
from mixseg.data.prepare.build import digest
from mixseg.data.prepare.files import prepare, read_header, some_images
from mixseg.data.prepare.store import Prepared
from mixseg.data.resample import to_source
from mixseg.data.scan import Header, Scan
from mixseg.data.supervision import Data
from mixseg.datasets import formats, load, recognise
from mixseg.datasets.contents import shows_foreground
from mixseg.datasets.folds import make_fold
from mixseg.datasets.labels import LabelFlags
from mixseg.datasets.nesting import nested
from mixseg.datasets.split import (
    Split,
    make_split,
    read_whole_split,
    split_beside,
    unnamed,
    with_test_part,
)
from mixseg.evaluation.evaluate import evaluate
from mixseg.inference.predictor import Predictor
from mixseg.runs.config import Config
from mixseg.runs.device import Hardware, on_rank_zero_only
from mixseg.runs.folder import RunFolder
from mixseg.runs.log import Phases
from mixseg.training.assemble import assemble
from mixseg.training.plan.settings import choose_dims, planned
from mixseg.training.train import Trained, train_run

SEEN_AS = {
    "full": "fully annotated",
    "partial": "partly labelled",
    "unlabeled": "without labels",
    "proposed": "with proposed masks",
}
"""What a run is trained on, the strongest first: of a patient with several scans, that counts."""

VALIDATING = 0.1
"""The share of the patients who validate, where nothing says who."""


class ScanFolder:
    """The scans of a folder, in any known layout: read when they are first asked for.

    Args:
        folder: Where they lie.
        dataset: The layout; recognised if not given.
        flags: What label ids mean, where that is not clear.
        cases: What is there, if it was read before.
    """

    def __init__(
        self,
        folder: Path,
        dataset: str | None = None,
        flags: LabelFlags | None = None,
        cases: Sequence[Case] | None = None,
    ) -> None:
        self.folder, self.dataset, self.flags = folder, dataset or recognise(folder), flags or LabelFlags()
        self.name = folder.resolve().name
        self._cases = cases

    @cached_property
    def cases(self) -> Sequence[Case]:
        """One for each scan."""
        self.flags.check(str(self.folder))
        return load(self.folder, self.dataset, self.flags, say) if self._cases is None else self._cases

    @cached_property
    def headers(self) -> list[Header]:
        """Of the scans, in their order."""
        return [read_header(case) for case in self.cases]

    def complete(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """``settings`` with the layout; a split is named so that the run is continued from any folder."""
        settings = {"dataset": self.dataset, **settings}
        if isinstance(settings.get("split"), str) and settings["split"]:
            settings["split"] = str(Path(settings["split"]).absolute())
        return settings

    def config(self, settings: Mapping[str, Any], run: RunFolder, hardware: Hardware) -> tuple[Config, Sequence[str]]:
        """As planned for the scans."""
        return planned(lambda: self.headers, settings, run, hardware, lambda: some_images(self.cases))

    def split(self, config: Config) -> Split:
        """The one that the config names, or that lies beside the scans, or one that is drawn."""
        return find_split(self.folder, self.cases, config)

    def prepare(self, config: Config, out: Path) -> Prepared:
        """The arrays of the training grid of ``config``, beside the run ``out``: one store for all runs there."""
        options = config.data.prepare_options
        store = out.parent / ".prepared" / f"{self.name}-{digest(str(self.folder.resolve()))[:8]}"
        return prepare(self.cases, store, options, index=f"index-{digest(str(options))[:8]}.json")


def train_folder(
    folder: Path,
    out: Path,
    *,
    settings: Mapping[str, Any] | None = None,
    dataset: str | None = None,
    flags: LabelFlags | None = None,
    hardware: Hardware | None = None,
    test: bool = False,
    cases: Sequence[Case] | None = None,
) -> RunFolder:
    """Train on the scans of ``folder`` and leave a finished run in ``out``, predictions as files included.

    Args:
        folder: Scans in any known layout.
        out: The run folder; the prepared arrays lie beside it and serve further runs.
        settings: Config keys, as in JSON, in groups or without. A run from proposals has the others from the run that
            proposes.
        dataset: The layout; recognised if not given.
        flags: What label ids mean, where that is not clear.
        hardware: Where to compute.
        test: Score the test scans too.
        cases: What the folder holds, if it was read before.
    """
    phases, hardware, run = Phases(), hardware or Hardware(), RunFolder(out)
    run.check_not_foreign()  # before the scans are looked at
    source = ScanFolder(folder, dataset, flags, cases)
    found = assemble(source, settings or {}, run, hardware=hardware, test=test)
    with on_rank_zero_only(hardware):
        say(who_trains(found.data, found.split, source.cases))
    phases.end("data")
    train_on_files(run, found.config, found.data, source.cases, hardware=hardware, test=test, phases=phases)
    return run


def train_on_files(
    run: RunFolder,
    config: Config,
    data: Data,
    cases: Sequence[Case],
    *,
    hardware: Hardware,
    test: bool = False,
    phases: Phases | None = None,
) -> None:
    """Train ``run`` on what was made of the files of ``cases``, and leave its predictions as files: see ``train_run``.

    Raises:
        MixsegError: The folder of the run holds another one, or another process is writing it.
    """
    data = replace(data, nested=nested(cases))
    trained = train_run(run, config, data, hardware=hardware, test=test, phases=phases)
    scored_test = bool(run.finished and run.finished["test"])
    scans = (*data.val, *(data.open_test() if scored_test else ()))
    if trained or not _written(run, scored=bool(_scorable(run, scans, cases))):
        write_predictions(run, scans, cases, trained or hardware)


def find_split(folder: Path, cases: Sequence[Case], config: Config) -> Split:
    """The split that the config names, or the one beside the scans, or one drawn patient-wise (the same every time)."""
    path = Path(config.data.split) if config.data.split else split_beside(folder, config.data.fold)
    if path is not None:
        if config.data.fold is not None and not config.data.split:  # nnU-Net's file has no test part: the other one may
            cases = with_test_part(folder, cases, config.data.dataset)
        split = read_whole_split(path, cases, fold=config.data.fold, dataset=config.data.dataset)
        if sentence := unnamed(path, split, cases):
            say(sentence)
        return split
    on_disk = {case.id: case for case in cases}

    def shows(case: Case) -> bool:
        return shows_foreground(on_disk[case.id], config.data.target)

    cases = for_target(cases, config.data.target)
    fold, share = config.data.fold, 0.0 if config.data.validation == "none" else VALIDATING
    split = make_split(cases, val=share, shows=shows) if fold is None else make_fold(cases, fold, shows=shows)
    say(_split_origin({case.split for case in cases}, fold, share))
    return split


def for_target(cases: Sequence[Case], target: Sequence[str]) -> list[Case]:
    """``cases`` as one sees them who segments ``target`` alone: a scan that was searched for these can judge."""
    return [replace(case, classes=(case.classes[0], *target)) if target else case for case in cases]


def _split_origin(laid_out: Set[str], fold: int | None, share: float) -> str:
    """A sentence: where a split comes from that no file holds; ``laid_out`` are the parts that the layout tells."""
    if fold is None and not share and "val" not in laid_out:
        return "No split beside the scans, and no patient is kept to validate on (validation=none)."
    given = " and ".join(part for part in ("val", "test") if part in laid_out)
    if not given:
        return (
            "No split beside the scans: one is drawn patient-wise (name your own with --set split=FILE, or let "
            "mixseg inspect --write-split make one)."
        )
    known = f"No split file beside the scans, but their folder says who is {given}"
    if fold is None and "val" in laid_out:
        return f"{known}: that is kept (name another split with --set split=FILE)."
    left = "; its val patients are in no fold and not used" if "val" in laid_out else ""
    return f"{known}: who validates is drawn patient-wise from the others{left} (name a split with --set split=FILE)."


def who_trains(data: Data, split: Split, cases: Sequence[Case]) -> str:
    """A sentence: how many patients the run learns from, by the labels that it sees of them, and how many judge it."""
    patient_of = {case.id: case.patient for case in cases}
    seen_as: dict[str, str] = {}
    for kind, words in SEEN_AS.items():
        for id_ in data.protocol.get(kind, ()):
            seen_as.setdefault(patient_of[id_], words)
    counts = [f"{number} {words}" for words, number in Counter(seen_as.values()).items()]
    counts += [f"{unused} not used"] if (unused := len(set(split.train) - set(seen_as))) else []
    val = {patient_of[id_] for id_ in data.protocol["val"]}
    test = set(data.protocol["test patients"]) - set(data.protocol.get("unscored", ()))
    return f"Patients to train on: {', '.join(counts)}; to validate on: {len(val)}; to test on: {len(test)}."


def _written(run: RunFolder, *, scored: bool) -> bool:
    """Whether the label maps are there as files, and ``scored`` where they can be: a kill may have come in between."""
    return (run.path / "predictions").is_dir() and (not scored or (run.path / "native").is_dir())


def _scorable(run: RunFolder, scans: Sequence[Scan], cases: Sequence[Case]) -> list[Case]:
    """Those that can be scored by their own files; with a target, these have other classes."""
    by_id = {case.id: case for case in cases}
    found = [] if run.config.data.target else [by_id[scan.name] for scan in scans]
    return [case for case in found if case.full is not None]


def write_predictions(
    run: RunFolder, scans: Sequence[Scan], cases: Sequence[Case], weights: Trained | Hardware
) -> None:
    """What the run answers for ``scans``, as ``predictions/<checkpoint>/<branch>/CASE.nii.gz`` on the image's grid.

    They are scored there too, in voxels and in mm: ``native/metrics.csv`` and ``native/summary*.json``. ``weights`` are
    in memory, or where those in the run folder are to compute.
    """
    by_id = {case.id: case for case in cases}
    for name in ("native", "predictions"):
        shutil.rmtree(run.path / name, ignore_errors=True)  # of a shorter training, perhaps of more scans
    # A folder is there when all of it is: a run that is killed on the way writes it anew when it is called again.
    with replacing_folder(run.path / "predictions", marker="") as out:
        for checkpoint, id_, maps in _on_source(run, scans, weights):
            for branch, labels in maps.items():
                formats.write(out / checkpoint / branch / f"{id_}.nii.gz", labels, like=by_id[id_].image[0])
    if scorable := _scorable(run, scans, cases):
        with replacing_folder(run.path / "native", marker="") as out:
            evaluate(run.path / "predictions", scorable).write(out)


def _on_source(
    run: RunFolder, scans: Sequence[Scan], weights: Trained | Hardware
) -> Iterator[tuple[str, str, dict[str, Labels]]]:
    """Checkpoint, scan and label maps by output: as ``mixseg predict`` would write them.

    Those on the training grid are kept in the run. A scan that was resampled comes back by its probabilities, which
    are not: it is predicted once more, where there still are weights to do it with.
    """
    with archives.opened(run.path / "predictions.npz") as kept:
        outputs: dict[str, list[str]] = {}
        for checkpoint, output in dict.fromkeys(tuple(name.split("/", 2)[:2]) for name in archives.array_names(kept)):
            outputs.setdefault(checkpoint, []).append(output)
        with Progress("writing predictions", total=len(outputs) * len(scans), silent=not scans) as bar:
            for checkpoint, names in outputs.items():
                predictor = _predictor(run, checkpoint, weights)
                for scan in scans:
                    if predictor and predictor.comes_back_by_probabilities(scan.placed, names):
                        maps = predictor.on_source(scan)
                    else:
                        held = {name: archives.array_of(kept, f"{checkpoint}/{name}/{scan.name}") for name in names}
                        maps = {name: to_source(each.astype(np.uint8), scan.placed) for name, each in held.items()}
                    yield checkpoint, scan.name, maps
                    bar.step(scan.name)


def _predictor(run: RunFolder, checkpoint: str, weights: Trained | Hardware) -> Predictor | None:
    """With the weights of a checkpoint; None if they are not there any more."""
    if isinstance(weights, Trained):
        return weights.of(checkpoint)
    there = (run.path / f"{checkpoint}.pt").exists()
    return Predictor.of(run, device=weights.device, checkpoint=checkpoint) if there else None


def sensible_dims(cases: Sequence[Case]) -> int:
    """3 for scans with many slices that are about as far apart as pixels are, else 2."""
    return choose_dims([read_header(case) for case in cases])[0]
