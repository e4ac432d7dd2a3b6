"""Folders on disk -> cases: file formats, layouts, what labels mean, splits, the phantom.

To add a layout, write a module with ``cases`` and ``fits`` and add a row here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from mixseg.core.errors import MixsegError, did_you_mean
from mixseg.core.text_files import read_json
from mixseg.core.types import Case
from mixseg.datasets.contents import check, contents
from mixseg.datasets.labels import LabelFlags
from mixseg.datasets.layouts import acdc, h5, la, nnunet, own, png
from mixseg.datasets.layouts.base import Dataset, Say, entries, files_below, silent, unique
from mixseg.datasets.layouts.globs import as_flagged, check_known, names_of
from mixseg.datasets.layouts.nnunet_json import NAME
from mixseg.datasets.layouts.table import ScanTable, of_cases

__all__ = ["DATASETS", "Dataset", "check", "contents", "inspect", "load", "load_images", "read_table", "recognise"]


def _is_phantom(root: Path) -> bool:
    """Whether the built-in data was written to ``root``: nnU-Net's layout under a name of its own."""
    content = read_json(root / NAME) if nnunet.fits(root) else {}
    return isinstance(content, dict) and str(content.get("name", "")).startswith("phantom-")


DATASETS: dict[str, Dataset] = {
    "phantom": Dataset(
        nnunet.cases, _is_phantom, "the built-in data, made by formula: nnU-Net's raw layout", nnunet.images
    ),
    "nnunet": Dataset(
        nnunet.cases, nnunet.fits, "nnU-Net's raw layout: dataset.json, imagesTr, labelsTr", nnunet.images
    ),
    "acdc": Dataset(acdc.cases, acdc.fits, "the ACDC challenge: patientNNN/patientNNN_frameFF.nii.gz, _gt, _scribble"),
    "la": Dataset(la.cases, la.fits, "the 2018 left atrium challenge: ID/lgemri.nrrd, ID/laendo.nrrd"),
    "png": Dataset(png.cases, png.fits, "slices: trainFull, trainSemi, val, test with Img, GT, WeaklyAnnotations"),
    "h5": Dataset(h5.cases, h5.fits, "SSL4MIS, WSL4MIS and UA-MT: h5 files with image, label, scribble", h5.images),
    "own": Dataset(
        own.cases,
        own.fits,
        "any other folder: images or DICOM series, and labels beside them or in folders of their own",
        own.images,
        own.table,
    ),
}
"""In the order in which they are tried on a folder."""


MOST_FOLDERS = 4
"""So many folders deep a folder is looked into that holds no image, to say what is there."""


def recognise(root: Path) -> str:
    """The name of the layout of ``root``."""
    if not entries(root):
        raise MixsegError(f"{root} is empty: give the folder that holds the scans.", "folder-empty", folder=root)
    for name, dataset in DATASETS.items():
        if dataset.fits(root):
            return name
    endings = Counter(path.suffix for path in files_below(root, depth=MOST_FOLDERS) if path.suffix)
    there = ", ".join(f"{count} {ending}" for ending, count in endings.most_common(4)) or "no files"
    raise MixsegError(
        f"{root} holds no image that can be read ({there}): give the folder that holds the scans, as .nii.gz, .nrrd, "
        ".mha, .png or .h5.",
        "unknown-layout",
        folder=root,
    )


def load(root: Path, name: str | None = None, flags: LabelFlags | None = None, say: Say = silent) -> list[Case]:
    """The cases in ``root``.

    Args:
        root: The folder.
        name: Its layout; recognised if not given.
        flags: What the user says about label ids.
        say: Is told, per folder of label maps, what the ids were found to mean and why; and what cannot be used.

    Raises:
        MixsegError: There is nothing to read, or somebody has to say first how labels were drawn.
    """
    found = read_table(root, name, flags)
    for sentence in (*found.meanings, *found.problems):
        say(sentence)
    found.check_sure()
    return unique(found.cases, root)


def inspect(
    folder: Path | str,
    *,
    dataset: str | None = None,
    full: Iterable[str] = (),
    scribbles: Iterable[str] = (),
    flags: LabelFlags | None = None,
) -> ScanTable:
    """What is understood of a folder of scans, as ``mixseg inspect`` shows it: to look at, and to train on.

    Args:
        folder: Scans in any layout, or just as they lie there.
        dataset: The layout; recognised if not given.
        full: Globs of scans or label files that are finished masks.
        scribbles: Globs of scans or label files that are strokes.
        flags: What label ids mean, where that is not clear.

    Raises:
        MixsegError: There is nothing that can be read.
    """
    said = flags or LabelFlags()
    said = replace(said, full=(*said.full, *full), scribbles=(*said.scribbles, *scribbles))
    return read_table(Path(folder), dataset, said)


def read_table(root: Path, name: str | None = None, flags: LabelFlags | None = None) -> ScanTable:
    """What is understood of ``root``: a row a scan, with the reason, and what could not be placed; see ``load``."""
    name = name or recognise(root)
    if name not in DATASETS:
        raise MixsegError(
            f"{name!r} is no known layout for {root}: {did_you_mean(name, DATASETS)}",
            "unknown-name",
            kind="layout",
            name=name,
            folder=root,
        )
    entries(root)  # a folder that is missing or forbidden is a clearer message than what a layout misses in it
    dataset, flags = DATASETS[name], flags or LabelFlags()
    if dataset.table is not None:
        found = dataset.table(root, flags)
    else:
        meanings: list[str] = []
        cases = [as_flagged(case, flags, root) for case in dataset.cases(root, flags, meanings.append)]
        found = of_cases(root, name, cases, meanings)
    check_known(flags, [names_of(row.id, row.labels, root) for row in found.rows], root)
    return found


def load_images(root: Path) -> list[Case]:
    """The cases in ``root`` for one who needs no labels: nobody is asked what those mean."""
    images = DATASETS[recognise(root)].images
    return images(root) if images else load(root)
