"""Measures of the code: lines of code, vague names, private attributes in tests.

python -m tests.measures              # add --places for the places of vague names
"""

import ast
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("seper_reward", "trainers")
VAGUE = frozenset(("found", "each", "own", "given", "kept", "asked", "said"))
#: Modules of files, tables and batches, in which a local may be a ``row``; elsewhere it has the name of its content.
FILES_AND_TABLES = (
    "seper_reward/data/*.py",
    "seper_reward/evaluate/judge.py",
    "seper_reward/evaluate/logs.py",
    "seper_reward/labels/dataset.py",
    "seper_reward/labels/export.py",
    "seper_reward/labels/load.py",
    "seper_reward/labels/rows.py",
    "seper_reward/reader/in_process/decoding.py",
    "seper_reward/reader/in_process/rows.py",
    "seper_reward/runtime/*_files.py",
)
_BLANK = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def python_files(folder: str) -> list[Path]:
    """Return the files of a folder in the repository, sorted."""
    return sorted((ROOT / folder).rglob("*.py"))


def code_lines(path: Path) -> int:
    """Return the number of lines without docstrings, comments, blanks and imports."""
    source = path.read_text(encoding="utf-8")
    left_out: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if isinstance(node, ast.Import | ast.ImportFrom):
            left_out |= _lines(node)
        elif documented and ast.get_docstring(node, clean=False) is not None:
            left_out |= _lines(node.body[0])
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    lines = {line for token in tokens if token.type not in _BLANK for line in range(token.start[0], token.end[0] + 1)}
    return len(lines - left_out)


def _lines(node: ast.stmt) -> set[int]:
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))


def vague_names(path: Path) -> Iterator[tuple[int, str]]:
    """Return line and name of each place that binds a vague name."""
    refused = VAGUE if any(map(path.match, FILES_AND_TABLES)) else VAGUE | {"row"}
    return ((line, name) for line, name in bound_names(path) if name in refused)


def bound_names(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and name of each place that binds a variable or a parameter, no field of a record."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    fields = {
        id(field.target)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for field in node.body
        if isinstance(field, ast.AnnAssign)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in fields:
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg


def private_attributes(path: Path) -> int:
    """Return how often a file reads a private attribute of something other than ``self``."""
    return sum(
        isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    )


def main() -> None:
    """Print all measures."""
    lines = {folder: {path: code_lines(path) for path in python_files(folder)} for folder in (*PACKAGES, "tests")}
    package = ROOT / "seper_reward"
    rooms: Counter[str] = Counter()
    for path, count in lines["seper_reward"].items():
        rooms[path.relative_to(package).parts[0] if path.parent != package else "."] += count
    totals = {folder: sum(counts.values()) for folder, counts in lines.items()}
    code = totals["seper_reward"] + totals["trainers"]
    print(f"core (seper_reward without baselines): {totals['seper_reward'] - rooms['baselines']}")
    print(f"trainers: {totals['trainers']}; tests: {totals['tests']}; tests / code: {totals['tests'] / code:.2f}")
    print("rooms:", ", ".join(f"{room} {count}" for room, count in rooms.most_common()))
    print("private attributes in tests:", sum(map(private_attributes, python_files("tests"))))
    places = [(path, *place) for folder in PACKAGES for path in python_files(folder) for place in vague_names(path)]
    print("vague names:", len(places), dict(Counter(name for _, _, name in places)))
    for path, line, name in places if "--places" in sys.argv else ():
        print(f"{path.relative_to(ROOT)}:{line} {name}")


if __name__ == "__main__":
    main()
