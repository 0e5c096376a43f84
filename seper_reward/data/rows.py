"""Readers of JSON, JSON lines, CSV, Parquet and datasets; they yield rows with file and row number."""

import ast
import contextlib
import csv
import gzip
import io
import itertools
import json
import tokenize
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from seper_reward.data.formats.published import squad_rows
from seper_reward.data.hub_datasets import open_dataset
from seper_reward.runtime.imports import need
from seper_reward.types import UnscorableError

_FORMATS = (".jsonl", ".json", ".csv", ".tsv", ".parquet")  # all but Parquet also as .gz
_MOST_BYTES = 64_000_000  # of a row: label rows with long thoughts have 10 MB, and longer lines are no questions
_TOO_LONG = f"expected a row of at most {_MOST_BYTES // 10**6} MB, got a longer one; split it"


class BadRowError(UnscorableError):
    """One row of the input cannot be used; other rows are not affected."""


@dataclass(frozen=True)
class BrokenRow:
    """A line that could not be parsed."""

    reason: str
    text: str


def read_rows(source: str | Path | Iterable[Any], *, streaming: bool = False) -> Iterator[tuple[str, Any]]:
    """Yield ``(where, row)`` of a source; lines that cannot be parsed are yielded as ``BrokenRow``.

    Args:
        source: A file; a folder or hub id of a dataset, as for ``open_dataset``; or an iterable of rows, such as a
            ``datasets.Dataset`` or ``IterableDataset``.
        streaming: Whether to fetch rows of a dataset on the hub on demand instead of all at once.

    Raises:
        OSError: The source is missing or cannot be read.
        ValueError: The format is unknown, or the dataset's split does not exist.
    """
    if not isinstance(source, (str, Path)):
        yield from ((f"row {number}", row) for number, row in enumerate(source, 1))
    elif Path(source).is_file():
        yield from _file_rows(Path(source))
    elif str(source).removesuffix(".gz").endswith(_FORMATS):
        raise FileNotFoundError(
            f"{source}: no such file or folder; expected one of {', '.join(_FORMATS)}, a dataset's folder, or the id "
            "of a dataset on the hub, such as org/name:train"
        )
    else:
        rows = open_dataset(str(source), streaming=streaming)
        yield from ((f"{source}, row {number}", row) for number, row in enumerate(rows, 1))


