"""Stores as tests look at them, and as a disk may leave them."""

import json

import numpy as np

from mixseg.data.prepare import entries
from mixseg.data.prepare.store import Prepared


def array_files(store):
    """The files of arrays, with what changes when one is written anew."""
    found = (path for path in (store / entries.ENTRIES).rglob("*.*") if path.suffix in (".npy", ".labels"))
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in found}


def file_of(prepared, case, part):
    """Where an array lies."""
    return entries.array_file(prepared.folder, part, prepared.entry(part, case).key)


def same_arrays(one, other):
    """Whether the scans of two stores are equal, array by array."""
    return all(
        np.array_equal(getattr(one, read)(mine), getattr(other, read)(theirs))
        for mine, theirs in zip(one.cases, other.cases, strict=True)
        for read in ("image", "full", "partial", "cropped")
    )


def rewritten(prepared, case, part, labels):
    """The store with other labels of a scan, and an index that takes them for what was written."""
    entry = prepared.entry(part, case)
    known = entries.read_facts(prepared.folder, part, entry.key)
    facts = {name: value for name, value in known.items() if name != "checksum"}
    made = entries.write_labels(prepared.folder, entry.key, labels, facts)
    path = prepared.folder / prepared.name
    index = json.loads(path.read_text())
    next(found for found in index["cases"] if found["header"]["id"] == case.id)["parts"][part][1] = made["checksum"]
    path.write_text(json.dumps(index))
    return Prepared(prepared.folder, prepared.name)


def flip_a_bit(path, seed=0):
    """One bit of a file: of an image, where the values lie."""
    content = bytearray(path.read_bytes())
    rng = np.random.default_rng(seed)
    at = int(rng.integers(128 if path.suffix == ".npy" else 0, len(content)))
    content[at] ^= 1 << int(rng.integers(8))
    path.write_bytes(content)
