"""Label the bundled questions with the embedded models, into runs/demo."""

from seper_reward.options import LabelOptions
from seper_reward.runtime.parser import parse_options
from seper_reward.shipped import configs_folder


def command(arguments: list[str]) -> str:
    """Run ``seper-reward demo``."""
    words = ["--config", str(configs_folder() / "label" / "demo.yaml"), *arguments]
    (config,) = parse_options((LabelOptions,), words, "seper-reward demo")
    from seper_reward.commands import label

    return label.command(config)
