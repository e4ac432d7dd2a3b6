"""What ``mixseg inspect`` found, as a page: tables, and slices with the labels drawn on them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mixseg.core.colours import shares, structure_colour
from mixseg.core.files import replacing
from mixseg.core.types import IGNORE
from mixseg.report.html import Html, bullets, figure_png, folded, joined, page, paragraph, table
from mixseg.report.inspection import Inspection, Preview, ScanReport
from mixseg.report.inspection.tables import kind_in_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BACKGROUND = "#BBBBBB"
"""Shows in strokes only."""

Box = tuple[slice, slice]

A_ROW = 4
MARGIN = 0.2
"""Round what is labelled, as a share of its size."""


def write_page(inspection: Inspection, path: Path) -> Path:
    """Write the page to ``path``."""
    with replacing(path) as temporary:
        temporary.write_text(inspection_page(inspection), encoding="utf-8")
    return path


def inspection_page(inspection: Inspection) -> str:
    """The page, as one self-contained string."""
    lines = inspection.summary()
    sections = [("At a glance", joined([table(lines), bullets(inspection.meanings)]))]
    if inspection.questions:
        asked = paragraph(
            "A training would ask about these. Say it with --full GLOB or --scribbles GLOB, or in mixseg.json, which "
            "mixseg inspect FOLDER --write begins."
        )
        sections.append(("Finished masks or strokes?", joined([asked, bullets(inspection.questions)])))
    if rows := inspection.understood():
        sections.append(("What was understood", table(rows[1:], rows[0])))
    if problems := inspection.other_problems:
        sections.append(("Bad files", bullets(problems)))
    if inspection.oddities:
        sections.append(("Worth a second look", bullets(inspection.oddities)))
    head, *rows = inspection.class_table()
    if rows:
        note = paragraph(
            "How many scans hold a class, and its share of the labelled voxels; below, how much is labelled.",
            kind="soft",
        )
        sections.append(("Classes", joined([table(rows, head), note])))
    sections.append(("Slices", _overlays(inspection)))
    head, *rows = inspection.scan_table()
    sections.append(("Every scan", folded(f"{len(rows)} scans", table(rows, head))))
    return page(f"Scans in {inspection.folder.name}", sections, lead=str(inspection.folder), foot="mixseg inspect")


def _overlays(inspection: Inspection) -> Html:
    shown = [one for one in inspection.scans if one.preview is not None]
    if not shown:
        return paragraph("No scan could be read.")
    rows = [shown[start : start + A_ROW] for start in range(0, len(shown), A_ROW)]
    caption = (
        "Above, the slice; below, its labelled part: lines are borders of the full mask, filled pixels partial labels."
    )
    return joined([paragraph(caption, kind="soft"), _legend(inspection), *(figure_png(_figure(row)) for row in rows)])


def _legend(inspection: Inspection) -> Html:
    names = inspection.cases[0].classes
    marks = (
        joined([Html(f'<span style="color:{_colour(index)}">&#9632;</span>'), name]) for index, name in enumerate(names)
    )
    return Html("<p>" + " &nbsp; ".join(marks) + "</p>")


def _figure(scans: Sequence[ScanReport]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.6 * A_ROW, 5.4), layout="constrained")
    panels = figure.subplots(2, A_ROW, squeeze=False)
    for panel in panels.flat:
        panel.set_axis_off()
    for column, scan in enumerate(scans):
        preview = scan.preview
        assert preview is not None, "only scans with a preview are shown"
        panels[0, column].set_title(f"{scan.case.id}, slice {preview.index}\n{kind_in_words(scan.case)}", fontsize=8)
        _draw(panels[0, column], preview, (slice(None), slice(None)), labels=False)
        _draw(panels[1, column], preview, _box(preview))
    return figure


def _draw(panel: Axes, preview: Preview, box: Box, *, labels: bool = True) -> None:
    """The slice within a box, and on it the full mask as lines and partial labels as pixels."""
    image = preview.image[box]
    low, high = np.percentile(preview.image, (1, 99))
    panel.imshow(image, cmap="gray", vmin=low, vmax=max(high, low + 1e-6), aspect=preview.aspect, interpolation="none")
    if labels and preview.full is not None:
        full = preview.full[box]
        for index in np.unique(full[(full != 0) & (full != IGNORE)]):
            if min(full.shape) > 1:  # contours need two rows and columns
                panel.contour(full == index, levels=[0.5], colors=[_colour(index)], linewidths=1.0)
    if labels and preview.partial is not None:
        partial = preview.partial[box]
        pixels = np.zeros((*partial.shape, 4))
        for index in np.unique(partial[partial != IGNORE]):
            pixels[partial == index] = (*_rgb(index), 0.85)
        panel.imshow(pixels, aspect=preview.aspect, interpolation="none")


def _box(preview: Preview) -> Box:
    """Round everything that is labelled; the whole slice if nothing is."""
    shown = np.zeros(preview.image.shape, bool)
    if preview.full is not None:
        shown |= (preview.full != 0) & (preview.full != IGNORE)
    if preview.partial is not None:
        shown |= preview.partial != IGNORE
    if not shown.any():
        return slice(None), slice(None)
    rows, columns = np.nonzero(shown)
    return _padded(rows), _padded(columns)


def _padded(places: NDArray[np.intp]) -> slice:
    first, last = int(places.min()), int(places.max())
    margin = max(2, round(MARGIN * (last - first)))
    return slice(max(0, first - margin), last + 1 + margin)


def _colour(index: int) -> str:
    """Of a class, as in the pictures of runs."""
    return BACKGROUND if index == 0 else structure_colour(index)


def _rgb(index: int) -> tuple[float, ...]:
    return shares(_colour(index))
