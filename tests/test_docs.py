"""The documentation speaks of what is there: the README's tree, links between pages, the flags of every verb."""

import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

from conftest import ROOT
from mixseg.cli import VERBS

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
TREE = re.search(r"```\n(├── Makefile.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]


UNWRITTEN: set[str] = set()
"""Pages that others link to before they are written."""


def named_in_tree():
    """The files and folders directly below src/mixseg that the README's tree explains."""
    lines = [line.split("── ")[1] for line in TREE.splitlines() if line.startswith("│   ")]
    return {name.rstrip("/") for line in lines for name in re.split(r" {2,}", line)[0].split(" · ")}


def test_the_readme_explains_every_module_and_no_other():
    there = {path.name for path in (ROOT / "src" / "mixseg").iterdir() if path.suffix == ".py" or path.is_dir()}
    assert named_in_tree() == there - {"__init__.py", "__pycache__"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page):
    prose = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(), flags=re.DOTALL)  # code has brackets of its own
    links = re.findall(r"\]\(([^)#]+)", prose)
    broken = [Path(link).name for link in links if "://" not in link and not (page.parent / link).exists()]
    assert set(broken) <= UNWRITTEN


@pytest.mark.parametrize("name", VERBS)
def test_the_reference_names_every_flag_of_a_verb(name):
    text = (ROOT / "docs" / "reference" / "cli.md").read_text()
    section = text.split(f"## `{name}`\n")[1].split("\n## ")[0]
    function = getattr(import_module(f"mixseg.cli.{VERBS[name].module}"), name.replace("-", "_"))
    renamed = {
        "source": "from",
        "resume": "continue",
        "labels": "unlabelled",
        "training": "devices",
        "part": "seeds",
        "where": "workers",
        "grid": "dims",
    }
    options = [one for one in inspect.signature(function).parameters.values() if one.kind is one.KEYWORD_ONLY]
    flags = ["--" + renamed.get(one.name, one.name).replace("_", "-") for one in options]
    assert [flag for flag in flags if flag not in section] == []
