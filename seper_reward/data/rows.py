"""Rows of files and datasets, each with its file and row number; JSON is read here, all else by ``datasets``."""

import ast
import contextlib
import gzip
import io
import itertools
import json
import math
import re
import tokenize
import unicodedata
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from seper_reward.data.tables import NO_COLUMN, TABLES, open_bytes, open_dataset, open_table, with_class_names
from seper_reward.types import UnscorableError

_FORMATS = (".jsonl", ".json", *TABLES)
# names of the id field, in order of preference: ours, BEIR's, and the one of our label rows
IDS = ("id", "_id")
PASSAGE_IDS = (*IDS, "passage_id")
METADATA = "metadata"  # field of label rows for the input's own fields
_INVISIBLE = {"Cc", "Cf", "Zs", "Zl", "Zp"}  # Unicode's control and format characters, and blanks
_MISSING = {"", "nan", "NaN", "NULL", "null", "None", "<NA>", "NaT"}  # as pandas, numpy and SQL write it


class BadRowError(UnscorableError):
    """One row of the input cannot be used; other rows are not affected."""


@dataclass(frozen=True)
class BrokenRow:
    """A line that could not be parsed."""

    reason: str
    text: str


def read_rows(source: str | Path | Iterable[object]) -> Iterator[tuple[str, Any]]:
    """Yield ``(where, row)`` of a file, a dataset (``open_dataset``) or an iterable; ``BrokenRow`` for a wrong line.

    Rows are ``clean``. Raises ``OSError`` if the source cannot be read, ``ValueError`` for an unknown format or split.
    """
    return ((where, clean(row)) for where, row in _rows(source))


def _rows(source: str | Path | Iterable[object]) -> Iterator[tuple[str, Any]]:
    if not isinstance(source, (str, Path)):
        yield from ((f"row {number}", row) for number, row in enumerate(with_class_names(source), 1))
        return
    path = Path(source)
    name = path.name.removesuffix(".gz")
    if path.is_file() and name.endswith(".jsonl"):
        yield from _json_lines(path)
    elif path.is_file() and name.endswith(".json"):
        yield from _json_rows(path)
    elif path.is_file() and name.endswith(TABLES):
        yield from ((f"{path}, row {number}", _from_cells(row)) for number, row in enumerate(open_table(path), 1))
    elif path.is_file():
        raise ValueError(f"{path}: expected a name ending in {', '.join(_FORMATS)}, or a dataset's folder or id")
    elif name.endswith(_FORMATS):
        raise FileNotFoundError(
            f"{path}: no such file or folder; expected one of {', '.join(_FORMATS)}, a dataset's folder, or the id "
            "of a dataset on the hub, such as org/name:train"
        )
    else:
        rows = open_dataset(str(source))
        yield from ((f"{source}, row {number}", row) for number, row in enumerate(rows, 1))


