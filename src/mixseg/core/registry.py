"""Rows by name: those of this package, and those that other packages add through an entry point."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from mixseg.core.messages import log

Row = TypeVar("Row")


class Registry(Mapping[str, Row], Generic[Row]):
    """A table of rows that other packages can add to.

    A package adds a row by an entry point whose name is that of the row: ``[project.entry-points."mixseg.methods"]``
    and ``my-method = "my_package:ROW"``. They are looked up when a name is asked for that is no row of ours, or all
    names are: importing such a package imports this one, which must be complete by then.

    Args:
        rows: Those of this package, which nobody replaces.
        group: Of the entry points.
        kind: What a row is, and what else is passed over with a warning.
    """

    def __init__(self, rows: Mapping[str, Row], *, group: str, kind: type[Row]) -> None:
        self.group, self.kind = group, kind
        self._ours = dict(rows)
        self._all: dict[str, Row] | None = None

    def __getitem__(self, name: str) -> Row:
        return self._ours[name] if name in self._ours else self._rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def forget(self) -> None:
        """Look the entry points up again when they are next needed: another package was installed."""
        self._all = None

    @property
    def _rows(self) -> dict[str, Row]:
        if self._all is None:
            self._all = dict(self._ours)
            for point in entry_points(group=self.group):
                self._add(point)
        return self._all

    def _add(self, point: EntryPoint) -> None:
        """The row of an entry point; one that cannot be used must not take the others with it."""
        assert self._all is not None, "rows are added to a table that is there"
        where = f"{point.name!r} ({point.value}, an entry point of {point.dist.name if point.dist else 'a package'})"
        if point.name in self._all:
            log.warning(f"{where} is passed over: there is a row of that name already; give it another.")
            return
        try:
            row = point.load()
        except Exception as error:  # whatever the code of others raises
            log.warning(f"{where} cannot be imported ({type(error).__name__}: {error}): mend or remove that package.")
            return
        if isinstance(row, self.kind):
            self._all[point.name] = row
        else:
            log.warning(f"{where} is passed over: it is a {type(row).__name__}, not a {self.kind.__name__}.")
