"""The one HTML page that every report is: a single file with its style and pictures inside, and all text escaped."""

from __future__ import annotations

import base64
import html
import io
import re
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NUMBER = re.compile(r"[-+]?[\d.,]+(e[-+]\d+)?( ?%)?( ± [\d.,]+)?( \([-+][\d.,]+\))?|\[[-\d.]+, [-\d.]+\]|-")
"""What is aligned to the right in a table: a number with its spread and, in brackets, a difference; an interval."""


class Html(str):
    """Text that is HTML already. Any other ``str`` is escaped where it enters a page."""

    __slots__ = ()


def escaped(text: object) -> Html:
    """``text`` so that it shows as it is written; Html is left alone."""
    return text if isinstance(text, Html) else Html(html.escape(str(text)))


def joined(parts: Iterable[object]) -> Html:
    """Parts one after the other, each escaped unless it is Html."""
    return Html("\n".join(escaped(part) for part in parts))


def page(title: str, sections: Sequence[tuple[str, Html]], *, lead: Html | str = "", foot: str = "") -> str:
    """A whole page: a title, a lead, links to its sections, and the sections as (heading, body)."""
    style = resources.files("mixseg.report").joinpath("page.css").read_text()
    links = (f'<a href="#s{number}">{escaped(heading)}</a>' for number, (heading, _) in enumerate(sections))
    bodies = (
        f'<section id="s{number}">\n<h2>{escaped(heading)}</h2>\n{escaped(body)}\n</section>'
        for number, (heading, body) in enumerate(sections)
    )
    return "\n".join(
        (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escaped(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>",
            f"<header>\n<h1>{escaped(title)}</h1>\n{paragraph(lead) if lead else ''}",
            f"<nav>{''.join(links)}</nav>\n</header>",
            *bodies,
            f"<footer>{escaped(foot)}</footer>\n</body>\n</html>\n",
        )
    )


def paragraph(text: object, *, kind: str = "") -> Html:
    """A paragraph; ``kind`` is "soft" for an aside, "warning" for what must not be missed."""
    return Html(f'<p class="{escaped(kind)}">{escaped(text)}</p>' if kind else f"<p>{escaped(text)}</p>")


def bullets(items: Iterable[object]) -> Html:
    """A list of points."""
    return Html("<ul>\n" + "\n".join(f"<li>{escaped(item)}</li>" for item in items) + "\n</ul>")


def preformatted(text: str) -> Html:
    """Text in a fixed-width font, with its line breaks: a config, a log."""
    return Html(f"<pre>{escaped(text)}</pre>")


def folded(summary: str, body: Html) -> Html:
    """Something to open with a click."""
    return Html(f"<details><summary>{escaped(summary)}</summary>\n{body}\n</details>")


def table(rows: Iterable[Sequence[object]], head: Sequence[object] = (), *, words: int | None = None) -> Html:
    """A table, with or without a head; columns that hold nothing but numbers are aligned to the right.

    Args:
        rows: Its lines.
        head: Of its columns.
        words: If given, the columns after so many are for numbers; where one of them says why there is none, it is set
            apart from the numbers around it.
    """
    lines = [[escaped(cell) for cell in row] for row in rows]
    columns = range(len(head or next(iter(lines), ())))
    if words is None:
        right = [bool(lines) and all(NUMBER.fullmatch(line[i]) for line in lines if line[i]) for i in columns]
    else:
        right = [place >= words for place in columns]
        lines = [[*line[:words], *map(_apart, line[words:])] for line in lines]
    top = f"<thead>{_row('th', [escaped(cell) for cell in head], right)}</thead>\n" if head else ""
    body = "\n".join(_row("td", line, right) for line in lines)
    dense = "" if words is None else ' class="dense"'
    return Html(f'<div class="scroll"><table{dense}>\n{top}<tbody>\n{body}\n</tbody>\n</table></div>')


def _apart(cell: Html) -> Html:
    return cell if NUMBER.fullmatch(cell) else Html(f'<span class="missing">{cell}</span>')


def _row(tag: str, cells: Sequence[Html], right: Sequence[bool]) -> str:
    kinds = (' class="number"' if number else "" for number in right)
    return "<tr>" + "".join(f"<{tag}{kind}>{cell}</{tag}>" for cell, kind in zip(cells, kinds, strict=True)) + "</tr>"


def figure_png(figure: Figure, caption: str = "", *, dpi: int = 110) -> Html:
    """A matplotlib figure as a picture inside the page; the caption is also its text for those who cannot see it."""
    buffer = io.BytesIO()
    # No date and no version of matplotlib in the file: the same figure gives the same bytes.
    figure.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    under = f"<figcaption>{escaped(caption)}</figcaption>" if caption else ""
    return Html(f'<figure><img alt="{escaped(caption)}" src="data:image/png;base64,{data}">{under}</figure>')
