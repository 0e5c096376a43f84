"""Data flows one way: a folder imports what stands below it, and formulas know nothing but tensors and records."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "seper_reward"
# storeys from the ground up; what stands on one storey does not import its neighbours
STOREYS = [
    {"types", "statistics", "options"},
    {"runtime"},
    {"data"},
    {"retrieval"},
    {"reader", "estimators"},
    {"judge"},
    {"scorer", "client"},
    {"batching"},
    {"labels"},
    {"reward"},
    {"reports", "serving", "shipped"},
    {"command"},
    {"evaluate"},
    {"baselines"},
    {"commands"},
    {"cli"},
]
# formulas: tensors and records in, numbers out
PURE = {
    "estimators/seper.py", "estimators/clustering.py", "estimators/draws.py",
    "estimators/belief.py", "estimators/utility.py", "reader/in_process/gumbel.py",
    "labels/targets.py", "labels/heterogeneity.py", "labels/plans.py", "labels/judgments.py", "labels/replies.py",
    "statistics.py", "baselines/list_metrics.py", "baselines/win_ratios.py", "baselines/voting.py",
    "options.py",
}  # fmt: skip
PURE_MAY_IMPORT = {
    "torch", "typing", "collections", "dataclasses", "math", "hashlib", "struct", "itertools", "random", "statistics",
    "numpy", "scipy", "re", "operator", "warnings", "types", "datetime", "json", "pathlib", "urllib", "yaml",
    "reprlib",
}  # fmt: skip


def imports(path):
    """Return the dotted names a file imports, wherever in the file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: imports are absolute"
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def room(name):
    """Return the folder, or the file beside the folders, that a dotted name of the package is in."""
    return name.split(".")[1]


def files(name):
    path = PACKAGE / name
    return list(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]


def test_the_house_has_these_rooms():
    rooms = {path.stem for path in PACKAGE.glob("*.py") if not path.stem.startswith("__")}
    rooms |= {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    assert rooms == set().union(*STOREYS)


@pytest.mark.parametrize("name", sorted(set().union(*STOREYS)))
def test_arrows_point_down(name):
    storey = next(number for number, rooms in enumerate(STOREYS) if name in rooms)
    below = set().union(*STOREYS[:storey]) | {name}
    for path in files(name):
        for module in imports(path):
            if module.startswith("seper_reward."):
                assert room(module) in below, f"{path.relative_to(PACKAGE)} imports {module}"
            assert module != "seper_reward", f"{path.relative_to(PACKAGE)} imports the root, which stands on top"


def module_name(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(path, modules):
    """Return the modules of this repository that a file imports: in functions and for type checkers, too."""
    package = module_name(path) if path.name == "__init__.py" else module_name(path.parent / "__init__.py")
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            home = ".".join([*base, *([node.module] if node.module else [])])
            found |= {name if (name := f"{home}.{alias.name}") in modules else home for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & modules


@pytest.mark.parametrize("folder", ["seper_reward", "trainers"])
def test_modules_do_not_import_in_circles(folder):
    """Imports for type checkers count: two modules that name each other's types are one module in two files."""
    paths = {module_name(path): path for path in (PACKAGE.parent / folder).rglob("*.py")}
    arrows = {name: imported_modules(path, set(paths)) - {name} for name, path in paths.items()}
    assert sum(map(len, arrows.values())) > len(paths)  # the imports were read
    TopologicalSorter(arrows).prepare()  # raises CycleError, which names a circle


@pytest.mark.parametrize("name", sorted(PURE))
def test_formulas_are_pure(name):
    for module in imports(PACKAGE / name):
        if module.startswith("seper_reward."):
            assert (
                module in ("seper_reward.types", "seper_reward.options")
                or module.split(".", 1)[1].replace(".", "/") + ".py" in PURE
            )
        else:
            assert module.split(".")[0] in PURE_MAY_IMPORT


def test_recipes_import_each_other_relatively():
    """In a wheel they are `seper_reward.trainers`, and no `trainers` is theirs."""
    for path in (PACKAGE.parent / "trainers").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not any(name.split(".")[0] == "trainers" for name in names), f"{path}, line {node.lineno}"


def test_the_package_does_not_need_the_trainers():
    for path in PACKAGE.rglob("*.py"):
        assert not any(module.split(".")[0] == "trainers" for module in imports(path)), path
