"""A reward with the settings of a YAML file, also as a dotted path for TRL's command line, which passes no settings.

Example:
    SEPER_REWARD_CONFIG=reward.yaml trl grpo --reward_funcs seper_reward.reward.delta_seper ...
"""

import functools
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from seper_reward.client import SePerClient
from seper_reward.options import RewardOptions, WeightOptions, pick
from seper_reward.reward.reward import SePerReward
from seper_reward.runtime.parser import parse_options
from seper_reward.scorer import SePerScorer

CONFIG = "SEPER_REWARD_CONFIG"


def read_reward(path: str | Path) -> SePerReward:
    """Make a reward with the settings of a YAML file, and load its models if it has no URL.

    Raises ``ValueError`` if a setting is unknown or out of range, ``OSError`` if the file or a model cannot be loaded.
    """
    config = read_reward_config(path)
    return SePerReward(
        SePerClient(config.url, config.timeout) if config.url else SePerScorer.from_pretrained(config),
        **asdict(pick(WeightOptions, config)),
        passage_tag=config.passage_tag,
        search_tools=config.search_tools or None,
        answer_pattern=config.answer_pattern,
    )


def read_reward_config(path: str | Path) -> RewardOptions:
    """Read the settings of a reward from a YAML file; raises the errors of ``read_reward``."""
    config: RewardOptions
    (config,) = parse_options((RewardOptions,), ["--config", str(path)], CONFIG)
    if config.url is not None:
        SePerClient(config.url, config.timeout)  # raises for an invalid address
    return config


def configured_path() -> str | None:
    """Check the settings of the file in ``SEPER_REWARD_CONFIG``, and return its path; errors of ``read_reward``."""
    path = os.environ.get(CONFIG)
    if path is None:
        return None
    try:
        read_reward_config(path)
    except (OSError, ValueError) as error:
        raise type(error)(f"{CONFIG}={path}: {error}") from error
    return path


def delta_seper(*args: Any, **columns: Any) -> list[float | None]:
    """Return the rewards of ``SePerReward`` with the settings of the YAML file that ``SEPER_REWARD_CONFIG`` names.

    Without that variable the reward has the embedded models and the default weights. The name is for the command line
    of TRL: ``trl grpo --reward_funcs seper_reward.reward.delta_seper``. Settings are checked on import, before the
    trainer loads a model.
    """
    return _reward(configured_path())(*args, **columns)


@functools.cache
def _reward(path: str | None) -> SePerReward:
    return SePerReward() if path is None else read_reward(path)
