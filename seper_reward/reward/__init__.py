"""ΔSePer as a reward of TRL's trainers: rollouts in, rewards out, and the search tool they use."""

from typing import TYPE_CHECKING, Any

from seper_reward.reward.environment import RetrievalEnvironment, environment_factory
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
    "environment_factory",
    "prefetch_searches",
    "read_rollouts",
]


def __getattr__(name: str) -> Any:
    """Import what needs torch or TRL when it is used: a reward in front of a server needs neither."""
    if name == "TurnCreditGRPOTrainer":
        from seper_reward.reward.trainer import TurnCreditGRPOTrainer

        return TurnCreditGRPOTrainer
    if name == "prefetch_searches":
        from seper_reward.reward.prefetch import prefetch_searches

        return prefetch_searches
    if name == "delta_seper":
        from seper_reward.reward.configured import configured_path, delta_seper

        configured_path()  # a misspelt setting fails here, where TRL looks the name up, and not after an hour
        return delta_seper
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
