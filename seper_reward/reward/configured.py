"""A reward with the settings of a YAML file, also as a dotted path for TRL's command line, which passes no settings.

Example:
    SEPER_REWARD_CONFIG=reward.yaml trl grpo --reward_funcs seper_reward.reward.delta_seper ...
"""

import functools
import os
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from seper_reward.client import SePerClient
from seper_reward.config import ScorerConfig, load_scorer
from seper_reward.judge.extract import ANSWER_PATTERN_HELP, compile_answer_pattern
from seper_reward.reward.formula import RewardWeights
from seper_reward.reward.reward import SePerReward
from seper_reward.runtime.parser import parse_settings
from seper_reward.runtime.settings import setting

CONFIG = "SEPER_REWARD_CONFIG"


@dataclass
class RewardConfig(ScorerConfig):
    """Settings of a reward: its weights, and its reader, in this process or behind a URL."""

    url: str | None = setting(
        None, "Address of `seper-reward serve`, whose models are then used (default: models in this process)."
    )
    timeout: float = setting(600.0, "Longest wait for the server, in seconds, > 0.")
    passage_tag: str | None = setting(
        None, "Name of the tag around passages in completions that are texts, such as information (default: none)."
    )
    search_tools: list[str] = setting([], "Names of the tools whose results are searches (default: the only tool).")
    answer_pattern: str | None = setting(None, ANSWER_PATTERN_HELP)
    seed: int = setting(0, "Seed of the reader's sampling; the server has its own.", "sampling.seed", common=True)
    weights: RewardWeights = field(default=RewardWeights(), init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        compile_answer_pattern(self.answer_pattern)
        if self.url is None:
            return
        SePerClient(self.url, self.timeout)
        plain = ScorerConfig()
        given = [each.name for each in fields(plain) if getattr(self, each.name) != getattr(plain, each.name)]
        if given:
            raise ValueError(f"with a url the server has the reader; set {', '.join(given)} there, not here")


def read_reward(path: str | Path) -> SePerReward:
    """Make a reward with the settings of a YAML file, and load its models if it has no URL.

    Raises ``ValueError`` if a setting is unknown or out of range, ``OSError`` if the file or a model cannot be loaded.
    """
    config = read_reward_config(path)
    return SePerReward(
        SePerClient(config.url, config.timeout) if config.url else load_scorer(config, config.seed),
        **asdict(config.weights),
        passage_tag=config.passage_tag,
        search_tools=config.search_tools or None,
        answer_pattern=config.answer_pattern,
    )


def read_reward_config(path: str | Path) -> RewardConfig:
    """Read the settings of a reward from a YAML file; raises the errors of ``read_reward``."""
    config: RewardConfig
    config, weights = parse_settings((RewardConfig, RewardWeights), ["--config", str(path)], CONFIG)
    config.weights = weights
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
