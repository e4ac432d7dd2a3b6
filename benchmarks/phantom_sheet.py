"""Makes docs/pictures/phantom.png: what the built-in scans look like, one patient a column.

python benchmarks/phantom_sheet.py [OUT.png]
"""

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np

from mixseg.datasets import phantom
from sheet_file import PICTURES, save

mpl.use("Agg")
from matplotlib import pyplot as plt

PATIENTS = range(6)
LEFT_VENTRICLE = 3
COLOURS = ("#4cc9f0", "#f9c74f", "#f94144")
ROWS = ("ED, base", "ED, middle", "ED, labels", "ES, labels", "ED, apex", "atrium", "atrium, labels", "atrium, coronal")


def show(axis, image, mask=None, *, brightest):
    """Draw one slice as a radiologist sees it: i to the right, j downwards; borders of the classes on top."""
    axis.imshow(image.T, cmap="gray", vmin=0, vmax=brightest, interpolation="bilinear")
    for label in np.unique(mask[mask > 0]) if mask is not None else ():
        axis.contour(label == mask.T, [0.5], colors=COLOURS[label - 1], linewidths=0.8)


def heart_column(axes, patient):
    """Base, middle, apex at ED and the middle at ES of one patient."""
    scans = {frame: phantom.heart(0, patient, frame, size=(144, 144), slices=9) for frame in phantom.FRAMES}
    for axis, (frame, position, labelled) in zip(
        axes, [("ED", 0, False), ("ED", 4, False), ("ED", 4, True), ("ES", 4, True), ("ED", 7, False)], strict=True
    ):
        image, mask = scans[frame]
        window, labels = slice(None), None
        if labelled:
            i, j = (int(index.mean()) for index in np.nonzero(mask[..., position] == LEFT_VENTRICLE))
            window = np.s_[i - 30 : i + 24, j - 27 : j + 27]
            labels = mask[..., position][window]
        show(axis, image[..., position][window], labels, brightest=np.percentile(image, 99.5))


def atrium_column(axes, patient):
    """An axial slice without and with its label, and a coronal one."""
    image, mask = phantom.atrium(0, patient, size=(112, 112), slices=56)
    brightest = np.percentile(image, 99.7)
    show(axes[0], image[..., 31], brightest=brightest)
    show(axes[1], image[..., 31], mask[..., 31], brightest=brightest)
    middle = int(np.nonzero(mask)[1].mean())
    show(axes[2], image[:, middle, ::-1], mask[:, middle, ::-1], brightest=brightest)


def main(out):
    """Draw the sheet and save it."""
    heights = [1] * 7 + [0.5]
    figure, axes = plt.subplots(
        len(ROWS), len(PATIENTS), figsize=(len(PATIENTS), sum(heights)), gridspec_kw={"height_ratios": heights}
    )
    for column, patient in enumerate(PATIENTS):
        heart_column(axes[:5, column], patient)
        atrium_column(axes[5:, column], patient)
    for axis, name in zip(axes[:, 0], ROWS, strict=True):
        axis.text(0.03, 0.95, name, color="white", fontsize=5, va="top", transform=axis.transAxes)
    for axis in axes.flat:
        axis.axis("off")
    save(figure, out)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES / "phantom.png")
