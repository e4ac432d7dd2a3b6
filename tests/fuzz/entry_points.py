"""What a stranger's file can reach: each reader, each file of a run, of a store, of an archive, and each verb.

An entry is called with a folder of valid files, one of which was damaged. It may refuse it with a ``MixsegError``, or
say what it read, which has to be what was there where the format has a checksum.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from material import call

from mixseg.core.types import Source
from mixseg.data.prepare.archive import unpack
from mixseg.data.prepare.store import Prepared
from mixseg.datasets import check, formats, load
from mixseg.datasets.split import read_split
from mixseg.evaluation.scores import read_metrics
from mixseg.inference.predictor import Predictor
from mixseg.inference.sidecar import Sidecar
from mixseg.report.run_files import RunFiles
from mixseg.runs.build import build
from mixseg.runs.checkpoint import State, load_weights, weights_hash
from mixseg.runs.config import make_config, read_config
from mixseg.runs.folder import RunFolder
from mixseg.training.pseudo_labels import read_proposals

INTERNAL = 1


class FailedVerbError(Exception):
    """A verb ended in a way that it never may."""


class Entry(NamedTuple):
    """A row of the table.

    Attributes:
        needs: The folder of the material that is copied for it.
        files: Those that are damaged, one at a time: patterns below it.
        read: The folder -> what was read, to compare; or None.
        checksum: Whether damage may never go unnoticed.
        weight: How often it is drawn: verbs take a second, readers a millisecond.
    """

    needs: str
    files: tuple[str, ...]
    read: Callable[[Path], object]
    checksum: bool = False
    weight: int = 10


def of(*arrays):
    state = hashlib.blake2b(digest_size=16)
    for array in arrays:
        state.update(f"{array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return state.hexdigest()


def image(folder):
    path = next(path for path in sorted(folder.rglob("a.*")) if formats.suffix(path))
    formats.read_geometry(path)
    formats.read_segments(path)
    formats.segment_names(path)
    volume = formats.read_image(path)
    formats.write(folder / "like.nii.gz", np.zeros(volume.array.shape, np.uint8), like=path)
    formats.write(folder / "like.mha", np.zeros(volume.array.shape, np.uint8), like=path)
    try:
        formats.count_ids(path)
    finally:
        found = of(volume.array, volume.affine)
    return found


def named_arrays(folder):
    path = folder / "a.h5"
    return of(*(formats.read(Source((path,), key=key)).array for key in formats.h5_keys(path)))


def scans(folder):
    found = load(folder)
    return [sentence for case in found for sentence in check(case)] and None


def split(folder):
    return str(read_split(next(folder.glob("split*.json")), load(folder)))


def run(folder):
    files = RunFiles.read(folder)
    _ = files.examples, files.branches, files.answer, files.classes, files.parts, files.warned, files.best
    for example in files.examples:
        for branch in files.branches:
            files.labels_on(example, branch)


def examples(folder):
    return of(*(each for found in RunFiles.read(folder).examples for each in (found.image, found.truth, found.entropy)))


def weights(folder):
    run = RunFolder(folder)
    method = build(run.config, channels=1, classes=4)
    step = load_weights(method, folder / "last.pt")
    return step, weights_hash(method)


def resumed(folder):
    method = build(RunFolder(folder).config, channels=1, classes=4)
    state = State(method, torch.optim.SGD(method.parameters(), lr=0.1))
    try:
        state.resume(folder)
    except ValueError as error:
        if "parameter group" not in str(error):  # of another optimiser, which is the fault of this test
            raise
    return state.step, weights_hash(method)


def predictor(folder):
    return Predictor.of(RunFolder(folder), device="cpu", checkpoint="last") and None


def store(folder):
    prepared = Prepared(folder)
    for case in prepared.cases:
        of(prepared.image(case), prepared.full(case), prepared.partial(case), prepared.cropped(case))
    prepared.remarks()


def archive(folder):
    prepared = unpack(folder / "scans.zip", folder / "out", workers=1)
    return prepared.content


def metrics(folder):
    read_metrics(folder / "metrics.csv")


def config(folder):
    make_config(**read_config(folder / "config.json"))


def proposals(folder):
    return of(*read_proposals(folder / "proposals.npz").masks.values())


def sidecar(folder):
    for path in folder.glob("*.mixseg.json"):
        Sidecar.read(path)


def verb(*words):
    """A verb on the folder: it ends as promised, and prints no traceback."""

    def run_it(folder):
        code, said = call(*(str(word).replace("@", str(folder)) for word in words))
        if code == INTERNAL or "Traceback" in said or code not in (0, 2, 3, 4):
            raise FailedVerbError(f"{words[0]} ended with {code}: {said[-800:]}")

    return run_it


IMAGES = {
    f"read {name}": Entry(
        f"images/{name}", ("a.*",), image, checksum=name in ("nii.gz", "nrrd", "seg.nrrd", "mha", "png", "nifti2")
    )
    for name in ("nii", "nii.gz", "nifti2", "nrrd", "seg.nrrd", "mha", "mhd", "nhdr", "png", "tif", "bmp", "jpg", "h5")
}
ENTRIES: dict[str, Entry] = {
    **IMAGES,
    "read h5 of others": Entry("images/others-h5", ("a.h5",), named_arrays),
    "load dicom": Entry("images/dicom", ("**/*",), scans),
    "load nnU-Net": Entry("scans", ("dataset.json", "splits.json"), scans, weight=3),
    "load own": Entry("own", ("mixseg.json", "**/*.nii.gz"), scans, weight=3),
    "split": Entry("scans", ("splits.json",), split),
    "run files": Entry(
        "run",
        ("config.json", "environment.json", "finished.json", "log.jsonl", "metrics.csv", "predictions.npz"),
        run,
        weight=30,
    ),
    "examples": Entry("run", ("examples.npz",), examples, checksum=True),
    "weights": Entry("run", ("last.pt",), weights, checksum=True),
    "resume": Entry("run", ("last.pt", "best.pt"), resumed, checksum=True),
    "predictor": Entry("run", ("config.json", "environment.json", "last.pt"), predictor),
    "store": Entry("store", ("**/*",), store, weight=20),
    "archive": Entry("scans.zip", ("scans.zip",), archive, checksum=True),
    "metrics": Entry("run", ("metrics.csv",), metrics),
    "config": Entry("config.json", ("config.json",), config, weight=20),
    "proposals": Entry("proposals.npz", ("proposals.npz",), proposals, checksum=True),
    "sidecar": Entry("predictions", ("*.mixseg.json",), sidecar),
    "inspect": Entry("own", ("**/*",), verb("inspect", "@", "--out", "@/page.html"), weight=1),
    "inspect nnU-Net": Entry(
        "scans", ("*.json", "labelsTr/*", "imagesTr/*"), verb("inspect", "@", "--out", "@/page.html"), weight=1
    ),
    "prepare": Entry(
        "scans",
        ("*.json", "labelsTr/*", "imagesTr/*"),
        verb("prepare", "@", "@/out", "--dims", "2", "--size", "32", "32", "--workers", "1"),
        weight=1,
    ),
    "predict": Entry(
        ".",
        ("run/*.json", "run/best.pt", "few/*", "predictions/*"),
        verb("predict", "@/run", "-i", "@/few", "-o", "@/predictions"),
        weight=1,
    ),
    "evaluate": Entry(
        ".",
        ("predictions/*", "masks/*"),
        verb("evaluate", "-i", "@/predictions", "-r", "@/masks", "-o", "@/scores"),
        weight=1,
    ),
    "report": Entry("run", ("*.json", "*.csv", "*.jsonl", "*.npz"), verb("report", "@"), weight=1),
    "train": Entry(
        ".",
        ("run/*.json", "run/*.pt", "run/log.jsonl", "scans/*.json"),
        verb("train", "@/scans", "--out", "@/run", "--set", "steps=3"),
        weight=1,
    ),
}
