"""How figures look: colours that colour-blind people tell apart, and line styles that survive a grey printer."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Sequence
from typing import Any, cast

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from mixseg.report.html import Html, figure_png

INK, SOFT = "#1c2530", "#5b6775"
# The palette of Okabe and Ito, without its yellow, which is lost on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1.5, 1, 1.5)), (0, (8, 2)), (0, (3, 1, 1, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def line(number: int) -> dict[str, Any]:
    """Colour and dash of the ``number``-th curve: either alone tells it apart."""
    return {"color": COLOURS[number % len(COLOURS)], "linestyle": DASHES[number % len(DASHES)], "linewidth": 1.8}


def panels(count: int, *, columns: int, size: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    """A figure with ``count`` axes of ``size`` inches in a grid."""
    columns = min(columns, count)
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(columns * size[0], rows * size[1]), layout="constrained")
    cast(ConstrainedLayoutEngine, figure.get_layout_engine()).set(w_pad=0.1, h_pad=0.1)
    axes = [figure.add_subplot(rows, columns, number + 1) for number in range(count)]
    for each in axes:
        each.spines[["top", "right"]].set_visible(False)
        each.spines[["left", "bottom"]].set_color(SOFT)
        each.tick_params(labelsize=9, color=SOFT, labelcolor=INK)
        each.grid(visible=True, color="#e6eaef", linewidth=0.8)
        each.set_axisbelow(True)
    return figure, axes


def name_axes(axes: Axes, title: str, across: str, up: str) -> None:
    """Title on the left, and what the axes measure, with units."""
    axes.set_title(plain(title), loc="left", fontsize=10.5, color=INK, fontweight="bold")
    axes.set_xlabel(plain(across), fontsize=9.5, color=INK)
    axes.set_ylabel(plain(up), fontsize=9.5, color=INK)


def legend(axes: Axes) -> None:
    """What the curves are, where any has a name."""
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8.5, frameon=True, framealpha=0.85, edgecolor="none", labelcolor=INK, handlelength=3)


def plain(text: str) -> str:
    """``text`` as it is: matplotlib takes dollars for mathematics and hides labels that begin with an underscore."""
    text = text.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def folded(name: str, width: int) -> str:
    """A long name on several lines, broken after its hyphens, underscores, commas and spaces."""
    lines = [""]
    for part in re.findall(r"[^-_, ]*[-_, ]*", name):
        if lines[-1] and len(lines[-1] + part.rstrip()) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(plain(line.rstrip()) for line in lines)


def logarithmic(axes: Axes, values: Sequence[float]) -> None:
    """A logarithmic scale where it helps: all values positive, over more than a factor of ten."""
    known = [value for value in values if math.isfinite(value) and value != 0]
    if known and min(known) > 0 and max(known) > 10 * min(known):
        axes.set_yscale("log")


def mark_steps(axes: Axes, steps: Sequence[int]) -> None:
    """A line at each step that the log warned of, with a flag where it would not cover the one before."""
    left, right = axes.get_xlim()
    free = left
    for step in steps:
        axes.axvline(step, color="#9a3412", linewidth=1, linestyle=(0, (2, 2)))
        if step < free:
            continue
        free = step + 0.07 * (right - left)
        axes.annotate(
            "!",
            (step, 1),
            xycoords=("data", "axes fraction"),
            ha="center",
            va="top",
            fontsize=9,
            fontweight="bold",
            color="white",
            bbox={"boxstyle": "circle,pad=0.25", "color": "#9a3412"},
        )


def as_html(figure: Figure | None, caption: str) -> Html:
    """The figure with its caption for a page; nothing for None. A letter that the font lacks is drawn as a box."""
    if figure is None:
        return Html("")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        return figure_png(figure, caption)
