"""Scans on their own grid -> entries of the store, those that are not there yet, and the index that names them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from mixseg.core.errors import MixsegError
from mixseg.core.files import check_replaceable, replacing, sweep
from mixseg.core.types import Bytes, Labels
from mixseg.core.workers import run_all
from mixseg.data.prepare import entries, flat, grid
from mixseg.data.prepare.entries import Facts
from mixseg.data.prepare.options import PrepareOptions
from mixseg.data.prepare.store import FORMAT, INDEX, INDICES, Prepared, PreparedCase, tuples
from mixseg.data.scan import Header, Native, check_headers
from mixseg.datasets.partial_labels import GENERATORS

PREPARED = "prepared folder"
STAMPS = "stamps.json"
MADE = 1
"""Counts the ways in which entries have been made: with another number all are made anew."""
FACTS = {"image": ("low", "high", "mean", "std"), "full": ("thin", "cropped_full"), "partial": ("cropped_partial",)}
"""What a case has from each of its arrays."""


class Grey(NamedTuple):
    """Images in 8 bits.

    Attributes:
        image: ``(channels, I, J, K)``.
        low: Intensity that became 0, per channel.
        high: Intensity that became 255, per channel.
    """

    image: Bytes
    low: tuple[float, ...]
    high: tuple[float, ...]


class Voxels(Protocol):
    """Reads a scan on its own grid, from files, an archive or memory: in a worker process, and what is asked for."""

    def image(self) -> Grey:
        """The image."""

    def full(self) -> Labels:
        """The full mask, if the header has one."""

    def drawn(self) -> Labels:
        """The drawn partial labels, if the header has some."""


@dataclass(frozen=True)
class InMemory:
    """The voxels of a scan that is there already."""

    native: Native

    def image(self) -> Grey:
        """The image."""
        return Grey(self.native.image, self.native.low, self.native.high)

    def full(self) -> Labels:
        """The full mask."""
        assert self.native.full is not None
        return self.native.full

    def drawn(self) -> Labels:
        """The drawn partial labels."""
        assert self.native.drawn is not None
        return self.native.drawn


@dataclass(frozen=True)
class Given:
    """A scan that is to be in the store.

    Attributes:
        header: What is known of it.
        made_from: "image", "full" and "drawn": hashes of what each is read from.
        voxels: Reads them.
    """

    header: Header
    made_from: Mapping[str, str]
    voxels: Voxels


@dataclass(frozen=True)
class _Job:
    """The arrays of one scan that are missing, by the key that each gets: for a worker process."""

    store: Path
    case: PreparedCase
    voxels: Voxels
    options: PrepareOptions
    keys: Mapping[str, str]


def digest(*parts: object) -> str:
    """A short hash of anything JSON can hold."""
    return hashlib.blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=16).hexdigest()


def key_of(fingerprints: Sequence[str], options: PrepareOptions) -> str:
    """The hash of inputs and options: what an index is made from."""
    return digest(FORMAT, MADE, list(fingerprints), asdict(options))


def parts_of(header: Header) -> dict[str, str]:
    """Hashes of what the arrays of a scan are made from, where nothing but its fingerprint is known."""
    return {part: digest(header.fingerprint, part) for part in ("image", "full", "drawn")}


def existing(out: Path, key: str, index: str = INDEX) -> Prepared | None:
    """The scans of an index in ``out``, if they were made from ``key`` and all their entries are there."""
    return whole(out, previous(out, index), key)


def whole(out: Path, found: Prepared | None, key: str) -> Prepared | None:
    """``found``, on the same terms."""
    if found is None or found.hash != key:
        return None
    there = entries.listed(out)
    return found if all(entry.key in there for entry in found.all_entries()) else None


def previous(out: Path, index: str = INDEX) -> Prepared | None:
    """The scans of an index in ``out``, whatever they were made from."""
    try:
        return Prepared(out, index)
    except MixsegError:
        return None


def check_ours(out: Path) -> None:
    """Nothing, or one sentence about a folder that holds something else than a store."""
    ours = (entries.ENTRIES, STAMPS)
    check_replaceable(out, INDEX, PREPARED, harmless=lambda inside: inside.name in ours or inside.match(INDICES))


def build(
    out: Path,
    scans: Sequence[Given],
    options: PrepareOptions,
    *,
    workers: int | None,
    index: str = INDEX,
    before: Prepared | None = None,
) -> Prepared:
    """The prepared scans in the store ``out``: entries that are there stay, and those that are not are made.

    Args:
        out: A new or empty folder, or a store.
        scans: In the order of the index.
        options: The grid and the labels on it.
        workers: Processes; ``None`` is one per core.
        index: The name of the index.
        before: What it names now, if that was read.

    Raises:
        MixsegError: The scans do not belong together, one cannot be read, or the disk cannot be written. What was
            finished before stays, and need not be made again.
    """
    check_ours(out)
    headers = [scan.header for scan in scans]
    names, channels = check_headers(headers)
    classes = options.classes(names)
    cases = grid.lay_out(headers, options)
    keys = [keys_of(scan, case, options) for scan, case in zip(scans, cases, strict=True)]
    before = before or previous(out, index)
    facts = _known(out, before, keys)
    jobs = [
        _Job(out, case, scan.voxels, options, missing)
        for case, scan, wanted in zip(cases, scans, keys, strict=True)
        if (missing := {part: key for part, key in wanted.items() if key not in facts})
    ]
    if jobs:
        sweep_entries(out)
        for made in run_all(_make, jobs, names=[job.case.id for job in jobs], label="preparing", workers=workers):
            facts |= made
    cases = [completed(case, wanted, facts) for case, wanted in zip(cases, keys, strict=True)]
    parts = [{part: (key, facts[key]["checksum"]) for part, key in wanted.items()} for wanted in keys]
    content = {
        "format": FORMAT,
        "hash": key_of([header.fingerprint for header in headers], options),
        "content": f"{FORMAT}-{digest([[part, made[1]] for of in parts for part, made in of.items()])}",
        "options": asdict(options),
        "classes": classes,
        "channels": channels,
        "cases": [{**case.as_json(), "parts": of} for case, of in zip(cases, parts, strict=True)],
    }
    with replacing(out / index) as temporary:
        temporary.write_text(json.dumps(content))  # without indent, which takes ten times as long
    if before is not None and before.index["format"] == flat.FORMAT:
        flat.remove(out)
    return Prepared(out, index)


def keys_of(scan: Given, case: PreparedCase, options: PrepareOptions) -> dict[str, str]:
    """The key of each array of a scan: a hash of all that its values depend on, and of nothing else."""
    place = (options.dims, case.header.shape, case.shape, case.field)
    classes = (case.header.classes, options.target)
    keys = {"image": digest(MADE, "image", scan.made_from["image"], options.clip, options.clip_by, place)}
    if case.has_full:
        keys["full"] = digest(MADE, "full", scan.made_from["full"], classes, place)
    if case.has_partial and _is_generated(case, options):
        keys["partial"] = digest(MADE, options.partial, options.seed, case.id, keys["full"])
    elif case.has_partial:
        keys["partial"] = digest(MADE, "drawn", scan.made_from["drawn"], classes, place)
    return keys


def completed(case: PreparedCase, keys: Mapping[str, str], facts: Mapping[str, Facts]) -> PreparedCase:
    """``case`` with what was found out while its arrays were made."""
    found = {name: facts[key][name] for part, key in keys.items() for name in FACTS[part]}
    return replace(case, **tuples(found))


def sweep_entries(out: Path) -> None:
    """Remove what processes of this machine were writing when they were killed."""
    for folder in (out, *(out / entries.ENTRIES).glob("??")):
        sweep(folder)


def _known(out: Path, before: Prepared | None, wanted: Collection[Mapping[str, str]]) -> dict[str, Facts]:
    """By key, what is known of those entries that are there: from the index before, or else from beside them."""
    there = entries.listed(out)
    facts: dict[str, Facts] = {}
    for case in before.cases if before is not None else ():
        for part in entries.PARTS:
            entry = before.entry(part, case) if before is not None else None
            if entry is not None and entry.key in there:
                found = {name: getattr(case, name) for name in FACTS[part]}
                facts[entry.key] = {"checksum": entry.checksum, **found}
    for keys in wanted:
        for part, key in keys.items():
            if key in there and key not in facts and (read := entries.read_facts(out, part, key)) is not None:
                facts[key] = read
    return facts


def _is_generated(case: PreparedCase, options: PrepareOptions) -> bool:
    return options.partial in GENERATORS and case.has_full


def _make(job: _Job) -> dict[str, Facts]:
    """Make the arrays of one scan that are missing; by key, what was found out meanwhile."""
    case, options, store, made = job.case, job.options, job.store, dict[str, Facts]()
    if key := job.keys.get("image"):
        grey = job.voxels.image()
        image = grid.image_on_grid(grey.image, case)
        mean, std = grid.moments(image, case)
        known: dict[str, Any] = {"low": grey.low, "high": grey.high, "mean": mean, "std": std}
        made[key] = entries.write_image(store, key, image, known)
    generated = "partial" in job.keys and _is_generated(case, options)
    if "full" in job.keys or generated:
        mask = job.voxels.full()
        on_grid = grid.mask_on_grid(mask, case, options)
        if key := job.keys.get("full"):
            beyond = grid.cut_off(on_grid, case)
            known = {"thin": grid.thinned(mask, on_grid, case, options), "cropped_full": len(beyond)}
            made[key] = entries.write_labels(store, key, grid.cropped(on_grid, case), known, beyond)
        if generated:
            made |= _make_partial(job, grid.generated(on_grid, case, options))
    if "partial" in job.keys and not generated:
        made |= _make_partial(job, grid.strokes_on_grid(job.voxels.drawn(), case, options))
    return made


def _make_partial(job: _Job, partial: Labels) -> dict[str, Facts]:
    key, kept = job.keys["partial"], grid.cropped(partial, job.case)
    known = {"cropped_partial": grid.labelled(partial) - grid.labelled(kept)}
    return {key: entries.write_labels(job.store, key, kept, known)}
