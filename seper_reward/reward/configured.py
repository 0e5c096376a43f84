"""The reward of a YAML file, and by a dotted path for TRL's command line, which passes no settings.

Example:
    SEPER_REWARD_CONFIG=reward.yaml trl grpo --reward_funcs seper_reward.reward.delta_seper ...
"""

import functools
import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from seper_reward.client import SePerClient
from seper_reward.config import ScorerConfig, load_scorer
from seper_reward.reward.formula import Formula, Variant
from seper_reward.reward.reward import SePerReward
from seper_reward.runtime.parser import parse_settings
from seper_reward.runtime.settings import setting

CONFIG = "SEPER_REWARD_CONFIG"


@dataclass
class RewardConfig(ScorerConfig):
    """Settings of a reward: its formula, and its reader, here or behind a URL."""

    url: str | None = setting(
        None, "Address of `seper-reward serve`, whose reader and entailment model are then used; not given: own ones."
    )
    timeout: float = setting(600.0, "Longest wait for the server, in seconds, > 0.")
    variant: Variant = setting("delta", "Variant: delta, stepwise, answer, advantage or both.")
    price: float = setting(0.1, "Price of a search, in units of belief, >= 0.")
    word_price: float = setting(0.0, "Price of a retrieved word, in units of belief, >= 0.")
    gain_weight: float = setting(1.0, "Weight of what the searches gained, >= 0, in the variant both.")
    closed_book: bool = setting(False, "Whether the variant both subtracts the belief without a search.")
    needed: float = setting(0.5, "SePer without a search below which a question needs one; for the log only.")
    passage_tag: str | None = setting(
        None, "Tag around what a search found in completions that are texts, such as information; not given: none."
    )
    pool_draws: int = setting(1, "Up to how many draws of responses a belief is measured on, >= 1.")
    share_ranks: bool = setting(
        True,
        "Whether the ranks of a trainer share what has to be measured, which needs that all call the reward together, "
        "as those of TRL's command line do; with a url it makes no difference.",
    )
    seed: int = setting(0, "Seed of the reader's sampling; the server has its own.")

    def __post_init__(self) -> None:
        super().__post_init__()
        Formula(self.variant, self.price, self.word_price, self.gain_weight, self.closed_book)  # refuses nonsense
        if self.url is None:
            return
        SePerClient(self.url, self.timeout)
        plain = ScorerConfig()
        given = [each.name for each in fields(plain) if getattr(self, each.name) != getattr(plain, each.name)]
        if given:
            raise ValueError(f"with a url the reader is the server's; give {', '.join(given)} to it, not here")


def read_reward(path: str | Path) -> SePerReward:
    """Make the reward that a YAML file describes, and load its models, if it has no URL.

    Args:
        path: File with settings of ``RewardConfig``; those left out have their defaults.

    Raises:
        ValueError: The file is no mapping, or a setting is unknown or out of range; the message names it.
        OSError: The file or a model cannot be loaded; the message says what to do.
    """
    config = read_reward_config(path)
    return SePerReward(
        SePerClient(config.url, config.timeout) if config.url else load_scorer(config, config.seed),
        variant=config.variant,
        price=config.price,
        word_price=config.word_price,
        gain_weight=config.gain_weight,
        closed_book=config.closed_book,
        needed=config.needed,
        passage_tag=config.passage_tag,
        pool_draws=config.pool_draws,
        share_ranks=config.share_ranks,
    )


def read_reward_config(path: str | Path) -> RewardConfig:
    """Read the settings of a reward from a YAML file; ``read_reward`` tells what is raised."""
    config: RewardConfig
    (config,) = parse_settings((RewardConfig,), ["--config", str(path)], CONFIG)
    return config


def configured_path() -> str | None:
    """Return the file that ``SEPER_REWARD_CONFIG`` names, once its settings are known to be right.

    Raises:
        ValueError: They are not.
        OSError: There is no such file.
    """
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

    Without that variable these are the embedded models, and a price of 0.1 per search. The name is for the command
    line of TRL: ``trl grpo --reward_funcs seper_reward.reward.delta_seper``. Settings are checked when it is imported
    from there, before the trainer loads a model.

    Args:
        *args: Prompts and completions, as TRL passes them.
        **columns: The other arguments of ``SePerReward.__call__``.
    """
    return _reward(configured_path())(*args, **columns)


@functools.cache
def _reward(path: str | None) -> SePerReward:
    return SePerReward(price=RewardConfig.price, share_ranks=True) if path is None else read_reward(path)
