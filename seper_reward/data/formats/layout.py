"""Layouts: conversions of a library's rows to ``{id?, question, answers, passages}``."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]
FIELDS = ("question", "answers", "passages")


@dataclass(frozen=True)
class Columns:
    """A layout that differs from ours only in the names of its columns."""

    name: str
    # possible columns of each of our fields; the first non-empty one of a row counts
    names: Mapping[str, Sequence[str]]

    def fits(self, row: Row, needed: Collection[str]) -> bool:
        """Return whether a row has a column for each needed field."""
        return set(needed) <= set(self.found(row))

    def read_from(self, row: Row) -> str:
        """Return the source columns of the fields, for messages."""
        return ", ".join(f"{field} from {column!r}" for field, column in self.found(row).items())

    def convert(self, row: Row) -> dict[str, Any]:
        """Return the row with our column names."""
        return renamed(row, self.found(row))

    def found(self, row: Row) -> dict[str, str]:
        """Return the column of each field that a row has."""
        columns = {field: [name for name in names if name in row] for field, names in self.names.items()}
        return {field: min(names, key=lambda name: row[name] is None) for field, names in columns.items() if names}


def renamed(row: Row, columns: Mapping[str, str]) -> dict[str, Any]:
    """Return a row with some of its columns under our names; columns that had these names before are dropped."""
    others = {name: value for name, value in row.items() if name not in columns.values()}
    return {**others, **{field: row.get(column) for field, column in columns.items()}}
