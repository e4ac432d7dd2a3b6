"""Full mask, random numbers -> the labels that a quicker annotator would have left; IGNORE everywhere else.

To add a generator: one function in a file here, one row below. The command line and the contract tests follow.
"""

from functools import partial

from mixseg.datasets.partial_labels.base import Generator
from mixseg.datasets.partial_labels.boxes import boxes
from mixseg.datasets.partial_labels.erosion import erosion_3x3, erosion_10x10
from mixseg.datasets.partial_labels.points import points
from mixseg.datasets.partial_labels.scribbles import scribbles
from mixseg.datasets.partial_labels.slices import slices

__all__ = ["GENERATORS", "Generator"]

GENERATORS: dict[str, Generator] = {
    "erosion-3x3": Generator(erosion_3x3, "foreground cores: each class eroded up to 10 times by 3x3"),
    "erosion-10x10": Generator(erosion_10x10, "foreground cores: each class eroded by 10x10 until little is left"),
    "scribbles": Generator(scribbles, "a stroke along the middle of each class, and one round them in the background"),
    "scribbles-border": Generator(partial(scribbles, border=True), "strokes along both sides of each border"),
    "points": Generator(points, "a click in each class of each slice, the background included"),
    "boxes": Generator(boxes, "background outside a box round each class, nothing inside"),
    "slices": Generator(slices, "every n-th slice completely, the others not at all"),
}
