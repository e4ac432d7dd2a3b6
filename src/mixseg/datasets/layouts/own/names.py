"""What the names of files say: whether they are labels, which channel, whose scan."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from mixseg.datasets import formats


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


LABEL_WORDS = frozenset(
    _words(
        "label labels labelstr labelsts labelmap lbl seg segs segmentation segmentations segment mask masks scribble "
        "scribbles stroke strokes annotation annotations annotated annot gt groundtruth truth dseg roi rois contour "
        "contours manual"
    )
)
"""Parts of names that labels have."""

PLAIN_WORDS = frozenset(
    _words(
        "image images img imgs scan scans volume volumes raw data anat nifti nii nrrd derivatives rawdata sourcedata "
        "space final finished corrected edited copy new old version v1 v2 v3 train training tr test testing ts val "
        "validation imagestr imagests full dense partial sparse seed seeds points complete completed"
    )
)
"""Parts of names that say nothing about whose scan a file is."""

MODALITIES = _words(
    "t1 t1w t1c t1ce t1gd t1n t1wce t2 t2w t2f t2star flair pd pdw dwi adc swi asl dce cine lge ct cta cbct pet spect "
    "mr mri mra us"
)
"""Parts of names that say what an image was made with, in the order in which channels are stacked."""

NUMBERED = re.compile(r"(.+)_(\d{4})")
"""nnU-Net's names of channels."""

PATIENT = re.compile(r"(sub-[a-zA-Z0-9]+|(?:patient|pat|subject|subj|case|sub|proband)[ _-]?\d+)", re.IGNORECASE)
BIDS_LABEL = re.compile(r"_label-([a-zA-Z0-9]+)")


def tokens(text: str) -> tuple[str, ...]:
    """The parts of a name in small letters, numbers without leading zeros: "Patient01_T1" -> patient, 1, t1."""
    found: list[str] = []
    for part in re.findall(r"[a-z0-9]+", text.lower()):
        found += re.sub(r"(?<=\d)(?=[a-z]{3})|(?<=[a-z]{3})(?=\d)", " ", part).split()
    return tuple(part.lstrip("0") or "0" if part.isdigit() else part for part in found)


def of_file(path: Path) -> tuple[str, ...]:
    """The parts of the name of a file."""
    return tokens(formats.stem(path))


def of_folders(path: Path, root: Path) -> tuple[str, ...]:
    """The parts of the names of the folders between the root and a file."""
    return tuple(token for folder in path.relative_to(root).parts[:-1] for token in tokens(folder))


def modality(parts: tuple[str, ...]) -> str:
    """What the image was made with, as far as its name says so: the last of such words."""
    return next((part for part in reversed(parts) if part in MODALITIES), "")


def telling(parts: Iterable[str]) -> tuple[str, ...]:
    """Those that may say whose scan, or which structure, it is."""
    return tuple(part for part in parts if part not in LABEL_WORDS and part not in PLAIN_WORDS)
