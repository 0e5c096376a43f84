"""Label the bundled questions with the embedded models, into runs/demo."""

from seper_reward.commands import label
from seper_reward.shipped import configs_folder


def command(arguments: list[str]) -> str:
    """Run ``seper-reward demo``."""
    return label.command(["--config", str(configs_folder() / "label" / "demo.yaml"), *arguments], "demo")
