"""Tables for programs: a line per record, numbers as they are, an empty field where nothing is known."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence


def csv_text(records: Sequence[Mapping[str, object]]) -> str:
    """Records as CSV; the columns are those of the first one, then what others have besides."""
    columns = list(dict.fromkeys(name for record in records for name in record))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    for record in records:
        writer.writerow({name: "" if _unknown(value) else value for name, value in record.items()})
    return text.getvalue()


def _unknown(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))
