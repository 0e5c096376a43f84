"""Write the bundled configurations into a folder."""

from pathlib import Path

from seper_reward.options import InitOptions
from seper_reward.shipped import copy_configs


def command(config: InitOptions) -> str:
    """Run ``seper-reward init``."""
    copies = copy_configs(Path(config.to))
    print("\n".join(map(str, copies)))
    return f"seper-reward train retriever --config {Path(config.to) / 'retriever' / 'demo.yaml'}"
