"""The layout of rows: recognised by their columns, or given by the user."""

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from seper_reward.data.formats import ragas, ragchecker
from seper_reward.data.formats.layout import FIELDS, Columns, Row
from seper_reward.data.formats.published import BEIR, PUBLISHED, Published
from seper_reward.data.rows import BadRowError, BrokenRow, shown, stated_list

Layout = Columns | Published
_FIRST_ROWS = 100  # rows at the beginning of a source that are examined
OURS = Columns("seper-reward", {name: (name,) for name in FIELDS})
_KNOWN = ragchecker.RagChecker(
    "known columns",
    {
        "question": ("question", *ragas.QUESTION, *ragchecker.QUESTION),
        "answers": ("answers", *ragas.ANSWERS, *ragchecker.ANSWERS),
        "passages": ("passages", *ragas.PASSAGES, *ragchecker.PASSAGES, "context"),
    },
)
#: Layouts, the most specific first; the last accepts columns of several libraries together.
LAYOUTS: tuple[Layout, ...] = (*PUBLISHED, OURS, BEIR, ragchecker.RAGCHECKER, ragas.RAGAS, _KNOWN)


@dataclass(frozen=True)
class Reading:
    """The layout and columns of the rows of one source."""

    layout: Layout = OURS
    # columns that the user named, by our names; they count before the layout's, and several are joined
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    separator: str | None = None  # text between the aliases in a cell of answers; None if a cell has one
    about: str = ""  # description of the recognised layout in one line; empty for our own layout

    def convert(self, row: Any) -> Any:
        """Return a row as ``{id?, question, answers, passages}``; values other than objects are returned unchanged.

        Raises:
            BadRowError: The row could not be parsed, or its layout differs from the rows before.
        """
        if isinstance(row, BrokenRow):
            raise BadRowError(row.reason)
        if not isinstance(row, Mapping):
            return row
        named = {name: _joined([_value_at(row, each) for each in names]) for name, names in self.columns.items()}
        try:
            if self.layout.fits(row, ()):
                return self._separated({**self.layout.convert(_without(row, self.columns)), **named})
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise BadRowError(f"expected a row of {self.layout.name} ({error!r}), got {shown(row)}") from error
        raise BadRowError(f"expected a row of {self.layout.name}, as before, got {shown(dict(row))}")

    def _separated(self, row: dict[str, Any]) -> dict[str, Any]:
        answers = row.get("answers")
        if self.separator is None or not isinstance(answers, (str, list)):
            return row
        cells = [answers] if isinstance(answers, str) else answers
        parts = [cell.split(self.separator) if isinstance(cell, str) else [cell] for cell in cells]
        aliases = [part.strip() if isinstance(part, str) else part for part in itertools.chain.from_iterable(parts)]
        return {**row, "answers": [alias for alias in aliases if alias != ""]}


def recognise(
    rows: Iterable[tuple[str, Any]],
    source: str,
    needed: Collection[str],
    columns: Mapping[str, str | Sequence[str]],
    separator: str | None = None,
) -> tuple[Reading, Iterator[tuple[str, Any]]]:
    """Recognise the layout of rows from the first ones.

    Args:
        rows: ``(where, row)`` as ``read_rows`` yields them.
        source: Their name, for messages.
        needed: Those of ``FIELDS`` that each row must have.
        columns: Of our names ``id`` and ``FIELDS`` those that the user gave a column for; a dotted path such as
            ``answer.aliases`` goes into objects, and into each item of a list. Several columns are joined.
        separator: Text between the aliases in a cell of answers; ``None`` if a cell has one.

    Returns:
        The reading, and an iterator over all rows, including the examined ones.

    Raises:
        ValueError: No layout fits; the message names the columns found.
    """
    rows = iter(rows)
    first = list(itertools.islice(rows, _FIRST_ROWS))
    named = {name: (each,) if isinstance(each, str) else tuple(each) for name, each in columns.items()}
    reading = _reading([row for _, row in first if isinstance(row, Mapping)], source, needed, named)
    return replace(reading, separator=separator), itertools.chain(first, rows)


def parse_columns(words: Sequence[str]) -> dict[str, list[str]]:
    """Return the columns that words such as ``answers=gold`` name, by our names.

    Answers and passages may have several columns.

    Raises:
        ValueError: A word has another form, names nothing of ours, or names a second column of the question or id.
    """
    columns: dict[str, list[str]] = {}
    for word in words:
        name, _, column = word.partition("=")
        if name not in ("id", *FIELDS) or not column:
            raise ValueError(f"columns must be like question=COLUMN, for id, {', '.join(FIELDS)}, got {word!r}")
        if name in columns and name in ("id", "question"):
            raise ValueError(f"columns names two for {name}, {columns[name][0]!r} and {column!r}; name one")
        columns.setdefault(name, []).append(column)
    return columns


