"""Frozen artifacts: their file, and the first difference of new ones from them."""

import gzip
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FROZEN = Path(__file__).with_name("frozen.json.gz")
TOLERANCE = 1e-4  # another processor changes low digits of float32


def read_frozen() -> dict[str, str]:
    """Return the frozen artifacts by name."""
    frozen: dict[str, str] = json.loads(gzip.decompress(FROZEN.read_bytes()))
    return frozen


def write_frozen(artifacts: Mapping[str, str]) -> None:
    """Freeze artifacts, in a file that depends on their content alone."""
    FROZEN.write_bytes(gzip.compress(json.dumps(artifacts, indent=0).encode(), mtime=0))


def differences(frozen: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str]:
    """Return the first difference of each artifact that differs by more than low digits."""
    wrong = {name: "is missing" for name in frozen if name not in found}
    wrong |= {name: "is not among the frozen ones" for name in found if name not in frozen}
    for name in frozen.keys() & found.keys():
        if reason := _difference(_parsed(frozen[name]), _parsed(found[name])):
            wrong[name] = reason
    return dict(sorted(wrong.items()))


def _parsed(text: str) -> Any:
    """Return the JSON of a text, of each of its lines, or the text itself."""
    for parse in (json.loads, lambda lines: [json.loads(line) for line in lines.splitlines()]):
        try:
            return parse(text)
        except ValueError:
            continue
    return text.splitlines()


def _difference(before: Any, after: Any, where: str = "") -> str | None:
    """Return the place of the first difference and both values, or ``None``."""
    if isinstance(before, dict) and isinstance(after, dict):
        if before.keys() != after.keys():
            return (
                f"{where or 'the fields'}: lost {sorted(before.keys() - after)}, new {sorted(after.keys() - before)}"
            )
        pairs = [(f"{where}.{name}", before[name], after[name]) for name in before]
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = [(f"{where}[{at}]", *both) for at, both in enumerate(zip(before, after, strict=True))]
    elif isinstance(before, float) and isinstance(after, float | int):
        near = math.isclose(before, after, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        return None if near else f"{where}: was {before}, is {after}"
    else:
        return None if before == after else f"{where}: was {before!r:.100}, is {after!r:.100}"
    return next(filter(None, (_difference(old, new, place) for place, old, new in pairs)), None)
