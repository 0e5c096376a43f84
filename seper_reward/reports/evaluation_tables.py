"""Find the JSON files of evaluations in folders, and lay out any of them as tables."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seper_reward.runtime.json_files import leaves, read_lines

_RESULTS = "results.json"  # of trainers
_SETTINGS = "settings"
_ENDS = ("interval", "sd")  # fields that share a cell with the number next to them
_MISSING = "–"
_MIN_OVERLAP = 0.5  # least share of common columns among rows of one table


@dataclass(frozen=True)
class Cell:
    """A cell of a table; ``number`` is for sorting, and ``None`` for texts."""

    text: str
    number: float | None = None


@dataclass(frozen=True)
class Table:
    """A table of results."""

    title: str  # the rows' common part, such as the path of their fields; may be empty
    header: tuple[str, ...]  # names of the columns; the first columns name a row and can have empty names
    rows: tuple[tuple[Cell, ...], ...]

    @property
    def numeric(self) -> list[bool]:
        """Whether each column has only numbers and gaps."""
        columns = [
            [cell for cell in column if cell.text not in ("", _MISSING)] for column in zip(*self.rows, strict=True)
        ]
        return [bool(column) and all(cell.number is not None for cell in column) for column in columns]


@dataclass(frozen=True)
class Evaluation:
    """An evaluation that was found in a file."""

    name: str  # path of its file, relative to the given folder
    result: Mapping[str, Any]
    settings: Mapping[str, Any]  # empty if the file has none
    # rows of the file `NAME_held_out.jsonl` next to it, as `seper-reward train policy` writes
    rollouts: Sequence[Mapping[str, Any]] = ()


def read_evaluations(paths: Sequence[str | Path]) -> list[Evaluation]:
    """Read the evaluations in files and folders.

    In folders, at any depth, these are JSON files with ``settings``, as written by `seper-reward evaluate ... --json`,
    and ``results.json`` of trainers.

    Args:
        paths: Files with a JSON object each, and folders.

    Raises:
        OSError: A path does not exist.
        ValueError: A given file is not a JSON object, or a folder has no evaluation.
    """
    found = []
    for path in map(Path, paths):
        if not path.is_dir():
            result = _object(path)
            if result is None:
                raise ValueError(f"{path}: expected a JSON object written by `seper-reward evaluate ... --json`")
            found.append(_evaluation(path.name, result, path))
            continue
        inside = [(file, _object(file)) for file in sorted(path.rglob("*.json"))]
        own = [
            _evaluation(str(file.relative_to(path)), it, file)
            for file, it in inside
            if it and _is_evaluation(file, it)
        ]
        if not own:
            raise ValueError(
                f"{path}: expected JSON files of evaluations, got none with {_SETTINGS!r} among {len(inside)}; write "
                "some with `seper-reward evaluate ... --json`, or name the files themselves"
            )
        found += own
    return found


def result_tables(result: Mapping[str, Any]) -> list[Table]:
    """Lay out a result as tables: its innermost fields become columns, and the names above them identify rows.

    Adjacent rows with the same columns share a table, even under different names. A table with more columns than rows
    is transposed. A result has mappings and lists of mappings, however deep, with numbers, texts and lists of these as
    leaves.
    """
    groups: list[list[tuple[tuple[str, ...], dict[str, Cell]]]] = []
    for path, cells in _rows(result, ()):
        alike = next((group for group in groups if _fits(group[0], path, cells)), None)
        if alike is None:
            groups.append([(path, cells)])
        else:
            alike.append((path, cells))
    return [_table(group) for group in groups]


def rollouts_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Lay out held-out rollouts of a policy: after training, or before it if there are no others.

    The rows of `seper-reward train policy` have rollouts of several policies and rules (field ``by``).
    """
    policy = "after" if any(row["by"] == "after" for row in rows) else "before"
    shown = [row for row in rows if row["by"] == policy]
    fields = ("accuracy", "seper", "reward", "tokens")
    cells = [
        (
            Cell(str(row.get("question", row["id"]))),
            Cell("yes" if row["needed"] else "no"),
            Cell(" · ".join(row["queries"]) or _MISSING),
            Cell(row["answer"] or _MISSING),
            *(value_cell(row[name]) for name in fields),
        )
        for row in shown
    ]
    header = ("question", "needs a search", "searches", "answer", *fields)
    return Table(f"held-out rollouts of the policy {policy} training", header, tuple(cells))


def settings_table(settings: Mapping[str, Any]) -> Table:
    """Lay out settings as one table: the path of a field, with dots, and its value in the file."""
    rows = [
        (Cell(path), Cell(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)))
        for path, value in leaves(settings)
    ]
    return Table("", ("", ""), tuple(rows))


