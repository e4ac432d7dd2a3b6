"""Images alone, as whoever predicts has them: any folder, files, or a dataset; labels among them are left alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from mixseg.core.errors import MixsegError, listed
from mixseg.core.files import check_name
from mixseg.core.types import Case, Source
from mixseg.datasets import formats, load_images, recognise
from mixseg.datasets.layouts import nnunet_json
from mixseg.datasets.layouts.base import Say, entries, keyed, silent, unique
from mixseg.datasets.layouts.nnunet import case_and_channel
from mixseg.datasets.layouts.own import names
from mixseg.datasets.layouts.own.dicom import images_among
from mixseg.datasets.layouts.own.files import examine, list_files
from mixseg.datasets.layouts.own.scans import find_scans


def find_images(
    places: Path | Sequence[Path], *, channels: int | None = None, without: Path | None = None, say: Say = silent
) -> list[Case]:
    """The images of folders and files, each with an id of its own, after which its label map is called.

    A folder is one of files (``CASE.nii.gz``, or ``CASE_0000.nii.gz`` per channel), or of folders of them, which the
    ids then begin with ("patient 1/T1"); or a dataset. Where there is one channel, numbers belong to the names as in a
    dataset. One file is called as in its folder.

    Args:
        places: Folders and files.
        channels: Of the images that are wanted.
        without: A folder that is left out, for label maps.
        say: Is told what was left alone.

    Raises:
        MixsegError: There are none, or it is not clear which files make one.
    """
    places = [places] if isinstance(places, Path) else places
    found = _find(places, channels, without, say)
    for case in found:
        for part in Path(case.id).parts:
            check_name("scan", part, case.image[0].path.parent)
    return found


def _find(places: Sequence[Path], channels: int | None, without: Path | None, say: Say) -> list[Case]:
    if len(places) == 1:
        return _of_place(places[0], channels, without, say)
    found: dict[Path, tuple[Path, Case]] = {}  # a file that was named twice is one scan
    for place in places:
        for case in _of_place(place, channels, without, say):
            found.setdefault(case.image[0].path.absolute(), (place if place.is_dir() else place.parent, case))
    return _told_apart(list(found.values()))


def _told_apart(found: Sequence[tuple[Path, Case]]) -> list[Case]:
    """The cases; those of one id in several folders with as much of the path as tells them apart."""
    ids = [case.id for _, case in found]
    folders = [folder.resolve().parts for folder, _ in found]
    depth = 0
    while twice := {name for name, count in Counter(ids).items() if count > 1}:
        depth += 1
        if depth > max(map(len, folders)):
            raise MixsegError(
                f"There are several images called {listed(sorted(twice))}: give them one by one.", "duplicate-scan"
            )
        ids = [
            "/".join((*parts[-depth:], case.id)) if case.id in twice or name in twice else name
            for name, parts, (_, case) in zip(ids, folders, found, strict=True)
        ]
    return [replace(case, id=name) for name, (_, case) in zip(ids, found, strict=True)]


def _of_place(place: Path, channels: int | None, without: Path | None, say: Say) -> list[Case]:
    if formats.is_dicom(place):
        return unique(images_among(place.parent, [place]), place)
    if place.is_dir():
        return _of_folder(place, channels, without, say)
    if not _is_image(place):
        raise MixsegError(
            f"{place} is no folder, and no image: give an image, or the folder that holds the images.",
            "not-a-folder",
            folder=place,
        )
    arrays = _arrays(place.parent, [place])
    return arrays or _numbered(place.parent, [place], _images_in(place.parent), channels)


def _of_folder(folder: Path, channels: int | None, without: Path | None, say: Say) -> list[Case]:
    files = _images_in(folder)
    if arrays := _arrays(folder, files):
        return arrays
    if not files and recognise(folder) != "own":
        return load_images(folder)
    listing = list_files(folder)
    outside, slices = (
        [path for path in paths if without is None or not _is_below(path, without)]
        for paths in (listing.voxels, listing.dicom)
    )
    series = images_among(folder, slices)
    if slices and not outside:
        return unique(series, folder)
    return [*_of_files(folder, files, outside, channels, say, alone=not series), *series]


def _of_files(
    folder: Path, files: Sequence[Path], outside: Sequence[Path], channels: int | None, say: Say, *, alone: bool
) -> list[Case]:
    """The images of a folder, whose own ``files`` and those of folders in it, ``outside``, may be labels too.

    They are images if there is nothing else: if they are all of one kind and ``alone``.
    """
    below = [path for path in outside if path.parent != folder]
    numbered = any(names.NUMBERED.fullmatch(formats.stem(path)) for path in files)
    if alone and not below and not _any_label(files) and (numbered or (channels or 1) == 1):
        return _numbered(folder, files, files, channels)
    seen = examine(list(dict.fromkeys((*files, *outside))), folder)
    labels = [each for each in seen if each.role == "label"]
    if alone and len(labels) == len(seen):  # then they are what is to be predicted
        labels = []
    if labels:
        called = listed([each.path.relative_to(folder).as_posix() for each in labels])
        say(f"{len(labels)} label maps in {folder} are left alone: {called}.")
    images = [each for each in seen if each not in labels]
    if below or not (numbered or (channels or 1) == 1):
        scans, _ = find_scans(images, folder)
        return _by_folder(folder, [[image.path for image in scan.images] for scan in scans])
    return _numbered(folder, [each.path for each in images], files, channels)


def _by_folder(root: Path, scans: Iterable[Sequence[Path]]) -> list[Case]:
    """Cases that are called after their first image, with the folders that it lies in."""

    def name(path: Path) -> str:
        match = names.NUMBERED.fullmatch(formats.stem(path))
        stem = match[1] if match and match[2] == "0000" else formats.stem(path)
        return path.relative_to(root).with_name(stem).as_posix()

    files = {images[0]: images for images in scans}
    found = keyed(files, name)
    return [Case(id_, id_, tuple(Source((path,)) for path in files[first])) for id_, first in sorted(found.items())]


def _any_label(files: Sequence[Path]) -> bool:
    """Whether one of the names, and not all of them, is that of labels."""
    called = [
        bool(names.LABEL_WORDS & set(names.of_file(path))) or formats.suffix(path) in formats.SEGMENTS for path in files
    ]
    return any(called) and not all(called)


def _is_below(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())


def _arrays(folder: Path, files: Sequence[Path]) -> list[Case]:
    """The scans of a benchmark's files, whose axes are in another order: as training would read that folder."""
    arrays = [path for path in files if formats.suffix(path) in formats.HDF5]
    if not arrays or (folder.parent / nnunet_json.NAME).exists():
        return []
    others = [path for path in _images_in(folder) if formats.suffix(path) not in formats.HDF5]
    if others:
        raise MixsegError(
            f"{arrays[0]} lies beside {others[0].name}, and arrays in .h5 files have their axes in another order than "
            "images: put them in folders of their own.",
            "formats-mixed",
            file=arrays[0],
            other=others[0],
        )
    return [case for case in load_images(folder) if set(files) & set(case.image[0].files)]


