"""What files of earlier versions call otherwise: whoever reads such a file asks here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NAMES = {"bare": "unlabeled", "mix": "cutmix", "looks": "validation", "unlabelled": "unlabeled"}
"""Kinds of supervision, terms of the loss and phases of a run."""


def renamed(content: Mapping[str, Any], names: Mapping[str, str] = NAMES) -> dict[str, Any]:
    """The same with today's names for its keys; a key that has its new name already wins."""
    return {new: value for key, value in content.items() if (new := names.get(key, key)) == key or new not in content}
