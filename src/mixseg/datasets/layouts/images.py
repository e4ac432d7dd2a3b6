"""Images alone, as whoever predicts has them: a folder of files, one file, or a dataset."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mixseg.core.errors import MixsegError
from mixseg.core.types import Case, Source
from mixseg.datasets import DATASETS, formats, load_images
from mixseg.datasets.layouts import dicom, nnunet_json
from mixseg.datasets.layouts.base import entries, keyed
from mixseg.datasets.layouts.nnunet import case_and_channel


def find_images(place: Path, *, channels: int | None = None) -> list[Case]:
    """The images of a folder of files (``CASE.nii.gz``, or ``CASE_0000.nii.gz`` per channel), or of a dataset.

    Where there is one channel, numbers belong to the names as in a dataset. One file is called as in its folder.
    """
    if formats.is_dicom(place):
        return dicom.images(place.parent, [place])
    if not place.is_dir() and not _is_image(place):
        raise MixsegError(
            f"{place} is no folder, and no image: give an image, or the folder that holds the images.",
            "not-a-folder",
            folder=place,
        )
    folder = place.parent if _is_image(place) else place
    there = _images_in(folder)
    files = there if folder == place else [place]
    if not files:
        _check_not_the_folder_above(place)
        return load_images(place)
    arrays = [path for path in files if formats.suffix(path) in formats.HDF5]
    if arrays and not (folder.parent / nnunet_json.NAME).exists():
        _check_one_kind(arrays, files)
        # A benchmark's files, whose axes are in another order: as training would read that folder.
        return [case for case in load_images(folder) if set(files) & set(case.image[0].files)]
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


def _check_one_kind(arrays: Sequence[Path], files: Sequence[Path]) -> None:
    """Nothing, or one sentence about arrays of a benchmark among images, whose axes are in another order."""
    others = [path for path in files if path not in arrays]
    if others:
        raise MixsegError(
            f"{arrays[0]} lies beside {others[0].name}, and arrays in .h5 files have their axes in another order than "
            "images: put them in folders of their own.",
            "formats-mixed",
            file=arrays[0],
            other=others[0],
        )


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


def _check_not_the_folder_above(folder: Path) -> None:
    """Nothing, or one sentence if the images lie in the only folder in it that has any, and it is no dataset."""
    if any(dataset.fits(folder) for name, dataset in DATASETS.items() if name != "own"):
        return
    inner = [path for path in entries(folder) if path.is_dir() and _images_in(path)]
    if len(inner) == 1:
        raise MixsegError(
            f"{folder} holds no images: did you mean {inner[0]}?", "no-scans", folder=folder, meant=inner[0]
        )
