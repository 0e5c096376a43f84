"""File formats: JSON, JSON lines, Parquet and saved datasets in, rows with file and row number out."""

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seper_reward.types import UnscorableError

_FORMATS = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".parquet")


class BadRowError(UnscorableError):
    """One row of the input cannot be used; the others can."""


@dataclass(frozen=True)
class BrokenRow:
    """A line that could not be read as JSON."""

    reason: str
    text: str


def read_rows(path: str | Path) -> Iterator[tuple[str, Any]]:
    """Yield ``(where, row)`` of a file; a line that is not JSON is yielded as a ``BrokenRow``.

    Raises:
        OSError: The file is missing or cannot be read.
        ValueError: The format is unknown.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file or folder; expected one of {', '.join(_FORMATS)} or a dataset")
    if path.is_dir():
        from datasets import load_from_disk

        try:
            dataset = load_from_disk(str(path))
        except FileNotFoundError as error:
            raise ValueError(f"{path}: expected a folder written by Dataset.save_to_disk ({error})") from error
        yield from ((f"{path}, row {number}", row) for number, row in enumerate(dataset, 1))
    elif path.name.endswith(".parquet"):
        import pyarrow.parquet

        rows = pyarrow.parquet.read_table(path).to_pylist()
        yield from ((f"{path}, row {number}", row) for number, row in enumerate(rows, 1))
    elif path.name.endswith((".jsonl", ".jsonl.gz")):
        yield from _json_lines(path)
    elif path.name.endswith((".json", ".json.gz")):
        yield from _json_array(path)
    else:
        raise ValueError(f"{path}: expected a name ending in {', '.join(_FORMATS)}, or a dataset folder")


def read_valid_rows(path: str | Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield ``(where, row)`` of a file in which every row must be an object.

    Raises:
        BadRowError: A row cannot be read or is no object; the message names file and row.
        OSError: The file is missing or cannot be read.
        ValueError: The format is unknown.
    """
    for where, row in read_rows(path):
        if not isinstance(row, Mapping):
            reason = row.reason if isinstance(row, BrokenRow) else f"expected an object, got {shown(row)}"
            raise BadRowError(f"{where}: {reason}")
        yield where, row


def _json_array(path: Path) -> Iterator[tuple[str, Any]]:
    with gzip.open(path) if path.name.endswith(".gz") else path.open("rb") as lines:
        text = b"".join(_whole_lines(lines, path))
    try:
        rows = json.loads(text.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{path}: expected a JSON array of rows in UTF-8 ({error}); JSON lines end in .jsonl"
        ) from error
    if not isinstance(rows, list):
        raise ValueError(f"{path}: expected a JSON array of rows, got {shown(rows)}; put the rows in a list")
    yield from ((f"{path}, row {number}", row) for number, row in enumerate(rows, 1))


def _json_lines(path: Path) -> Iterator[tuple[str, Any]]:
    with gzip.open(path) if path.name.endswith(".gz") else path.open("rb") as lines:
        for number, line in enumerate(_whole_lines(lines, path), 1):
            if not line.strip():
                continue
            start = line[:200].decode("utf-8", "replace")
            row: Any
            try:
                row = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
            except UnicodeDecodeError as error:
                row = BrokenRow(
                    f"expected UTF-8, got byte {line[error.start]:#04x} at {error.start}; re-encode it", start
                )
            except (ValueError, RecursionError) as error:
                row = BrokenRow(f"expected one JSON object on the line, got {error}; repair or drop the line", start)
            yield f"{path}, line {number}", row


def _whole_lines(lines: Iterable[bytes], path: Path) -> Iterator[bytes]:
    try:
        yield from lines
    except EOFError as error:
        raise OSError(f"{path}: the compressed file ends too early ({error}); copy it again") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise OSError(f"{path}: expected gzip ({error}); rename it or copy it again") from error


def shown(value: Any) -> str:
    """Return a value as an error message shows it: with its type, and cut after 80 characters."""
    text = "nothing" if value is None else f"{value!r} ({type(value).__name__})"
    return text if len(text) <= 80 else text[:80] + "…"


def is_unicode(text: str) -> bool:
    """Return whether a text can be written as UTF-8: half a surrogate pair, which JSON may hold, cannot."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