def _reading(
    rows: Sequence[Row], source: str, needed: Collection[str], columns: Mapping[str, Sequence[str]]
) -> Reading:
    for column in itertools.chain.from_iterable(columns.values()):
        if rows and not any(_has(row, column) for row in rows):
            raise ValueError(
                f"{source}: expected a column {column!r}, got {_listed(rows)}; correct the setting columns"
            )
    in_rows = {name for row in rows for name in _stated(_without(row, columns))} - set(columns)
    for row in rows:
        rest, least = _without(row, columns), set(needed) - set(columns)
        # first a layout that reads answers and passages: passages in rows count before those of a corpus
        for wanted in (least | in_rows, least):
            for layout in LAYOUTS:
                if layout.fits(rest, wanted):
                    return Reading(layout, columns, about=_about(layout, row, source, columns))
    if rows:
        raise ValueError(_unknown(rows, source, needed, columns))
    return Reading(columns=columns)


def _stated(row: Row) -> list[str]:
    """Return those of answers and passages for which a row has texts in a known column."""
    found = _KNOWN.found(row)
    columns = {name: row[found[name]] for name in ("answers", "passages") if name in found}
    return [name for name, value in columns.items() if value and isinstance(value, (str, list))]


def _about(layout: Layout, row: Row, source: str, columns: Mapping[str, Sequence[str]]) -> str:
    given = ", ".join(f"{name} from {' and '.join(map(repr, named))}" for name, named in columns.items())
    if layout is OURS:
        return f"{source}: {given}, as given in columns" if given else ""
    except_given = f"; but {given}, as given in columns" if given else ""
    return f"{source}: read as {layout.name}: {layout.read_from(row)}{except_given}"


def _unknown(rows: Sequence[Row], source: str, needed: Collection[str], columns: Mapping[str, Sequence[str]]) -> str:
    found = {*_KNOWN.found(rows[0]), *columns}
    missing = [name for name in FIELDS if name in needed and name not in found]
    way_out = f"name it: --columns {' '.join(f'{name}=COLUMN' for name in missing)}"
    if "passages" in missing:
        way_out += ", or give a corpus to find passages in"
    if "answers" in missing:
        way_out += "; some labelers need no answers"
    if "answers" in missing and "answer" in rows[0]:
        way_out += "; 'answer' is not recognised, as it may be the output of a system"
    return f"{source}: found no column for {' and '.join(missing)}, got {_listed(rows)}; {way_out}"


def _listed(rows: Sequence[Row]) -> str:
    return f"the columns {', '.join(dict.fromkeys(str(name) for row in rows for name in row))}"


def _without(row: Row, columns: Mapping[str, Sequence[str]]) -> Row:
    """Return a row without the columns that the user named."""
    named = set(itertools.chain.from_iterable(columns.values()))
    return {name: value for name, value in row.items() if name not in named}


def _joined(values: Sequence[Any]) -> Any:
    """Return the value of one column, or those of several as one list; without empty items."""
    if len(values) == 1:
        return _filled(values[0])
    lists = map(stated_list, _filled(values))
    return list(itertools.chain.from_iterable(each if isinstance(each, list) else [each] for each in lists))


def _filled(value: Any) -> Any:
    """Return a list without empty items, as objects in a list may lack a field; other values as they are."""
    if not isinstance(value, list):
        return value
    return [_filled(item) for item in value if item not in (None, "")]


def _has(value: Any, path: str) -> bool:
    """Return whether there may be a value at a dotted path: whether none of its names is unknown."""
    if isinstance(value, list):
        return not value or any(_has(item, path) for item in value)
    if not isinstance(value, Mapping):
        return value is None
    name, _, rest = path.partition(".")
    return path in value or (bool(rest) and name in value and _has(value[name], rest))


def _value_at(value: Any, path: str) -> Any:
    """Return the value at a dotted path; ``None`` if there is none."""
    if isinstance(value, list):
        return [_value_at(item, path) for item in value]
    if not isinstance(value, Mapping):
        return None
    if path in value:
        return value[path]
    name, _, rest = path.partition(".")
    return _value_at(value.get(name), rest) if rest else None
