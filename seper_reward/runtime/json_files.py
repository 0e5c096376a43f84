"""JSON and JSON lines on disk: written atomically, with file and line in errors about damaged content."""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def json_line(value: object, **options: Any) -> str:
    """Return a value as JSON with a line break; ``options`` are passed to ``json.dumps``."""
    text = json.dumps(value, ensure_ascii=False, **options) + "\n"
    if text.isascii() or not re.search("[\ud800-\udfff]", text):
        return text
    return json.dumps(value, **options) + "\n"  # half a surrogate pair cannot be written as UTF-8


def without_nan(value: object) -> Any:
    """Return a value for strict JSON: NaN, infinities and values of other types become texts."""
    return json.loads(json.dumps(value, default=str), parse_constant=str)


def leaves(value: Any, *, lists: bool = False) -> Iterator[tuple[str, Any]]:
    """Yield the values in nested mappings, and with ``lists`` in nested lists, with their paths joined by dots.

    An empty mapping is a value.

    >>> list(leaves({"n": 4, "mean": {"bm25": 0.5, "dense": None}, "interval": [0.1, 0.9]}, lists=True))
    [('n', 4), ('mean.bm25', 0.5), ('mean.dense', None), ('interval.0', 0.1), ('interval.1', 0.9)]
    """
    for key, child in value.items() if isinstance(value, Mapping) else enumerate(value):
        if (child and isinstance(child, Mapping)) or (lists and isinstance(child, (list, tuple))):
            yield from ((f"{key}.{rest}", leaf) for rest, leaf in leaves(child, lists=lists))
        else:
            yield str(key), child


def read_lines(path: Path) -> Iterator[Any]:
    """Yield the rows of a JSON lines file, without an incomplete last line of a killed process."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.endswith(b"\n"):
                yield _parsed(line, f"{path}, line {number}")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file that contains an object; raise ``ValueError`` with its name for other content."""
    value = _parsed(path.read_bytes(), str(path))
    if not isinstance(value, dict):
        raise ValueError(f"{path}: expected a JSON object, got {type(value).__name__}; restore or delete the file")
    return value


def write_lines(path: Path, rows: Iterable[Any], **options: object) -> None:
    """Write rows as JSON lines; ``options`` are passed to ``json.dumps``."""
    write_chunks(path, (json_line(row, **options).encode() for row in rows))


def write_json(path: Path, value: object, **options: object) -> None:
    """Write a value as indented JSON; ``options`` are passed to ``json.dumps``."""
    write_text(path, json_line(value, indent=2, **options))


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the file to system errors without one, such as the error of a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def _parsed(text: bytes, where: str) -> object:
    try:
        return json.loads(text.decode())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where}: expected JSON in UTF-8 ({error}); restore or delete the file") from error


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all, or into a pipe or device; its folder is made if absent."""
    write_chunks(path, [text.encode()])


def write_chunks(path: Path, chunks: Iterable[bytes]) -> None:
    """Write the joined chunks, like ``write_text``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file():
        with naming(path), path.open("wb") as file:
            file.writelines(chunks)
        return
    path = path.resolve()  # a link stays one
    scratch = unfinished(path)
    with naming(path), scratch.open("wb") as file:
        file.writelines(chunks)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)


def unfinished(path: Path) -> Path:
    """Return the file that ``write_chunks`` writes, and renames when it is whole."""
    return path.with_name(path.name + ".tmp")
