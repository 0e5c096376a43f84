"""Write the configurations that the documentation names into a folder."""

from dataclasses import dataclass
from pathlib import Path

from seper_reward.command import parse
from seper_reward.runtime.settings import check_types, setting
from seper_reward.shipped import copy_configs


@dataclass
class InitConfig:
    """Write the configurations that ship into a folder: those that the documentation names, and recipes to adapt."""

    to: str = setting("configs", "Folder to write into; files of the same names must be the same, or absent.")

    def __post_init__(self) -> None:
        check_types(self)


def command(arguments: list[str]) -> str:
    """Run ``seper-reward init``."""
    config = parse(InitConfig, arguments, "seper-reward init")
    copies = copy_configs(Path(config.to))
    print("\n".join(map(str, copies)))
    return f"seper-reward train retriever --config {Path(config.to) / 'retriever' / 'demo.yaml'}"
