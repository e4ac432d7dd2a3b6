"""The documentation speaks of what is there: the README's tree, links between pages, the flags of every verb."""

import os
import re
from pathlib import Path

import pytest

from conftest import ROOT
from mixseg.cli import VERBS, main

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


def test_every_page_is_linked_from_another():
    linked = {
        Path(os.path.normpath(page.parent / link))
        for page in PAGES
        for link in re.findall(r"\]\(([^)#]+)", page.read_text())
        if "://" not in link
    }
    assert [page for page in PAGES if "docs" in page.parts and page not in linked] == []


def test_the_index_leads_to_every_page():
    index = ROOT / "docs" / "index.md"
    linked = {(index.parent / link).resolve() for link in re.findall(r"\]\(([^)#]+)", index.read_text())}
    assert [page for page in PAGES if "docs" in page.parts and page != index and page.resolve() not in linked] == []


@pytest.mark.parametrize("name", VERBS)
def test_the_reference_names_every_flag_of_a_verb(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        main([name, "--help"])
    described = re.findall(r"^[│ ] (--?[a-z].*?)(?:  |$)", capsys.readouterr().out, re.MULTILINE)
    flags = [re.findall(r"--[\w-]+", each)[-1] for each in described]  # an alias comes before it
    assert flags[0] == "--help"
    text = (ROOT / "docs" / "reference" / "cli.md").read_text()
    section = text.split(f"## `{name}`\n")[1].split("\n## ")[0]
    assert [flag for flag in flags[1:] if not re.search(rf"`{flag}[` ]", section)] == []
