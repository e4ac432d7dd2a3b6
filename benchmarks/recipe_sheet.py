"""Makes docs/pictures/recipe.png: what the preset strong shows a network, labels drawn on it.

python benchmarks/recipe_sheet.py [OUT.png]

Slices of the phantom. Rows: as they are; changed as in training, with the full mask; the same with the partial labels
that the student gets; cut into each other, with what the student is to answer there.
"""

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch

from mixseg.core.types import IGNORE, Batch, Part
from mixseg.data.augment import STRONG, augment
from mixseg.datasets import phantom
from mixseg.datasets.partial_labels import GENERATORS
from mixseg.methods.cutmix import cutmix
from sheet_file import PICTURES, save

mpl.use("Agg")
from matplotlib import pyplot as plt

COLUMNS = 7
SIDE = 144
LEFT_VENTRICLE = 3
FULL, PARTIAL = "#f9c74f", "#f94144"
ROWS = ("a slice", "changed, full mask", "changed, partial labels", "cut and pasted, targets")


def slices():
    """Middle slices ``(COLUMNS, 1, SIDE, SIDE)`` in 0..1, masks of the left ventricle and their partial labels."""
    images, masks, partials = [], [], []
    generate = GENERATORS["erosion-3x3"]
    for patient in range(COLUMNS):
        image, mask = phantom.heart(0, patient, "ED", size=(SIDE, SIDE), slices=9)
        middle = (mask[..., 4] == LEFT_VENTRICLE).astype(np.uint8)
        images.append(np.clip(image[..., 4] / np.percentile(image, 99.5), 0, 1))
        masks.append(middle)
        partials.append(generate(middle[..., None], np.random.default_rng(0))[..., 0])
    return (torch.from_numpy(np.stack(arrays)) for arrays in (images, masks, partials))


def draw(axis, image, full=None, partial=None):
    """One slice: i to the right, j downwards; the border of the mask, the labelled pixels filled."""
    axis.imshow(image.T, cmap="gray", vmin=0, vmax=1, interpolation="bilinear")
    if full is not None and (full == 1).any():
        axis.contour((full == 1).T, [0.5], colors=FULL, linewidths=0.9)
    if partial is not None:
        shown = np.ma.masked_where(partial.T != 1, partial.T)
        axis.imshow(shown, cmap=mpl.colors.ListedColormap([PARTIAL]), interpolation="nearest")
    axis.axis("off")


def main(out):
    """Draw the sheet and save it."""
    images, masks, partials = slices()
    generator = torch.Generator().manual_seed(4)
    changed, (full, partial) = augment(images.float().unsqueeze(1), (masks, partials), STRONG, generator)
    torch.manual_seed(2)
    silent = torch.full_like(full, IGNORE)
    none = Part(changed[:0], full[:0], partial[:0])
    # Proposals as sure as the full masks are, for the picture.
    proposed = torch.stack([full != 1, full == 1], dim=1).float()
    mixed, target = cutmix(Batch(none, Part(changed, silent, partial), none), proposed)
    figure, axes = plt.subplots(len(ROWS), COLUMNS, figsize=(1.2 * COLUMNS, 1.2 * len(ROWS)))
    for at in range(COLUMNS):
        draw(axes[0, at], images[at].numpy())
        draw(axes[1, at], changed[at, 0].numpy(), full[at].numpy())
        draw(axes[2, at], changed[at, 0].numpy(), partial=partial[at].numpy())
        draw(axes[3, at], mixed.partial.image[at, 0].numpy(), target[at].numpy(), mixed.partial.partial[at].numpy())
    for axis, name in zip(axes[:, 0], ROWS, strict=True):
        axis.text(0.03, 0.97, name, color="white", fontsize=6, va="top", transform=axis.transAxes)
    save(figure, out)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES / "recipe.png")
