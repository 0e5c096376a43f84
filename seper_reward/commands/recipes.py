"""What the wheel brings along: ``configs copy``, ``train``."""

from dataclasses import dataclass
from pathlib import Path

from seper_reward.commands.base import parse
from seper_reward.runtime.settings import check_types, setting
from seper_reward.shipped import copy_configs, run_recipe


@dataclass
class CopyConfig:
    """Write the configurations that ship into a folder: those that the documentation names, and recipes to adapt."""

    to: str = setting("configs", "Folder to write into; files of the same names must be the same, or absent.")

    def __post_init__(self) -> None:
        check_types(self)


def copy_configs_command(arguments: list[str]) -> str:
    """Run ``seper-reward configs copy``."""
    config = parse(CopyConfig, arguments, "seper-reward configs copy")
    copies = copy_configs(Path(config.to))
    print("\n".join(map(str, copies)))
    return f"seper-reward train retriever --config {Path(config.to) / 'retriever' / 'demo.yaml'}"


def train_command(recipe: str, arguments: list[str]) -> str:
    """Run ``seper-reward train``."""
    run_recipe(recipe, arguments)
    return ""  # recipes say it themselves: some of them can also be run as modules
