"""Rows as CSV, for spreadsheets and pandas."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from seper_reward.runtime.json_files import write_text

ENDINGS = {".csv": ",", ".tsv": "\t"}


def write_csv(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Write rows of equal columns as a table, tab-separated for .tsv; ``None`` is an empty cell."""
    table = io.StringIO(newline="")
    # csv does not quote a lone carriage return, at which readers end a row
    returns = any(isinstance(value, str) and "\r" in value for row in rows for value in row.values())
    writer = csv.DictWriter(
        table,
        list(rows[0]),
        delimiter=ENDINGS.get(path.suffix, ","),
        lineterminator="\n",
        quoting=csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL,
    )
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, table.getvalue())
