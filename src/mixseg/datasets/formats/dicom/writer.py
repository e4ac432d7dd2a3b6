"""Label maps as DICOM segmentations of the series that they were made from, as an archive takes them.

Such an object belongs to a patient and a study, which are those of the series: it carries their names and ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from mixseg import __version__
from mixseg.core.colours import shares, structure_colour
from mixseg.core.errors import MixsegError
from mixseg.core.files import replacing
from mixseg.core.types import Labels, Source
from mixseg.datasets.formats.base import is_dicom
from mixseg.datasets.formats.dicom.headers import Frame, header_of, parsed
from mixseg.datasets.formats.dicom.stack import stacked

SERIES_NUMBER = 1000
"""Of what we write: above those of scanners, so that viewers list it last."""


def write_segmentation(
    path: Path,
    labels: Labels,
    classes: Sequence[str],
    series: Source,
    colours: Mapping[int, str] | None = None,
) -> None:
    """Write class indices as one segment for each class above the background; the file is whole or absent.

    Args:
        path: Gets the segmentation.
        labels: ``(I, J, K)`` on the grid of the series, as it is read.
        classes: Names by class index, which is the number of the segment too; one without voxels is named all the same.
        series: The slices that were segmented.
        colours: Class index -> "#RRGGBB"; those of our figures where none is given.

    Raises:
        MixsegError: highdicom is missing, or the series is no DICOM.
    """
    check_writable(path, series)
    import highdicom
    from pydicom.uid import generate_uid

    images = [parsed(file) for file in series.files]
    stack = stacked([header_of(image, file) for image, file in zip(images, series.files, strict=True)])
    if stack.geometry.shape != labels.shape:
        raise ValueError(f"An array of {labels.shape} cannot lie like {series.path}, which has {stack.geometry.shape}.")
    sources, order = _in_file_order(images, series.files, stack.frames)
    segmentation = highdicom.seg.Segmentation(
        source_images=sources,
        pixel_array=np.ascontiguousarray(labels.T[order]),
        segmentation_type=highdicom.seg.SegmentationTypeValues.BINARY,
        segment_descriptions=[
            _description(index, name, (colours or {}).get(index) or structure_colour(index))
            for index, name in enumerate(classes)
            if index
        ],
        series_instance_uid=generate_uid(),
        series_number=SERIES_NUMBER,
        sop_instance_uid=generate_uid(),
        instance_number=1,
        manufacturer="mixseg",
        manufacturer_model_name="mixseg",
        software_versions=__version__,
        device_serial_number="0",
        omit_empty_frames=bool(labels.any()),  # one without a frame does not exist
        content_label="SEGMENTATION",
        content_description="Automatic segmentation",
        series_description="mixseg segmentation",
    )
    with replacing(path) as temporary:
        segmentation.save_as(temporary)


def _in_file_order(
    images: Sequence[Any], files: Sequence[Path], frames: Sequence[Frame]
) -> tuple[list[Any], list[int]]:
    """What highdicom expects: the images by position; of a file of many frames, the slices in the order of the file."""
    if len(images) == 1:
        return list(images), [int(k) for k in np.argsort([frame.number for frame in frames])]
    by_file = dict(zip(files, images, strict=True))
    return [by_file[frame.file] for frame in frames], list(range(len(frames)))


def _description(number: int, name: str, colour: str) -> Any:  # noqa: ANN401 - highdicom is not there for mypy
    import highdicom
    from pydicom.sr.codedict import codes

    red, green, blue = (round(255 * share) for share in shares(colour))
    return highdicom.seg.SegmentDescription(
        segment_number=number,
        segment_label=name[:64],  # as long as the standard allows
        segmented_property_category=codes.SCT.Tissue,  # what it is nobody has said in a terminology
        segmented_property_type=codes.SCT.Tissue,
        algorithm_type=highdicom.seg.SegmentAlgorithmTypeValues.AUTOMATIC,
        algorithm_identification=highdicom.AlgorithmIdentificationSequence(
            name="mixseg", version=__version__, family=codes.cid7162.ArtificialIntelligence
        ),
        display_color=highdicom.color.CIELabColor.from_rgb(red, green, blue),
    )


def check_writable(path: Path, series: Source) -> None:
    """Nothing, if a segmentation of ``series`` can be written.

    Raises:
        MixsegError: What writes it is not installed, or the scan is no DICOM series.
    """
    if find_spec("highdicom") is None:
        raise MixsegError(
            f"{path} needs highdicom, which is not installed: pip install 'mixseg[dicom]', or choose another --format.",
            "not-installed",
            file=path,
            package="highdicom",
        )
    if not is_dicom(series.path):
        raise MixsegError(
            f"{path} would be a DICOM segmentation, and {series.path} is no DICOM file that it could refer to: choose "
            "another --format.",
            "not-dicom",
            file=series.path,
        )
