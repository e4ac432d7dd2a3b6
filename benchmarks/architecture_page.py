"""The drawing of the rooms of src/mixseg, made from what they import: docs/pictures/architecture.svg and a table.

    python benchmarks/architecture_page.py          # write both
    python benchmarks/architecture_page.py --check  # end with 1 if they are not those of the code

The rooms stand in the order of pyproject.toml's layers. An arrow goes from a room to one that it imports, unless it
gets there through another arrow: what is left shows the way of the data.
"""

from __future__ import annotations

import argparse
import ast
import re
import tomllib
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "mixseg"
PAGE = ROOT / "docs" / "concepts" / "architecture.md"
PICTURE = ROOT / "docs" / "pictures" / "architecture.svg"
BEGIN, END = "<!-- rooms: made by `python benchmarks/architecture_page.py` -->", "<!-- end of rooms -->"

LEFT, TOP, WIDTH, HEIGHT, STEP = 20, 20, 760, 40, 58
INK, PAPER, BOX, LINE, QUIET = "#1b2733", "#ffffff", "#eef3f7", "#3f6f9f", "#5b6b7a"


def rooms() -> list[str]:
    """The layers that import-linter enforces, from the lowest."""
    content = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = next(c["layers"] for c in content["tool"]["importlinter"]["contracts"] if c["type"] == "layers")
    return [layer for layer in reversed(layers) if (PACKAGE / layer).is_dir()]


def imports() -> dict[str, set[str]]:
    """For each room the others that its modules import."""
    graph = grimp.build_graph("mixseg", exclude_type_checking_imports=True)
    found: dict[str, set[str]] = {room: set() for room in rooms()}
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            ours, theirs = (name.split(".")[1:2] for name in (module, imported))
            if ours and theirs and ours != theirs and ours[0] in found and theirs[0] in found:
                found[ours[0]].add(theirs[0])
    return found


def reduced(edges: dict[str, set[str]]) -> dict[str, set[str]]:
    """The same without what follows from the others."""

    def below(room: str) -> set[str]:
        return edges[room].union(*(below(other) for other in edges[room]))

    return {room: {each for each in of if not any(each in below(other) for other in of)} for room, of in edges.items()}


def about(room: str) -> str:
    """The first line of what the room says of itself."""
    text = ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text())) or ""
    return text.splitlines()[0] if text else ""


def drawing() -> str:
    """An SVG: a box a room, the lowest on top, and arcs on the right for what imports what."""
    names = rooms()
    y = {name: TOP + STEP * place for place, name in enumerate(names)}
    height = TOP + STEP * len(names)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 920 {height}" role="img" font-family="sans-serif">',
        "<title>The rooms of mixseg, and which imports which</title>",
        f'<rect width="920" height="{height}" fill="{PAPER}"/>',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0L8 4L0 8z" fill="{LINE}"/></marker></defs>',
    ]
    for name in names:
        parts += [
            f'<rect x="{LEFT}" y="{y[name]}" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="{BOX}"/>',
            f'<text x="{LEFT + 14}" y="{y[name] + 25}" font-size="15" font-weight="600" fill="{INK}">{name}</text>',
            f'<text x="{LEFT + 130}" y="{y[name] + 25}" font-size="12.5" fill="{QUIET}">{_escaped(about(name))}</text>',
        ]
    edge = LEFT + WIDTH
    for name, below in reduced(imports()).items():
        for other in sorted(below):
            start, end = y[name] + HEIGHT / 2 - 6, y[other] + HEIGHT / 2 + 6
            reach = edge + 18 + 1.3 * (start - end) ** 0.82
            parts.append(
                f'<path d="M{edge + 2} {start:.0f}C{reach:.0f} {start:.0f} {reach:.0f} {end:.0f} {edge + 3} {end:.0f}" '
                f'fill="none" stroke="{LINE}" stroke-width="1.4" marker-end="url(#tip)"/>'
            )
    return "\n".join([*parts, "</svg>"]) + "\n"


def table() -> str:
    """A row a room: its size, and all that it imports."""
    edges = imports()
    lines = ["| room | what is inside | files | lines | imports |", "|---|---|--:|--:|---|"]
    for name in rooms():
        files = [path.read_text() for path in sorted((PACKAGE / name).rglob("*.py"))]
        count = sum(len(text.splitlines()) for text in files)
        below = ", ".join(other for other in rooms() if other in edges[name]) or "nothing of ours"
        lines.append(f"| `{name}/` | {about(name)} | {len(files)} | {count} | {below} |")
    return "\n".join(lines)


def page(text: str) -> str:
    """``text`` with the table between its markers."""
    block = f"{BEGIN}\n{table()}\n{END}"
    return re.sub(f"{re.escape(BEGIN)}.*{re.escape(END)}", lambda _: block, text, flags=re.DOTALL)


def _escaped(text: str) -> str:
    return text.replace("`", "").replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def main() -> int:
    """Write the two, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    made = {PAGE: page(PAGE.read_text()), PICTURE: drawing()}
    if parser.parse_args().check:
        return int(any(not path.exists() or path.read_text() != text for path, text in made.items()))
    for path, text in made.items():
        path.write_text(text)
        print(f"written: {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
