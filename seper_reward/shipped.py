"""Bundled configurations to copy and recipes to run, in a wheel or a checkout.

In the repository they are next to the package, in ``configs/`` and ``trainers/``; in a wheel they are inside it.
"""

from importlib import import_module
from pathlib import Path

from seper_reward.runtime.imports import advice
from seper_reward.runtime.parser import parse_options, refuse_missing_files

_PACKAGE = Path(__file__).parent
RECIPES = {
    "retriever": "fine-tune a bi-encoder on labels of the passages that it retrieves",
    "reranker": "fine-tune a cross-encoder on labels of a retriever's passages",
    "policy": "train a policy that decides when to search (GRPO)",
    "sft": "fine-tune a small causal model: the warm-up of a policy, or rows of prompt and completion",
    "entailment": "train an entailment adapter on pairs of premise and hypothesis",
}


def configs_folder() -> Path:
    """Return the folder of the bundled configurations."""
    return _shipped("configs")


def copy_configs(folder: Path) -> list[Path]:
    """Copy the bundled configurations into a folder, created if missing; return the files, sorted by name.

    Identical files in it are kept. Raises ``ValueError`` if a file exists with other content.
    """
    sources = sorted(path for path in configs_folder().rglob("*") if path.is_file() and path.suffix != ".pyc")
    copies = {source: folder / source.relative_to(configs_folder()) for source in sources}
    for source, copy in copies.items():
        if copy.is_file() and copy.read_bytes() != source.read_bytes():
            raise ValueError(f"{copy} exists and differs from ours; name another folder with --output_dir, or move it")
    for source, copy in copies.items():
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(source.read_bytes())
    return list(copies.values())


def run_recipe(name: str, arguments: list[str]) -> str:
    """Run one of ``RECIPES`` in this process with the words of its command line.

    Returns an empty text: recipes print the next command themselves, as they can also be run as modules. Raises
    ``OSError`` if a library that recipes need is not installed.
    """
    folder = _shipped("trainers")
    package = "seper_reward.trainers" if folder.parent == _PACKAGE else "trainers"
    kinds = import_module(f"{package}.options").RECIPE_OPTIONS[name]
    for options in parse_options(kinds, arguments, f"seper-reward train {name}", others=True):
        refuse_missing_files(options)  # as help and other errors of ours, without torch
    try:
        recipe = import_module(f"{package}.{name}")
    except ImportError as error:
        raise OSError(f"a recipe needs more libraries ({error}); {advice('train', error.name or '')}") from error
    recipe.main(arguments)
    return ""


def is_ours(path: str) -> bool:
    """Return whether a source file belongs to the package or a recipe."""
    return any(Path(path).is_relative_to(folder) for folder in (_PACKAGE, _shipped("trainers")))


def _shipped(name: str) -> Path:
    inside = _PACKAGE / name
    return inside if inside.is_dir() else _PACKAGE.parent / name
