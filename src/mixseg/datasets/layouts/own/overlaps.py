"""Structures that overlap: whose a voxel is that several of them cover."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from mixseg.core.errors import MixsegError
from mixseg.datasets import formats
from mixseg.datasets.label_facts import LabelFacts
from mixseg.datasets.layouts.own.labellings import BACKGROUND, Labelling, key


def ordered(maps: Mapping[str, Sequence[Labelling]], given: Iterable[str]) -> dict[str, list[Labelling]]:
    """The same, the layers of each in the order in which they count.

    Smaller structures come before larger ones, as a lesion that was painted inside the liver: sizes are means over the
    scans. What the user gives comes before that. A file that cannot be read stays as it is.
    """
    counted = {scan: [_counted(each) for each in of_one] for scan, of_one in maps.items()}
    sizes: dict[str, list[int]] = defaultdict(list)
    for each in (each for of_one in counted.values() for each in of_one):
        for name, size in each.covers.items():
            sizes[name] += [size] if size else []
    first = {key(name): place for place, name in enumerate(given)}

    def rank(name: str) -> tuple[float, ...]:
        mean = sum(sizes[name]) / max(len(sizes[name]), 1)
        return (name == BACKGROUND, first.get(key(name), len(first)), mean)

    return {scan: [_sorted(each, rank) for each in of_one] for scan, of_one in counted.items()}


def _counted(each: Labelling) -> Labelling:
    """With the number of voxels of every structure, where they may overlap."""
    if not each.layers or each.problem:
        return each
    try:
        counts = formats.count_layers(each.layers)
    except MixsegError as error:
        return replace(each, problem=str(error))
    covers: dict[str, int] = defaultdict(int)
    for name, count in zip(each.names.values(), counts, strict=True):
        covers[name] += count
    return replace(each, covers=dict(covers))


def _sorted(each: Labelling, rank: Callable[[str], tuple[float, ...]]) -> Labelling:
    if not each.layers:
        return each
    pairs = sorted(zip(each.layers, each.names.values(), strict=True), key=lambda pair: rank(pair[1]))
    return replace(
        each, layers=tuple(layer for layer, _ in pairs), names={n: name for n, (_, name) in enumerate(pairs, start=1)}
    )


def overlapping(each: Labelling, facts: LabelFacts) -> list[str]:
    """The structures of a label map that other ones lie on or under, in the order in which they count."""
    order = list(dict.fromkeys(each.names.values()))
    hidden = [name for name, found in facts.structures.items() if found.voxels < each.covers.get(name, 0)]
    last = max((order.index(name) for name in hidden), default=-1)
    return order[: last + 1]
