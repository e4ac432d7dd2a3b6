"""Which structures are parts of others, as a lesion is of the liver: by finished masks in which they overlap."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import permutations

from mixseg.core.types import IGNORE, Case
from mixseg.datasets import formats

INSIDE = 0.95
"""The share of a structure that another one covers, taking all masks together, for it to be a part of that one."""

SOME = 8
"""So many masks say it, and so many structures are compared: their voxels are looked at pair by pair."""


def nested(cases: Sequence[Case]) -> dict[str, str]:
    """Inner -> outer structure, by full masks whose layers overlap; of several outer ones the smallest.

    Raises:
        MixsegError: A label map cannot be read.
    """
    sizes: Counter[str] = Counter()
    shared: Counter[tuple[str, str]] = Counter()
    for case in [case for case in cases if case.full is not None and 1 < len(case.full.layers) <= SOME][:SOME]:
        assert case.full is not None, "those alone are looked at"
        ids: Mapping[int, int] = defaultdict(int, case.full.ids or {})
        layers = case.full.layers
        names = {place: case.classes[ids[place + 1]] for place in range(len(layers)) if 0 < ids[place + 1] < IGNORE}
        for (i, j), count in formats.count_shared(layers).items():
            if i in names and i == j:
                sizes[names[i]] += count
            elif i in names and j in names and names[i] != names[j]:
                shared[names[i], names[j]] += count
    found: dict[str, str] = {}
    for inner, outer in permutations(sizes, 2):
        inside = sizes[inner] < sizes[outer] and shared[inner, outer] >= INSIDE * sizes[inner] > 0
        if inside and (inner not in found or sizes[outer] < sizes[found[inner]]):
            found[inner] = outer
    return found
