"""Tables of pages: results of audits, and settings."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from seper_reward.runtime.json_files import leaves

_ENDS = ("interval", "sd")  # fields that share a cell with the number next to them
_MISSING = "–"


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


def _number(value: float) -> str:
    """Return a number with three decimals, fewer if it is large, with typographic signs."""
    if isinstance(value, int):
        text = str(value)
    elif value and not 0.001 <= abs(value) < 1000:
        text = f"{value:.3g}"
    else:
        text = f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"
    return text.replace("-", "−")
