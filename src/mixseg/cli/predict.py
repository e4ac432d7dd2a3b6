"""``mixseg predict``: label maps for images."""

from __future__ import annotations

from typing import Annotated, Literal

from tyro import conf

from mixseg.cli.flags import Branch, Device, Inputs, Output, Run
from mixseg.core.errors import UsageError
from mixseg.core.messages import say


def predict(
    run: Run,
    *,
    input: Inputs,  # noqa: A002 - the flag
    out: Output,
    checkpoint: Annotated[Literal["best", "last"] | None, conf.arg(help_behavior_hint="")] = None,
    branch: Branch = None,
    format: Annotated[str | None, conf.arg(metavar="TYPE", help_behavior_hint="")] = None,  # noqa: A002 - the flag
    nested: Annotated[tuple[str, ...] | None, conf.arg(metavar="INNER:OUTER", help_behavior_hint="")] = None,
    probabilities: bool = False,
    entropy: bool = False,
    window: Annotated[Literal["gaussian", "uniform"] | None, conf.arg(help_behavior_hint="")] = None,
    overlap: Annotated[float | None, conf.arg(help_behavior_hint="")] = None,
    overwrite: bool = False,
    device: Device = "auto",
) -> None:
    """Write a label map for each image of a folder, with the image's own geometry.

    $ mixseg predict run -i imagesTs -o predictions

    A folder may hold folders, one per patient for example, and labels beside the images: images alone are predicted,
    and label maps lie in folders of the same names.

    $ mixseg predict run -i study -o study-labels --format seg.nrrd

    writes segmentations that open in 3D Slicer.

    Args:
        run: A run folder.
        input: Folders of images, in any format, or images.
        out: The folder for the label maps.
        checkpoint: best on the validation scans, or last; if not given, best where there is one.
        branch: Of a method with two: the student, the teacher or the mean of both; if not given, the student.
        format: nii.gz, nii, seg.nrrd (a segmentation for 3D Slicer, with names and colours), dicom-seg (for an
            archive, of DICOM series), nrrd, mha or png; if not given, that of each image.
        nested: The outer structure includes the inner one, as in --nested lesion:liver: segments that overlap, which
            seg.nrrd can hold. Without a pair: those that the run knows.
        probabilities: Write the probability of each class too.
        entropy: Write a map of how unsure the network is too.
        window: Of volumes: let the middle of a window count more than its rim, or all of it alike; if not given, as in
            the run's config.
        overlap: Of volumes: the share of a window that the next one sees too, such as 0.5; likewise.
        overwrite: Replace label maps of another model or image too, and files that mixseg did not write.
        device: auto takes the GPU if there is one.
    """
    from mixseg.inference.folder import predict_folder

    if not input:
        raise UsageError("-i has no value: name a folder of images, or images.", "flag-without-value", flag="-i")
    predict_folder(
        run,
        input,
        out,
        checkpoint=checkpoint,
        branch=branch,
        format=format,
        nested=nested,
        probabilities=probabilities,
        entropy=entropy,
        window=window,
        overlap=overlap,
        overwrite=overwrite,
        device=device,
    )
    say(f"Written: {out}")