def read_valid_rows(path: str | Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield ``(where, row)`` as they are in a file; a row that is no object raises ``BadRowError`` with both."""
    for where, row in _rows(path):
        if not isinstance(row, Mapping):
            reason = row.reason if isinstance(row, BrokenRow) else f"expected an object, got {shown(row)}"
            raise BadRowError(f"{where}: {reason}")
        yield where, row


def is_missing(value: object) -> bool:
    r"""Return whether a value stands for none: ``None``, NaN, a text without a visible character, or ``"nan"``.

    >>> [is_missing(value) for value in (None, float("nan"), " ", "\u200b", "NULL", "none", "?", 0)]
    [True, True, True, True, True, False, False, False]
    """
    if isinstance(value, str):
        return value.strip() in _MISSING or all(unicodedata.category(character) in _INVISIBLE for character in value)
    return value is None or (isinstance(value, float) and math.isnan(value))


def is_empty_passage(value: object) -> bool:
    """Return whether a value of ``passages`` has an empty text, and no id that stands for a text of a corpus."""
    if not isinstance(value, Mapping):
        return is_missing(value)
    has_id = id_field_of(value, PASSAGE_IDS) is not None and value.get("text") is None
    return "text" in value and not has_id and is_missing(value["text"]) and is_missing(value.get("title"))


def id_field_of(row: Mapping[str, object], names: Sequence[str]) -> str | None:
    """Return the first name whose field is not empty."""
    return next((name for name in names if not is_missing(row.get(name))), None)


def as_text(value: object, name: str) -> str:
    """Return a text or a number as a stripped text.

    >>> as_text(" Ida ", "answers[0]"), as_text(1912.0, "answers[0]"), as_text(0.5, "answers[0]")
    ('Ida', '1912', '0.5')

    Raises:
        BadRowError: The value is of another type, is missing, or contains half a surrogate pair; ``name`` names it.
    """
    if isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value):
        # columns with missing values turn 1912 into 1912.0
        return str(int(value)) if isinstance(value, Integral) else f"{float(value):.15g}"
    if not isinstance(value, str) or is_missing(value):
        raise BadRowError(f"{name} must be a non-empty text, got {shown(value)}; fill it in or drop the row")
    return encodable(value, name).strip()


def whole(value: object) -> object:
    """Return 7.0, which a column with missing values makes of 7, as 7, and other values unchanged."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def encodable(text: str, name: str) -> str:
    """Return a text that can be written as UTF-8; raise ``BadRowError`` with its name if it cannot."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadRowError(f"{name} contains half a surrogate pair at {error.start}; repair the text") from error
    return text


def clean(value: object) -> Any:
    """Return a value with arrays as lists and NaN as ``None``; each door calls it once: files, records and rewards."""
    if isinstance(value, Mapping):
        return {name: clean(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return list(map(clean, value))
    if hasattr(value, "tolist"):
        return clean(value.tolist())
    is_none = type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and math.isnan(value))
    return None if is_none else value


def _json_rows(path: Path) -> Iterator[tuple[str, object]]:
    with open_bytes(path) as lines, _gzip_errors(path):
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
            rows = _squad_rows(rows) or rows
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path}: expected the JSON of SQuAD, but {error!r}; repair the file") from error
    if not isinstance(rows, list):
        raise ValueError(
            f"{path}: expected a JSON array of rows or SQuAD's 'data', got {shown(rows)}; put the rows in a list"
        )
    yield from ((f"{path}, row {number}", row) for number, row in enumerate(rows, 1))


def _squad_rows(document: Mapping[str, object]) -> list[object]:
    """Return the questions of SQuAD's own JSON file as rows of the hub; no rows for other documents."""
    articles = document.get("data")
    if not isinstance(articles, list) or not all("paragraphs" in article for article in articles):
        return []
    return [
        {
            "title": article.get("title", ""),
            "context": paragraph["context"],
            "id": qa["id"],
            "question": qa["question"],
            "answers": {"text": [answer["text"] for answer in qa.get("answers") or []]},
        }
        for article in articles
        for paragraph in article["paragraphs"]
        for qa in paragraph["qas"]
    ]


def _json_lines(path: Path) -> Iterator[tuple[str, object]]:
    with open_bytes(path) as lines, _gzip_errors(path):
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            start = line[:200].decode("utf-8", "replace")
            row: object
            try:
                row = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
            except UnicodeDecodeError as error:
                row = BrokenRow(
                    f"expected UTF-8, got byte {line[error.start]:#04x} at {error.start}; re-encode it", start
                )
            except (ValueError, RecursionError) as error:
                row = BrokenRow(f"expected one JSON object on the line, got {error}; repair or drop the line", start)
            yield f"{path}, line {number}", row


def _from_cells(row: Mapping[str, object]) -> Mapping[str, object] | BrokenRow:
    """Return a row of a table with the lists and objects that its cells state as texts."""
    start = ",".join(map(str, row.values()))[:200]
    if row.get(NO_COLUMN) is not None:
        return BrokenRow(
            f"expected {len(row) - 1} cells, as in the header, got further ones, {row[NO_COLUMN]!r}; quote the cells",
            start,
        )
    try:
        cells = {name: _table_value(cell) if isinstance(cell, str) else cell for name, cell in row.items()}
    except BadRowError as error:
        return BrokenRow(str(error), start)
    return {name: cell for name, cell in cells.items() if name not in (NO_COLUMN, "")}


def _table_value(cell: str) -> Any:
    if re.fullmatch(r"-?\d{1,15}\.0", cell):
        return float(cell)  # columns with missing values turn 7 into 7.0
    if re.fullmatch(r"\[\s*[-\d.e]+(?:\s+[-\d.e]+)+\s*\]", cell):
        raise _without_commas(cell)
    return cell_value(cell)


def cell_value(cell: str) -> Any:
    """Return a text's list or object, parsed as JSON or a Python literal, else the text; refuse lists as of numpy."""
    if not cell.startswith(("[", "{")):
        return cell
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(cell)
    try:
        value = ast.literal_eval(cell)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return cell
    breaks = (tokenize.NL, tokenize.NEWLINE)
    kinds = [token.type for token in tokenize.generate_tokens(io.StringIO(cell).readline) if token.type not in breaks]
    if (tokenize.STRING, tokenize.STRING) in itertools.pairwise(kinds):  # Python would join both strings
        raise _without_commas(cell)
    return value


def _without_commas(cell: str) -> BadRowError:
    return BadRowError(
        f"a list without commas cannot be read ({shown(cell)}); Dataset.to_csv writes it so: save Parquet instead"
    )


def stated_list(value: object) -> Any:
    """Parse a list of texts, or of lists of them, that is written as one text, as in PopQA; return other values."""
    cell = cell_value(value) if isinstance(value, str) else None
    return cell if _has_texts_only(cell) else value


def _has_texts_only(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) or _has_texts_only(item) for item in value)


@contextlib.contextmanager
def _gzip_errors(path: Path) -> Iterator[None]:
    """Turn errors of decompression into an ``OSError`` that names the file."""
    try:
        yield
    except EOFError as error:
        raise OSError(f"{path}: the compressed file ends too early ({error}); copy it again") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise OSError(f"{path}: expected gzip ({error}); rename it or copy it again") from error


def shown(value: object) -> str:
    """Return a value for an error message: with its type, and cut after 80 characters."""
    text = "nothing" if value is None else f"{value!r} ({type(value).__name__})"
    return text if len(text) <= 80 else text[:80] + "…"


def is_unicode(text: str) -> bool:
    """Return whether a text can be written as UTF-8; JSON allows half a surrogate pair, UTF-8 does not."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
