"""Write the bundled configurations into a folder."""

from dataclasses import dataclass
from pathlib import Path

from seper_reward.command import parse
from seper_reward.runtime.settings import check_types, setting
from seper_reward.shipped import copy_configs


@dataclass
class InitConfig:
    """Write the bundled configurations into a folder: those used in the documentation, and recipes to adapt."""

    to: str = setting("configs", "Folder to write into; existing files of the same names must have the same content.")

    def __post_init__(self) -> None:
        check_types(self)


def command(arguments: list[str]) -> str:
    """Run ``seper-reward init``."""
    config = parse(InitConfig, arguments, "seper-reward init")
    copies = copy_configs(Path(config.to))
    print("\n".join(map(str, copies)))
    return f"seper-reward train retriever --config {Path(config.to) / 'retriever' / 'demo.yaml'}"
