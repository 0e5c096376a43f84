"""ΔSePer as a reward for TRL's trainers: rollouts in, rewards out, and the search tool of the policy."""

import warnings
from typing import TYPE_CHECKING, Any

from seper_reward.reward.environment import RetrievalEnvironment, search_environment
from seper_reward.reward.reward import AsyncSePerReward, SePerReward
from seper_reward.reward.rollouts import read_rollouts

if TYPE_CHECKING:
    from seper_reward.reward.configured import delta_seper
    from seper_reward.reward.prefetch import prefetch_searches
    from seper_reward.reward.trainer import TurnCreditGRPOTrainer

__all__ = [
    "AsyncSePerReward",
    "RetrievalEnvironment",
    "SePerReward",
    "TurnCreditGRPOTrainer",
    "delta_seper",
    "prefetch_searches",
    "read_rollouts",
    "search_environment",
]


def __getattr__(name: str) -> Any:
    """Import lazily the names that need torch or TRL: a reward that queries a server needs neither."""
    if name == "TurnCreditGRPOTrainer":
        from seper_reward.reward.trainer import TurnCreditGRPOTrainer

        return TurnCreditGRPOTrainer
    if name == "prefetch_searches":
        from seper_reward.reward.prefetch import prefetch_searches

        return prefetch_searches
    if name == "delta_seper":
        from seper_reward.reward.configured import configured_path, delta_seper

        configured_path()  # TRL looks the name up early, so a misspelt setting fails before models load
        return delta_seper
    if name == "environment_factory":
        warnings.warn(f"{__name__}.{name} will be removed; import search_environment", FutureWarning, stacklevel=2)
        return search_environment
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