def read_valid_rows(path: str | Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield ``(where, row)`` of a file in which every row must be an object.

    Raises:
        BadRowError: A row cannot be parsed or is not an object; the message names file and row.
        OSError: The file is missing or cannot be read.
        ValueError: The format is unknown.
    """
    for where, row in read_rows(path):
        if not isinstance(row, Mapping):
            reason = row.reason if isinstance(row, BrokenRow) else f"expected an object, got {shown(row)}"
            raise BadRowError(f"{where}: {reason}")
        yield where, row


def _file_rows(path: Path) -> Iterator[tuple[str, Any]]:
    name = path.name.removesuffix(".gz")
    if path.name.endswith(".parquet"):
        yield from ((f"{path}, row {number}", row) for number, row in enumerate(_parquet_rows(path), 1))
    elif name.endswith(".jsonl"):
        yield from _json_lines(path)
    elif name.endswith(".json"):
        yield from _json_rows(path)
    elif name.endswith((".csv", ".tsv")):
        yield from _csv_rows(path)
    else:
        raise ValueError(f"{path}: expected a name ending in {', '.join(_FORMATS)}, or a dataset's folder or id")


def _parquet_rows(path: Path) -> Iterable[Any]:
    table = need("pyarrow.parquet", "datasets").read_table(path)
    if "extension<arrow.json>" not in str(table.schema.types):
        return table.to_pylist()  # type: ignore[no-any-return]
    # Dataset decodes columns of mixed types, which datasets writes in its own encoding
    return need("datasets", "datasets").Dataset(table)  # type: ignore[no-any-return]


def _json_rows(path: Path) -> Iterator[tuple[str, Any]]:
    with _opened(path) as lines, _gzip_errors(path):
        text = lines.read()
    try:
        rows = json.loads(text.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        if isinstance(error, json.JSONDecodeError) and error.msg == "Extra data":
            yield from _json_lines(path)  # the format of Dataset.to_json
            return
        raise ValueError(
            f"{path}: expected a JSON array of rows in UTF-8 ({error}); JSON lines end in .jsonl"
        ) from error
    if isinstance(rows, dict):
        try:
            rows = squad_rows(rows) or rows.get("results") or rows
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path}: expected the JSON of SQuAD, but {error!r}; repair the file") from error
    if not isinstance(rows, list):
        raise ValueError(
            f"{path}: expected a JSON array of rows, SQuAD's 'data' or RAGChecker's 'results', got {shown(rows)}; put "
            "the rows in a list"
        )
    yield from ((f"{path}, row {number}", row) for number, row in enumerate(rows, 1))


def _json_lines(path: Path) -> Iterator[tuple[str, Any]]:
    with _opened(path) as lines:
        for number, line in enumerate(_whole_lines(lines, path), 1):
            if not line.strip():
                continue
            if len(line) > _MOST_BYTES:
                yield f"{path}, line {number}", BrokenRow(_TOO_LONG, line[:200].decode("utf-8", "replace"))
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


def _csv_rows(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the rows of a table with a header."""
    csv.field_size_limit(_MOST_BYTES)  # passages can exceed csv's default limit of a cell
    start = 1
    with _opened(path) as binary:
        lines = (_decoded(line) for line in _whole_lines(binary, path))
        try:
            header = next(lines, "").removeprefix("\ufeff")
            delimiter = max(",;\t", key=header.count)
            reader = csv.reader(itertools.chain([header], lines), delimiter=delimiter, strict=True)
            names = next(reader, [])
            # pandas writes its index as a first column without a name
            if not any(names) or not all(names[1:]) or len(set(names)) < len(names):
                raise ValueError(f"{path}: expected a header with a unique name for each column, got {names}")
            start = reader.line_num + 1
            for cells in reader:
                if cells:
                    yield f"{path}, line {start}", _csv_row(names, cells)
                start = reader.line_num + 1
        except (csv.Error, UnicodeDecodeError) as error:
            raise ValueError(f"{path}, line {start}: expected CSV in UTF-8 ({error}); save it as such") from error


def _decoded(line: bytes) -> str:
    if len(line) > _MOST_BYTES:
        raise csv.Error(_TOO_LONG)
    return line.decode()


def _csv_row(names: Sequence[str], cells: Sequence[str]) -> dict[str, Any] | BrokenRow:
    start = ",".join(cells)[:200]
    if len(cells) != len(names):
        return BrokenRow(f"expected {len(names)} cells, as in the header, got {len(cells)}; quote the cells", start)
    try:
        return {name: cell_value(cell) for name, cell in zip(names, cells, strict=True) if name}
    except BadRowError as error:
        return BrokenRow(str(error), start)


def cell_value(cell: str) -> Any:
    """Return a cell's list or object, parsed as JSON or a Python literal; else its text, or ``None`` if blank."""
    if not cell.startswith(("[", "{")):
        return cell or None
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(cell)
    try:
        value = ast.literal_eval(cell)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return cell
    breaks = (tokenize.NL, tokenize.NEWLINE)
    kinds = [token.type for token in tokenize.generate_tokens(io.StringIO(cell).readline) if token.type not in breaks]
    if (tokenize.STRING, tokenize.STRING) in itertools.pairwise(kinds):  # Python would join both strings
        raise BadRowError(
            f"a list without commas cannot be read ({shown(cell)}); Dataset.to_csv writes it so: save Parquet instead"
        )
    return value


def stated_list(value: Any) -> Any:
    """Return the list of texts, or of lists of them, that one text states, as in PopQA on the hub; else the value."""
    found = cell_value(value) if isinstance(value, str) else None
    return found if _has_texts_only(found) else value


def _has_texts_only(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) or _has_texts_only(each) for each in value)


def _opened(path: Path) -> Any:
    return gzip.open(path) if path.name.endswith(".gz") else path.open("rb")


def _whole_lines(file: IO[bytes], path: Path) -> Iterator[bytes]:
    """Yield the lines of a file, of longer ones than a row may be only the beginning."""
    with _gzip_errors(path):
        while line := file.readline(_MOST_BYTES + 1):
            yield line
            while len(line) > _MOST_BYTES and not line.endswith(b"\n"):
                line = file.readline(_MOST_BYTES + 1)


@contextlib.contextmanager
def _gzip_errors(path: Path) -> Iterator[None]:
    """Turn errors of decompression into an ``OSError`` that names the file."""
    try:
        yield
    except EOFError as error:
        raise OSError(f"{path}: the compressed file ends too early ({error}); copy it again") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise OSError(f"{path}: expected gzip ({error}); rename it or copy it again") from error


def shown(value: Any) -> str:
    """Return a value for an error message: with its type, and cut after 80 characters."""
    text = "nothing" if value is None else f"{value!r} ({type(value).__name__})"
    return text if len(text) <= 80 else text[:80] + "…"


def is_unicode(text: str) -> bool:
    """Return whether a text can be written as UTF-8; JSON allows half a surrogate pair, UTF-8 does not."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
