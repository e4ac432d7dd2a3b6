"""The files of label maps in a folder, by the names of their scans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from mixseg.core.errors import MixsegError, listed
from mixseg.core.types import CLASSES, ENTROPY, PROBABILITY, SIDECAR, Case, Layer, Source
from mixseg.datasets import formats
from mixseg.datasets.layouts.base import entries
from mixseg.datasets.layouts.own.names import NUMBERED

Output = tuple[str, str]
"""Checkpoint and branch, "" where a folder does not say."""

DEPTH = 8
"""So many folders deep label maps are looked for, and so many make the name of one."""


def label_maps(folder: Path) -> dict[str, Path]:
    """Case -> file; where ``mixseg predict`` kept the folders of the images, with these: "patient 1/T1".

    Raises:
        MixsegError: It is no folder, or two files are of one case.
    """
    if not folder.is_dir():
        raise MixsegError(f"{folder} is no folder: give the folder with the label maps.", "not-a-folder", folder=folder)
    files: dict[str, Path] = {}
    for path in _files(folder, DEPTH if (folder / CLASSES).is_file() else 0):
        stem = formats.stem(path) if formats.suffix(path) else path.stem
        name = path.relative_to(folder).with_name(stem).as_posix()
        if name in files:
            raise MixsegError(
                f"{path} and {files[name]} are the same case: remove one of them.",
                "duplicate-scan",
                file=path,
                other=files[name],
            )
        files[name] = path
    return files


def _files(folder: Path, depth: int) -> list[Path]:
    inside = entries(folder)
    here = [path for path in inside if (formats.suffix(path) and not path.is_dir()) or _is_our_dicom(path)]
    below = [path for path in inside if path.is_dir() and not path.is_symlink()] if depth else []
    return here + [file for path in below for file in _files(path, depth - 1)]


def _is_our_dicom(path: Path) -> bool:
    """Whether it is a DICOM segmentation that ``mixseg predict`` wrote; others may lie among the slices of a series."""
    return path.suffix.lower() == ".dcm" and path.with_name(f"{path.stem}{SIDECAR}").is_file()


def outputs(predictions: Path) -> dict[Output, Path]:
    """Checkpoint and branch -> the folder with their label maps.

    Raises:
        MixsegError: There are none.
    """
    if not predictions.is_dir():
        raise MixsegError(
            f"{predictions} is no folder: give the folder with the predicted label maps.",
            "not-a-folder",
            folder=predictions,
        )
    root = predictions / "predictions" if (predictions / "predictions").is_dir() else predictions
    if label_maps(root):
        return {("", ""): root}
    inner = [folder for folder in sorted(root.iterdir()) if folder.is_dir()]
    found = {("", folder.name): folder for folder in inner if label_maps(folder)}
    for folder in inner:
        deeper = (branch for branch in sorted(folder.iterdir()) if branch.is_dir())
        found |= {(folder.name, branch.name): branch for branch in deeper if label_maps(branch)}
    if not found:
        raise MixsegError(
            f"{root} holds no label map of a known format: give the folder with the predictions.",
            "no-label-maps",
            folder=root,
        )
    return found


def is_beside(name: str, files: Collection[str]) -> bool:
    """Whether a file is a map of how sure a prediction is, that of another of the ``files``."""
    return any(case != name and case in files for case in (name.removesuffix(ENTROPY), name.rpartition(PROBABILITY)[0]))


def paths_of(case: Case) -> tuple[str, ...]:
    """What a label map of a case may be called after: its image, with the folders that it lies in, or without."""
    path = case.image[0].path if case.image else Path()
    stem = formats.stem(path)
    match = NUMBERED.fullmatch(stem)
    parts = (*path.parts[:-1], match[1] if match and match[2] == "0000" else stem)
    return tuple("/".join(parts[-count:]) for count in range(min(DEPTH, len(parts)), 0, -1))


def by_case(files: Mapping[str, Path], called: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Case -> the name of its file: its id, or the longest of its other names that is no other case's too.

    Masks may lie in one folder where the label maps lie in several: then the last part of the name has to do.

    Args:
        files: By name.
        called: Case -> its other names.
    """
    counts = Counter(name for names in called.values() for name in set(names))
    last = Counter(name.rpartition("/")[2] for name in files)
    whole = {name.rpartition("/")[2]: name for name in files if last[name.rpartition("/")[2]] == 1}
    found = {}
    for case, names in called.items():
        may = (case, *(name for name in names if counts[name] == 1 and name not in called))
        if name := next((name for name in may if name in files), whole.get(case)):
            found[case] = name
    return found


def grid_of(case: Case) -> tuple[Path, ...]:
    """The files of the series below a DICOM segmentation of the case; nothing where its image is none."""
    mask = case.hidden or case.full
    if mask is not None and mask.grid:
        return mask.grid
    return case.image[0].files if case.image and formats.is_dicom(case.image[0].path) else ()


def overlapping(path: Path, places: Mapping[int, int]) -> Source | None:
    """A segmentation in layers as a label map in which the smaller of two structures that overlap is seen; else None.

    Args:
        path: The file.
        places: Number of a segment -> class index.

    Raises:
        MixsegError: A segment with voxels is none of the classes.
    """
    segments = formats.read_segments(path)
    if not any(segment.layer for segment in segments.values()):
        return None
    layers = [Layer(path, number) for number in segments]
    sizes = dict(zip(layers, formats.count_layers(layers), strict=True))
    unknown = [segments[layer.value].name for layer in layers if sizes[layer] and layer.value not in places]
    if unknown:
        raise MixsegError(
            f"{path} holds the undeclared label {listed(unknown)}: give the segment the name of a class, or remove it.",
            "undeclared-label",
            file=path,
            labels=unknown,
        )
    order = tuple(sorted((layer for layer in layers if layer.value in places), key=lambda layer: sizes[layer]))
    return Source((path,), ids={0: 0} | {n: places[each.value] for n, each in enumerate(order, start=1)}, layers=order)
