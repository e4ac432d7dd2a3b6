"""``mixseg store``: what lies in a store of prepared scans, whether it is whole, and what nothing needs any more."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Literal

from tyro import conf

from mixseg.cli.flags import Folder
from mixseg.core.errors import SomeFailedError, UsageError
from mixseg.core.messages import result, say

Action = Annotated[Literal["ls", "verify", "gc"], conf.Positional, conf.arg(metavar="ls|verify|gc")]


def store(action: Action, folder: Folder, *, drop: bool = False, all: bool = False) -> None:  # noqa: A002 - a flag
    """Look after a store of prepared scans: what mixseg prepare writes, and train keeps as .prepared/NAME.

    $ mixseg store ls arrays

    $ mixseg store verify arrays

    $ mixseg store gc .prepared/Dataset001_Heart-1f2e3d4c

    ls lists the scans and the bytes of their arrays; verify reads every array and compares it with its checksum; gc
    removes arrays that no index names, such as those of labels that have changed since.

    Args:
        action: What to do.
        folder: The store.
        drop: With verify: take damaged arrays out, so that the next prepare or train makes them anew.
        all: With gc: also arrays of the last hour, which another process may be making just now.
    """
    for flag, given, verb in (("--drop", drop, "verify"), ("--all", all, "gc")):
        if given and action != verb:
            raise UsageError(f"{flag} is for {verb}: leave it out.", "flag-not-applicable", flag=flag)
    {"ls": lambda: _list(folder), "verify": lambda: _verify(folder, drop=drop), "gc": lambda: _collect(folder, all)}[
        action
    ]()


def _list(folder: Folder) -> None:
    """A line a scan, and how much all take."""
    from mixseg.cli.printing import print_table
    from mixseg.data.prepare.entries import PARTS
    from mixseg.data.prepare.upkeep import rows

    found, total, names = rows(folder), Counter[str](), set[str]()
    for index, case, sizes in found:
        total.update(sizes)
        names.add(index)
        result({"scan": case.id, "index": index, "kind": case.kind, "shape": case.shape, "bytes": sizes})
    head = ("scan", *(("index",) if len(names) > 1 else ()), "kind", "grid", *PARTS)
    lines = [
        (
            case.id,
            *((index,) if len(names) > 1 else ()),
            case.kind,
            "x".join(map(str, case.shape)),
            *(_size(sizes.get(part, 0)) for part in PARTS),
        )
        for index, case, sizes in found
    ]
    print_table(lines, head)
    say(f"{len(found)} scans: {', '.join(f'{part} {_size(total[part])}' for part in PARTS)}.")


def _verify(folder: Folder, *, drop: bool) -> None:
    """Read every array.

    Raises:
        SomeFailedError: Some are not what was written.
    """
    from mixseg.data.prepare import upkeep

    bad = list(upkeep.damages(folder))
    for each in bad:
        say(f"{each.case}, {each.part}: {each.error}")
        result({"scan": each.case, "part": each.part, "error": each.error.described, "dropped": drop})
        if drop:
            upkeep.drop(folder, each)
    if not bad:
        say(f"All arrays of {folder} are what was written.")
        return
    remedy = "they are taken out: prepare or train again" if drop else "--drop takes them out"
    raise SomeFailedError(
        f"{len(bad)} arrays of {folder} are damaged or missing ({remedy}); all others can be used.",
        "some-failed",
        failed=len(bad),
        folder=folder,
    )


def _collect(folder: Folder, all_: bool) -> None:
    from mixseg.data.prepare.upkeep import collect

    count, size = collect(folder, all_=all_)
    result({"removed": count, "bytes": size})
    say(f"{count} arrays that no index names are removed: {_size(size)}.")


def _size(count: float) -> str:
    """Bytes as people say them."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.4g} GB"