def _numbered(folder: Path, files: Sequence[Path], there: Sequence[Path], channels: int | None) -> list[Case]:
    """Cases of files in one folder, by their names and the numbers of channels.

    Args:
        folder: In which they lie.
        files: Those that are wanted.
        there: All images there.
        channels: Of the images that are wanted.
    """
    stems, labels = {formats.stem(path) for path in there}, _labelled(folder)
    found = keyed(files, lambda path: case_and_channel(formats.stem(path), stems, channels=channels, labels=labels))
    of_case: dict[str, list[Source]] = {}
    for (name, channel), path in sorted(found.items()):
        of_case.setdefault(name, []).append(Source((path,)))
        if channel >= len(of_case[name]):
            missing = folder / f"{name}_{len(of_case[name]) - 1:04}"
            raise MixsegError(
                f"{missing} is missing, beside {path.name}: add the file, or take the others away.",
                "channel-missing",
                file=missing,
            )
    return [Case(name, name, tuple(images)) for name, images in of_case.items()]


def _labelled(images: Path) -> set[str]:
    """The names of the label maps that nnU-Net's layout has for a folder such as ``imagesTr``; none for any other."""
    here = images.absolute()
    labels = here.parent / here.name.replace("images", "labels", 1)
    return {formats.stem(path) for path in _images_in(labels)} if labels != here and labels.is_dir() else set()


def _is_image(path: Path) -> bool:
    return path.is_file() and bool(formats.suffix(path))


def _images_in(folder: Path) -> list[Path]:
    """By their names: one that is a link to nothing is told when it is read."""
    return [path for path in entries(folder) if formats.suffix(path) and not path.is_dir()]
