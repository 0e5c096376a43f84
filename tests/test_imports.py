"""Data flows one way: imports point backwards along it, and pure modules know nothing but torch and types."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "seper_reward"
PURE = {"drawing", "estimators", "clustering", "beliefs", "utility", "labels"}
# a module may import those before it
ORDER = [
    "types", "extras", "files", "profiling", "memory", "drawing", "distributed", "shared_queue", "models", "demo",
    "estimators", "clustering", "beliefs", "utility", "labels", "cache", "prompts", "writers", "tokens", "contract",
    "compiling", "decoding", "forcing", "sampling", "servers", "completions", "engine", "entailment", "judging",
    "answer_metrics", "data", "retrieval", "backends", "scorer", "labeling", "labelers", "report", "evaluation",
    "ranking", "borrowing", "environment", "tool_chat", "rollouts", "reward", "equivalence", "tracking", "label_run",
    "config", "cli",
]  # fmt: skip


def imports(path):
    """Return (own modules, other packages) a file imports, wherever in the file."""
    own, other = set(), set()
    depth = len(path.relative_to(PACKAGE).parts)  # from .x in the package, from ..x in a folder of it
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == depth:
            own |= {node.module.split(".")[0]} if node.module else {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            other.add(node.module.split(".")[0])
        elif isinstance(node, ast.Import):
            other |= {alias.name.split(".")[0] for alias in node.names}
    return own, other


def files(module):
    folder = PACKAGE / module
    return list(folder.glob("*.py")) if folder.is_dir() else [PACKAGE / f"{module}.py"]


def test_every_module_has_its_place():
    found = {path.stem for path in PACKAGE.glob("*.py") if not path.stem.startswith("__")}
    found |= {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert found == set(ORDER)


@pytest.mark.parametrize("module", ORDER)
def test_imports_point_backwards(module):
    for path in files(module):
        assert imports(path)[0] <= set(ORDER[: ORDER.index(module)])


@pytest.mark.parametrize("module", sorted(PURE))
def test_pure_modules_are_pure(module):
    own, other = imports(PACKAGE / f"{module}.py")
    assert own <= {"types", *PURE}
    assert other <= {"torch", "typing", "collections", "dataclasses", "math", "hashlib", "struct", "itertools"}


def test_the_package_does_not_need_the_trainers():
    for path in PACKAGE.rglob("*.py"):
        assert "trainers" not in imports(path)[1]
