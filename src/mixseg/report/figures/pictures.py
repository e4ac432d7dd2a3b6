"""Slices side by side: image, truth, what each output marked, and where it was unsure."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray

from mixseg.core.colours import structure_colour
from mixseg.core.types import IGNORE, Bytes
from mixseg.report.figures.style import DASHES, INK, SOFT, plain

MARGIN = 0.35
"""Of the structure's size, kept around it."""
FLOOD = 4
"""A label map that marks so many times the truth does not widen the picture; it is tinted instead."""
SMALLEST = 40
"""Pixels: nothing is enlarged more than that."""
INSIDE = 0.85
"""Where a coloured outline runs: 0.5 is the border, this is just inside. So two classes hide no common border."""
SIDE = 2.1
"""Inches of a panel."""
LETTERS = 11
"""Of a bold heading, in an inch."""
NOTE = 0.3
"""Inches for what is said under it."""


@dataclass(frozen=True)
class Strip:
    """One row of panels of the same slice.

    Attributes:
        name: Said on the left.
        image: Grey values.
        truth: Class indices or IGNORE.
        labels: Class indices by panel name; None is an empty panel.
        entropy: 0 to 255, or None.
        notes: What is said under the panel of that name.
        pixel: Width and height of a pixel in mm: pictures have the proportions of what they show.
    """

    name: str
    image: Bytes
    truth: Bytes
    labels: Mapping[str, Bytes | None]
    entropy: Bytes | None = None
    notes: Mapping[str, str] = field(default_factory=dict)
    pixel: tuple[float, float] = (1.0, 1.0)

    @property
    def aspect(self) -> float:
        """Height of a pixel by its width."""
        return self.pixel[1] / self.pixel[0]


def gallery(strips: Sequence[Strip], classes: Sequence[str], *, widest: float = math.inf) -> Figure | None:
    """Strips below each other: image, truth, one panel per label map (the truth thin and white in it), entropy.

    Args:
        strips: The rows.
        classes: Names by class index.
        widest: Inches that the panels may fill; where they are many they become smaller.
    """
    if not strips:
        return None
    sure = any(strip.entropy is not None for strip in strips)
    heads = ["image", "truth", *strips[0].labels, *(["entropy"] if sure else [])]
    boxes = [around(strip) for strip in strips]
    tall = tallness(strips, boxes)
    side = min(SIDE, widest / len(heads))

    def draw(axes: Axes, head: str, number: int) -> Any:  # noqa: ANN401 - a mappable, for the bar
        axes.spines[:].set_visible(False)
        return _panel(axes, head, strips[number], boxes[number])

    figure, grid, shown = panels(strips, tall, heads, draw, side=side, rim=(0.9, 0.65))
    if shown is not None:
        place: dict[str, Any] = {"shrink": tall[0] / sum(tall), "anchor": (0.0, 1.0), "panchor": False, "aspect": 12}
        bar = figure.colorbar(shown, ax=grid[:, -1].tolist(), **place)
        bar.set_label("0: sure   1: all classes alike", fontsize=8)
        bar.ax.tick_params(labelsize=7.5)
    name_outlines(figure, classes)
    return figure


def panels(
    strips: Sequence[Strip],
    tall: Sequence[float],
    heads: Sequence[str],
    draw: Callable[[Axes, str, int], Any],
    *,
    side: float,
    rim: tuple[float, float],
) -> tuple[Figure, NDArray[Any], Any]:
    """Named rows of panels: the figure, its axes, and what ``draw`` last returned that is not None.

    Args:
        strips: The rows.
        tall: Height by width of each.
        heads: Of the columns.
        draw: Fills the panel of that head in the row of that number.
        side: Inches that a panel is wide.
        rim: Inches beside and above or below them all.
    """
    size = (side * len(heads) + rim[0], side * sum(tall) + NOTE * len(strips) + rim[1])
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(len(strips), len(heads), squeeze=False, gridspec_kw={"height_ratios": tall})
    shown: Any = None
    for number, (strip, row) in enumerate(zip(strips, grid, strict=True)):
        for head, axes in zip(heads, row, strict=True):
            found = draw(axes, head, number)
            shown = shown if found is None else found
            axes.set_xticks([])
            axes.set_yticks([])
            if number == 0:
                name = textwrap.fill(plain(head), int(LETTERS * side), break_on_hyphens=False)
                axes.set_title(name, fontsize=10, color=INK, fontweight="bold")
            axes.set_xlabel(plain(strip.notes.get(head, "")), fontsize=8.5, color=INK)
        row[0].set_ylabel(plain(strip.name), fontsize=8.5, color=INK)
    return figure, grid, shown


def tallness(strips: Sequence[Strip], boxes: Sequence[tuple[slice, slice]]) -> list[float]:
    """Height by width of what ``boxes`` cut out of each strip."""
    sizes = [strip.image[box].shape for strip, box in zip(strips, boxes, strict=True)]
    return [strip.aspect * height / width for strip, (height, width) in zip(strips, sizes, strict=True)]


