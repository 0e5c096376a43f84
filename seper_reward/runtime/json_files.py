"""JSON and JSON lines on disk: a killed process leaves no half-written file, and a half-written line is not read."""

import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any


def json_line(row: Any, **options: Any) -> str:
    """Return a value as JSON with a line break; ``options`` are those of ``json.dumps``."""
    text = json.dumps(row, ensure_ascii=False, **options) + "\n"
    if text.isascii() or not re.search("[\ud800-\udfff]", text):
        return text
    return json.dumps(row, **options) + "\n"  # half a surrogate pair cannot be written as UTF-8


def read_lines(path: Path) -> Iterator[Any]:
    """Yield the rows of a JSON lines file, without a last line that a killed process left unfinished."""
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.endswith("\n"):
                yield json.loads(line)


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def write_lines(path: Path, rows: Iterable[Any], **options: Any) -> None:
    """Write rows as JSON lines; ``options`` are those of ``json.dumps``."""
    _write(path, "".join(json_line(row, **options) for row in rows))


def write_json(path: Path, value: Any, **options: Any) -> None:
    """Write a value as indented JSON; ``options`` are those of ``json.dumps``."""
    _write(path, json_line(value, indent=2, **options))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(path.name + ".tmp")
    with scratch.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)
