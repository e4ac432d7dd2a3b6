"""Tables of the reference pages are made from the code; `python tests/test_reference_tables.py` writes them."""

import dataclasses
import json
import re
import typing
from collections.abc import Mapping

import pytest

from conftest import ROOT
from mixseg.experiments.paper import EXPERIMENTS
from mixseg.methods import METHODS
from mixseg.report.experiment.tables_markdown import grid
from mixseg.runs.config import GROUPS, KEYS, Config, settings_of
from mixseg.runs.config_groups import BatchSizes
from mixseg.runs.presets import PRESETS

REFERENCE = ROOT / "docs" / "reference"


def meanings(kind):
    """What the docstring of a dataclass says of each attribute, in one line, as Markdown."""
    attributes = kind.__doc__.split("Attributes:")[1]
    found = re.findall(r"^ {8}(\w+): (.*?)(?=^ {8}\w+: |\Z)", attributes, re.DOTALL | re.MULTILINE)
    return {key: " ".join(text.split()).replace("``", "`").replace("|", "\\|") for key, text in found}


def values(hint):
    """The choices of a key, or the kind of value that it takes."""
    if typing.get_origin(hint) is typing.Literal:
        return ", ".join(f"`{json.dumps(choice)}`" for choice in typing.get_args(hint))
    names = {
        str: "text",
        int: "whole number",
        float: "number",
        bool: "`true`, `false`",
        int | None: "whole number or `null`",
        tuple[str, ...]: "list of texts",
        tuple[int, int]: "2 whole numbers",
        tuple[int, int, int]: "3 whole numbers",
        tuple[int, int, int] | None: "3 whole numbers or `null`",
        tuple[int, ...] | None: "list of whole numbers or `null`",
        tuple[float, float] | None: "2 numbers or `null`",
        tuple[float, ...] | None: "numbers or `null`",
        BatchSizes: "object",
        Mapping[str, float]: "object",
    }
    return names[hint]


def explained(kind):
    """The same of all its keys, those of the class below it too."""
    below, *_ = kind.__mro__[1:]
    return {**({} if below is object else meanings(below)), **meanings(kind)}


def keys_table():
    told, usual = {group: explained(kind) for group, kind in {"": Config, **GROUPS}.items()}, settings_of(Config())
    rows = []
    for key, of in KEYS.items():
        group = f"`{of.group}`" if of.group else ""
        rows.append((group, f"`{of.name}`", f"`{json.dumps(usual[key])}`", values(of.hint), told[of.group][of.name]))
    return grid(("group", "key", "default", "values", "meaning"), rows, words=5)


def weights_table():
    rows = []
    for name, row in METHODS.items():
        weights = ", ".join(f"`{term}` {weight:g}" for term, weight in row.weights.items())
        rows.append((f"`{name}`", weights, ", ".join(map(str, row.batch[2])), row.sees))
    return grid(("method", "weights", "images per step in 2D: full, partial, unlabeled", "sees"), rows, words=4)


def preset_table(name):
    plane, volume = (PRESETS[name][dims] for dims in (2, 3))
    rows = []
    for key, usual in settings_of(Config()).items():
        if key in plane or key in volume:
            each = (f"`{json.dumps(of[key])}`" if key in of else "-" for of in (plane, volume))
            rows.append((f"`{KEYS[key].group}`", f"`{KEYS[key].name}`", *each, f"`{json.dumps(usual)}`"))
    return grid(("group", "key", "in 2D", "in 3D", "default"), rows, words=5)


def experiments_table():
    rows = []
    for each in EXPERIMENTS.values():
        labels = ", ".join(dict.fromkeys(f"`{row.label}`" for row in each.rows)) or "measured, not trained"
        columns = ", ".join(dict.fromkeys(f"`{row.column}`" for row in each.rows if row.column))
        crossed = f"{each.varies} {labels} by {each.columns} {columns}" if columns else labels
        sets = ", ".join(f"Set-{n}" for n in each.sets) if each.rows else "-"
        rows.append((f"`{each.name}`", f"{each.title}: {each.about}", crossed, sets))
    return grid(("name", "what", "rows", "settings"), rows, words=4)


TABLES = [
    ("config.md", "keys", keys_table),
    ("config.md", "weights", weights_table),
    ("experiments.md", "experiments", experiments_table),
    *(("presets.md", name, lambda name=name: preset_table(name)) for name in PRESETS),
]


def with_table(text, name, table):
    begin = f"<!-- {name}: made by `python tests/test_reference_tables.py` -->"
    end = f"<!-- end of {name} -->"
    assert begin in text
    return re.sub(f"{re.escape(begin)}.*{re.escape(end)}", lambda _: f"{begin}\n{table}\n{end}", text, flags=re.DOTALL)


@pytest.mark.parametrize(("page", "name", "table"), TABLES, ids=[f"{page}-{name}" for page, name, _ in TABLES])
def test_the_page_holds_the_table_of_the_code(page, name, table):
    text = (REFERENCE / page).read_text()
    assert text == with_table(text, name, table()), "run: python tests/test_reference_tables.py"


def test_the_docstring_explains_every_key_and_no_other():
    for kind in (Config, *GROUPS.values()):
        assert list(explained(kind)) == [field.name for field in dataclasses.fields(kind)], kind


if __name__ == "__main__":
    for page, name, table in TABLES:
        path = REFERENCE / page
        path.write_text(with_table(path.read_text(), name, table()))
