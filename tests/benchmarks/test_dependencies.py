"""The list of what mixseg runs on names all of it, and the bill of materials is what programs expect."""

import re
from importlib import metadata

from benchmarks.dependencies import PAGE, bill, project
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def direct():
    return {canonicalize_name(Requirement(each).name) for each in project()["dependencies"]}


def test_the_page_names_every_package_that_is_asked_for():
    rows = re.findall(r"^\| ([a-z0-9-]+) \| (\S+) \|", PAGE.read_text(), re.MULTILINE)
    assert {name for name, _ in rows} >= direct()
    assert {name for name, asked in rows if asked != "by"} == direct()


def test_the_bill_of_materials_is_whole_and_consistent():
    found = bill()
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.5")
    there = {each["bom-ref"]: each for each in found["components"]}
    assert len(there) == len(found["components"])
    assert {each["name"] for each in there.values()} >= direct()
    own = found["metadata"]["component"]["bom-ref"]
    assert {each["ref"] for each in found["dependencies"]} == {own, *there}
    assert all(set(each["dependsOn"]) <= there.keys() for each in found["dependencies"])
    reached, waiting = set(), [own]
    depends = {each["ref"]: each["dependsOn"] for each in found["dependencies"]}
    while waiting:
        one = waiting.pop()
        waiting += [each for each in depends[one] if each not in reached]
        reached |= {one}
    assert reached == {own, *there}
    for each in there.values():
        assert each["version"] == metadata.version(each["name"])
        assert each["purl"] == f"pkg:pypi/{each['name']}@{each['version']}"
        assert each["licenses"][0]["license"]["name"]
