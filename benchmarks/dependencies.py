"""What mixseg runs on, from the installed packages: ``python benchmarks/dependencies.py [SBOM]``.

Writes the table of docs/reference/dependencies.md; with a path, a bill of materials there (CycloneDX, JSON), too.
"""

import json
import sys
import tomllib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "dependencies.md"
START, END = "<!-- dependencies: made by `python benchmarks/dependencies.py` -->", "<!-- end of dependencies -->"
LONG = 60
"""A licence field of more letters is the text of the licence, not its name."""


def project() -> dict:
    """What pyproject.toml says of the package."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def needed(requirements: Iterable[str], extras: frozenset[str] = frozenset()) -> dict[str, set[str]]:
    """Each package that the requirements bring here, by its plain name, with those that it brings itself."""
    found: dict[str, set[str]] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [(Requirement(each), extras) for each in requirements]
    while waiting:
        requirement, wanted = waiting.pop()
        name = canonicalize_name(requirement.name)
        environments = [{"extra": extra} for extra in wanted or {""}]
        if requirement.marker and not any(requirement.marker.evaluate(each) for each in environments):
            continue
        own = frozenset(requirement.extras)
        if (name, own) in seen:
            continue
        seen.add((name, own))
        try:
            inner = [Requirement(each) for each in metadata.requires(name) or ()]
        except metadata.PackageNotFoundError:
            continue
        known = [each for each in inner if _applies(each, own)]
        found.setdefault(name, set()).update(canonicalize_name(each.name) for each in known)
        waiting += [(each, own) for each in known]
    return {name: inner & found.keys() for name, inner in sorted(found.items())}


def _applies(requirement: Requirement, extras: frozenset[str]) -> bool:
    return requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in extras or {""})


def licence(name: str) -> str:
    """What the package says of its licence: an expression, a short name, or its classifiers."""
    about = metadata.metadata(name)
    said = about.get("License-Expression") or about.get("License") or ""
    classes = [each.split(" :: ")[-1] for each in about.get_all("Classifier") or () if each.startswith("License ::")]
    short = said if said and len(said) <= LONG and "\n" not in said else ""
    return short or ", ".join(each for each in classes if each != "OSI Approved") or "see the package"


def table() -> str:
    """A row for each package that runs with mixseg, those that it asks for by name first."""
    about = project()
    asked = {
        canonicalize_name(Requirement(each).name): str(Requirement(each).specifier) for each in about["dependencies"]
    }
    there = needed(about["dependencies"])
    lines = ["| package | asked for | version here | licence |", "|---|---|---|---|"]
    for name in sorted(there, key=lambda each: (each not in asked, each)):
        lines.append(f"| {name} | {asked.get(name, 'by another')} | {metadata.version(name)} | {licence(name)} |")
    return "\n".join(lines)


def bill() -> dict:
    """The bill of materials: every package with version and licence, and who brings whom."""
    about = project()
    there = needed(about["dependencies"])
    direct = {canonicalize_name(Requirement(each).name) for each in about["dependencies"]} & there.keys()
    purls = {name: f"pkg:pypi/{name}@{metadata.version(name)}" for name in there}
    own = f"pkg:pypi/{about['name']}@{about['version']}"
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": about["name"],
                "version": about["version"],
                "licenses": [{"license": {"id": about["license"]}}],
                "purl": own,
            }
        },
        "components": [
            {
                "type": "library",
                "bom-ref": purl,
                "name": name,
                "version": metadata.version(name),
                "licenses": [{"license": {"name": licence(name)}}],
                "purl": purl,
            }
            for name, purl in purls.items()
        ],
        "dependencies": [
            {"ref": own, "dependsOn": sorted(purls[name] for name in direct)},
            *(
                {"ref": purls[name], "dependsOn": sorted(purls[each] for each in inner)}
                for name, inner in there.items()
            ),
        ],
    }


def main() -> None:
    """Write the page, and the bill of materials where it is asked for."""
    before, _, rest = PAGE.read_text().partition(START)
    PAGE.write_text(f"{before}{START}\n{table()}\n{END}{rest.partition(END)[2]}")
    print(f"written: {PAGE.relative_to(ROOT)}")
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(bill(), indent=1) + "\n")
        print(f"written: {sys.argv[1]}")


if __name__ == "__main__":
    main()