def around(strip: Strip) -> tuple[slice, slice]:
    """The part of the picture that holds what is marked by anyone, with a margin; floods are left out of account."""
    marked = _structure(strip)
    for labels in strip.labels.values():
        if labels is not None and not _floods(labels, strip):
            marked = marked | (labels > 0)
    rows, columns = (np.flatnonzero(marked.any(axis=axis)) for axis in (1, 0))
    if not len(rows):
        return slice(None), slice(None)
    width, height = strip.pixel
    finest = min(strip.pixel)
    side = max(SMALLEST * finest, (1 + 2 * MARGIN) * max(np.ptp(rows) * height, np.ptp(columns) * width) + finest)
    return tuple(
        _interval(int(found[0] + found[-1]) // 2, int(side / step), size)
        for found, step, size in zip((rows, columns), (height, width), marked.shape, strict=True)
    )  # type: ignore[return-value]


def _structure(strip: Strip) -> NDArray[np.bool_]:
    there: NDArray[np.bool_] = (strip.truth > 0) & (strip.truth != IGNORE)
    return there


def _floods(labels: Bytes, strip: Strip) -> bool:
    """Whether a label map marks far more than there is; where there is nothing, no one can say."""
    there = int(np.count_nonzero(_structure(strip)))
    return 0 < FLOOD * there < int(np.count_nonzero(labels))


def _interval(centre: int, side: int, size: int) -> slice:
    """``side`` pixels round ``centre`` that lie inside ``size``, moved rather than cut where they can be."""
    start = max(0, min(centre - side // 2, size - side))
    return slice(start, min(size, start + side))


def _panel(axes: Axes, head: str, strip: Strip, box: tuple[slice, slice]) -> Any:  # noqa: ANN401 - a mappable, for the bar
    if head == "entropy" and strip.entropy is not None:
        drawing: dict[str, Any] = {"cmap": "cividis", "vmin": 0, "vmax": 1, "interpolation": "nearest"}
        return axes.imshow(strip.entropy[box] / 255, aspect=strip.aspect, **drawing)
    labels = strip.truth if head == "truth" else strip.labels.get(head)
    if head not in ("image", "truth") and labels is None:
        axes.text(0.5, 0.5, "no prediction", ha="center", va="center", fontsize=8.5, color=SOFT)
        return None
    axes.imshow(strip.image[box], aspect=strip.aspect, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    if head == "image" or labels is None:
        return None
    if head != "truth":
        outline(axes, strip.truth[box], thin=True)
        if _floods(labels, strip):  # its border may lie outside the picture
            tint = np.ma.masked_equal(labels[box], 0).astype(float)
            paint = ListedColormap([structure_colour(1)])
            axes.imshow(tint * 0 + 1, aspect=strip.aspect, cmap=paint, alpha=0.45, interpolation="nearest")
    outline(axes, labels[box])
    return None


def outline(axes: Axes, labels: Bytes, *, thin: bool = False) -> None:
    """The border of each class, with a dark rim for those who see it in grey; ``thin`` is white, for reference."""
    for index in _outer_first(labels):
        mask = np.pad((labels == index).astype(float), 1)  # so that a structure at the edge is closed
        across, down = np.arange(mask.shape[1]) - 1, np.arange(mask.shape[0]) - 1
        drawing: dict[str, Any] = (
            {"colors": "white", "linewidths": 0.7, "linestyles": "solid"} if thin else _contour_style(index)
        )
        drawn = axes.contour(across, down, mask, levels=[0.5 if thin else INSIDE], **drawing)
        drawn.set_path_effects([withStroke(linewidth=1.5 if thin else 3.2, foreground="black")])
    height, width = labels.shape
    axes.set_xlim(-0.5, width - 0.5)
    axes.set_ylim(height - 0.5, -0.5)


def _outer_first(labels: Bytes) -> list[int]:
    """The classes of a picture, the one with the largest box first: a cavity is drawn over its wall."""
    found = [int(index) for index in np.unique(labels) if index not in (0, IGNORE)]
    return sorted(found, key=lambda index: -float(np.prod(np.ptp(np.argwhere(labels == index), axis=0) + 1)))


def _contour_style(index: int) -> dict[str, Any]:
    return {
        "colors": structure_colour(index),
        "linewidths": 1.8,
        "linestyles": [DASHES[(index - 1) % len(DASHES)]],
    }


def name_outlines(figure: Figure, classes: Sequence[str], *, truth: str = "truth, in the other panels") -> None:
    """Which outline is which class, under the figure."""
    from matplotlib.lines import Line2D

    handles = []
    for index, name in enumerate(classes[1:], start=1):
        drawing = _contour_style(index)
        handles.append(
            Line2D([], [], color=drawing["colors"], linestyle=drawing["linestyles"][0], linewidth=2, label=plain(name))
        )
    handles.append(Line2D([], [], color="white", linewidth=1, label=truth))
    figure.legend(
        handles=handles,
        loc="outside lower left",
        ncols=min(5, len(handles)),
        fontsize=8.5,
        facecolor="#2b333c",
        edgecolor="none",
        labelcolor="white",
        handlelength=3,
    )
