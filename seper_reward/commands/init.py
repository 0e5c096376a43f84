"""Write the bundled configurations into a folder."""

from pathlib import Path

from seper_reward.options import InitOptions
from seper_reward.shipped import copy_configs


def command(config: InitOptions) -> str:
    """Run ``seper-reward init``."""
    folder = Path(config.output_dir)
    print("\n".join(map(str, copy_configs(folder))))
    return f"seper-reward train retriever --config {folder / 'retriever' / 'demo.yaml'}"