def value_cell(value: Any) -> Cell:
    """Return a value as a cell: a number with up to three decimals, ``{"mean", "interval"}`` in one, a dash for none.

    >>> value_cell({"mean": 0.51234, "interval": [0.4, 0.6]}).text, value_cell([0.5, None]).text
    ('0.512 [0.400, 0.600]', '[0.500, –]')
    """
    if value is None:
        return Cell(_MISSING)
    if isinstance(value, Mapping):
        (name,) = {*value} - {*_ENDS}
        center = value_cell(value[name])
        if value.get("sd") is not None:
            return Cell(f"{center.text} ± {value_cell(value['sd']).text}", center.number)
        interval = f" {value_cell(value['interval']).text}" if value.get("interval") else ""
        return Cell(center.text + interval, center.number)
    if isinstance(value, list):
        text = ", ".join(value_cell(each).text for each in value)
        return Cell(
            text if any(isinstance(each, (str, list)) for each in value) else f"[{text}]" if text else _MISSING
        )
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return Cell(str(value))
    return Cell(_number(value), float(value))


def _evaluation(name: str, result: Mapping[str, Any], path: Path) -> Evaluation:
    settings = result.get(_SETTINGS)
    rollouts = path.with_name(f"{path.stem}_held_out.jsonl")
    known = isinstance(settings, Mapping)
    return Evaluation(
        name,
        {key: value for key, value in result.items() if not (known and key == _SETTINGS)},
        settings if isinstance(settings, Mapping) else {},
        list(read_lines(rollouts)) if rollouts.is_file() else (),
    )


def _object(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _is_evaluation(path: Path, value: Mapping[str, Any]) -> bool:
    """Return whether a JSON object in a folder is an evaluation; files with ``decides`` are provenance of labels."""
    return path.name == _RESULTS or (isinstance(value.get(_SETTINGS), Mapping) and "decides" not in value)


def _rows(value: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], dict[str, Cell]]]:
    """Yield the innermost fields of a value with the path above them."""
    ends = {str(name): value_cell(each) for name, each in value.items() if _is_end(each)}
    if ends:
        yield path, ends
    for name, each in value.items():
        if isinstance(each, list) and not _is_end(each):
            each = {str(number): item for number, item in enumerate(each, 1)}
        if isinstance(each, Mapping) and not _is_end(each):
            yield from _rows(each, (*path, str(name)))


def _is_end(value: Any) -> bool:
    """Return whether a value is one cell."""
    if isinstance(value, Mapping):
        others = [each for name, each in value.items() if name not in _ENDS]
        return len(value) == 2 and len(others) == 1 and not isinstance(others[0], (Mapping, list))
    if isinstance(value, list):
        return not any(isinstance(item, Mapping) for item in value)
    return True


def _fits(first: tuple[tuple[str, ...], dict[str, Cell]], path: tuple[str, ...], cells: Mapping[str, Cell]) -> bool:
    """Return whether a row belongs to the table that begins with ``first``."""
    shared, both = first[1].keys() & cells.keys(), first[1].keys() | cells.keys()
    return len(first[0]) == len(path) and len(shared) >= _MIN_OVERLAP * len(both)


def _table(group: Sequence[tuple[tuple[str, ...], Mapping[str, Cell]]]) -> Table:
    columns = list(dict.fromkeys(name for _, cells in group for name in cells))
    places = range(len(group[0][0]))
    shared = [at for at in places if len({path[at] for path, _ in group}) == 1]
    names = [tuple(path[at] for at in places if at not in shared) for path, _ in group]
    title = " · ".join(_title(group[0][0][at]) for at in shared)
    cells = [[row.get(column, Cell("")) for column in columns] for _, row in group]
    if not names[0] or (len(names[0]) == 1 and len(columns) > len(group)):
        turned = zip(columns, *cells, strict=True)
        header = ("", *(_title(name[0]) if name else "" for name in names))
        return Table(title, header, tuple((Cell(_title(column)), *row) for column, *row in turned))
    header = (*[""] * len(names[0]), *map(_title, columns))
    rows = [(*(_name_cell(part) for part in name), *row) for name, row in zip(names, cells, strict=True)]
    return Table(title, header, tuple(rows))


def _name_cell(name: str) -> Cell:
    """Return the cell of a name; names that are numbers, such as depths, are sorted as numbers."""
    try:
        return Cell(_title(name), float(name))
    except ValueError:
        return Cell(_title(name))


def _title(name: str) -> str:
    return name.replace("_", " ")


def _number(value: float) -> str:
    """Return a number with three decimals, fewer if it is large, with typographic signs."""
    if isinstance(value, int):
        text = str(value)
    elif value and not 0.001 <= abs(value) < 1000:
        text = f"{value:.3g}"
    else:
        text = f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"
    return text.replace("-", "−")
