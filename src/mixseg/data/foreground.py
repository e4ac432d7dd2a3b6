"""Whether a full mask shows anything of the classes to segment: one that shows nothing can choose no checkpoint."""

from __future__ import annotations

from collections.abc import Collection

from mixseg import io
from mixseg.errors import MixsegError
from mixseg.types import Case


def shows_foreground(case: Case, target: Collection[str] = ()) -> bool:
    """Whether the full mask of ``case`` has a voxel of ``target``, or of any class above the background.

    One that cannot be read may have: what is wrong with it is told where its scan is prepared or inspected.
    """
    if case.full is None:
        return False
    wanted = {index for index, name in enumerate(case.classes) if index and (not target or name in target)}
    try:
        found = io.count_ids(case.full)
    except MixsegError:
        return True
    meanings = case.full.ids or {}
    return any(meanings.get(value) in wanted for value in found)
