"""Records as tables of pandas, which is optional: its one home."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from mixseg.core.errors import MixsegError
from mixseg.evaluation.scores import Row

if TYPE_CHECKING:
    from pandas import DataFrame


def frame(records: Iterable[Mapping[str, object]], columns: Iterable[str] = ()) -> DataFrame:
    """A DataFrame with a line per record.

    Args:
        records: Of equal or of different keys; what one lacks is missing there.
        columns: Of the table, where there may be no record.

    Raises:
        MixsegError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError:
        raise MixsegError(
            "pandas is not installed, which tables in Python need: pip install 'mixseg[pandas]'.",
            "not-installed",
            package="pandas",
        ) from None
    records = [dict(record) for record in records]
    return pandas.DataFrame(
        records, columns=list(dict.fromkeys([*columns, *(key for each in records for key in each)]))
    )


def score_frame(rows: Iterable[Row]) -> DataFrame:
    """The scores of ``metrics.csv`` as a table, the class under its name there."""
    return frame(_record(row) for row in rows)


def _record(row: Row) -> dict[str, object]:
    content = asdict(row)
    content.pop("counts")
    first = {"case": content.pop("case"), "class": content.pop("label")}
    where = {key: content.pop(key) for key in ("branch", "checkpoint", "part", "patient")}
    return {**first, **where, **content}
