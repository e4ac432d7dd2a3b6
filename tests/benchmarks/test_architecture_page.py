"""The drawing of the house is that of the code."""

import sys

from conftest import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

import architecture_page


def test_an_arrow_that_follows_from_others_is_left_out():
    edges = {"a": set(), "b": {"a"}, "c": {"a", "b"}, "d": {"a", "c"}}
    assert architecture_page.reduced(edges) == {"a": set(), "b": {"a"}, "c": {"b"}, "d": {"c"}}


def test_the_rooms_are_the_layers_from_the_lowest():
    assert architecture_page.rooms()[0] == "core"
    assert architecture_page.rooms()[-1] == "cli"


def test_each_room_imports_from_those_above_it_in_the_drawing_alone():
    rooms = architecture_page.rooms()
    for room, below in architecture_page.imports().items():
        assert all(rooms.index(other) < rooms.index(room) for other in below), room


def test_the_drawing_is_that_of_the_imports():
    assert architecture_page.PICTURE.read_text() == architecture_page.drawing(), (
        "run: python benchmarks/architecture_page.py"
    )
