"""ΔSePer as a reward for TRL's trainers: rollouts in, rewards out, and the search tool of the policy."""

from typing import TYPE_CHECKING, Any

from seper_reward.reward.environment import (
    RetrievalEnvironment,
    search_environment,
    with_tool_template,
)
from seper_reward.reward.reward import AsyncSePerReward, SePerReward
from seper_reward.reward.rollouts import read_rollouts
from seper_reward.runtime.imports import lazy_name

if TYPE_CHECKING:
    from seper_reward.reward.configured import delta_seper
    from seper_reward.reward.trainer import TurnCreditGRPOTrainer

__all__ = [
    "AsyncSePerReward",
    "RetrievalEnvironment",
    "SePerReward",
    "TurnCreditGRPOTrainer",
    "delta_seper",
    "read_rollouts",
    "search_environment",
    "with_tool_template",
]

_HOMES = {
    "configured": ("delta_seper",),
    "trainer": ("TurnCreditGRPOTrainer",),
}


def __getattr__(name: str) -> Any:
    """Import lazily the names that need torch or TRL: a reward that queries a server needs neither."""
    attribute = lazy_name(__name__, name, _HOMES)
    if name == "delta_seper":
        from seper_reward.reward.configured import configured_path

        configured_path()  # TRL looks the name up early, so a misspelt setting fails before models load
    return attribute
