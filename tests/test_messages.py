"""The sentences of errors are kept in one page, made from the code; `python tests/test_messages.py` writes it."""

import ast
import importlib
import re
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from conftest import ROOT
from mixseg.core.errors import MixsegError
from mixseg.report.experiment.tables_markdown import grid

SOURCE = ROOT / "src" / "mixseg"
PAGE = ROOT / "docs" / "reference" / "messages.md"
BEGIN, END = "<!-- messages: made by `python tests/test_messages.py` -->", "<!-- end of messages -->"


class Message(NamedTuple):
    """One way in which the package refuses something."""

    code: str
    exit_code: int
    room: str
    fields: tuple[str, ...]
    sentence: str


def messages():
    """Of every error that the sources make, in their order."""
    return [each for path in sorted(SOURCE.rglob("*.py")) for each in Reader(path).messages]


class Reader(ast.NodeVisitor):
    """Reads the errors of one module, and of each its sentence, in which a hole has a name or is "..."."""

    def __init__(self, path: Path):
        inside = path.relative_to(SOURCE).with_suffix("")
        self.room = inside.parts[0]
        self.names = vars(importlib.import_module(".".join(("mixseg", *inside.parts)).removesuffix(".__init__")))
        self.local: dict[str, list[ast.expr]] = defaultdict(list)
        self.messages: list[Message] = []
        self.visit(ast.parse(path.read_text()))

    def visit_FunctionDef(self, node):
        before, self.local = self.local, defaultdict(list)
        self.generic_visit(node)
        self.local = before

    def visit_Assign(self, node):
        self.generic_visit(node)
        if isinstance(node.targets[0], ast.Name):
            self.local[node.targets[0].id].append(node.value)

    def visit_Call(self, node):
        self.generic_visit(node)
        kind = self.names.get(node.func.id) if isinstance(node.func, ast.Name) else None
        if isinstance(kind, type) and issubclass(kind, MixsegError):
            given = {ast.unparse(keyword.value): keyword.arg for keyword in node.keywords}
            sentence = [node.args[0], *self.local[ast.unparse(node.args[0])]][-1]
            code = ast.literal_eval(node.args[1])
            fields = tuple(given.values())
            self.messages.append(Message(code, kind.exit_code, self.room, fields, self.text(sentence, given)))

    def text(self, node, given):
        """A sentence with a ``{hole}`` for what only the moment knows."""
        if isinstance(node, ast.Constant):
            return str(node.value)
        if isinstance(node, ast.JoinedStr):
            return "".join(self.text(part, given) for part in node.values)
        if isinstance(node, ast.FormattedValue):
            return self.text(node.value, given)
        inside = ast.unparse(node)
        if inside in given:
            return f"{{{given[inside]}}}"
        if isinstance(self.names.get(inside), str | int):
            return str(self.names[inside])
        if len(self.local[inside]) == 1 and isinstance(self.local[inside][0], ast.Constant | ast.JoinedStr):
            return self.text(self.local[inside][0], given)
        return f"{{{inside.split('.')[-1]}}}" if re.fullmatch(r"[\w.]+", inside) else "..."


def table():
    """A row per code."""
    by_code = defaultdict(list)
    for each in messages():
        by_code[each.code].append(each)
    rows = []
    for code, found in sorted(by_code.items()):
        exits, rooms, fields, sentences = (
            dict.fromkeys(values)
            for values in (
                (str(each.exit_code) for each in found),
                (f"`{each.room}`" for each in found),
                (f"`{name}`" for each in found for name in each.fields),
                (" ".join(each.sentence.split()).replace("|", "\\|").replace("<", "&lt;") for each in found),
            )
        )
        rows.append((f"`{code}`", ", ".join(exits), ", ".join(rooms), ", ".join(fields), "<br>".join(sentences)))
    return grid(("code", "exit", "room", "fields", "sentences"), rows, words=5)


def with_table(text):
    return re.sub(f"{re.escape(BEGIN)}.*{re.escape(END)}", lambda _: f"{BEGIN}\n{table()}\n{END}", text, flags=re.S)


def test_the_page_holds_every_sentence_of_the_code():
    text = PAGE.read_text()
    assert BEGIN in text
    assert text == with_table(text), "run: python tests/test_messages.py"


def test_every_sentence_ends_as_one_and_says_more_than_its_code():
    for each in messages():
        assert each.sentence.endswith((".", "?", "}", "...")), each
        assert " " in each.sentence, each


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
