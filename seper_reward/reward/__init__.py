"""ΔSePer as a reward of TRL's trainers: rollouts in, rewards out, and the search tool they use."""

from typing import TYPE_CHECKING, Any

from seper_reward.reward.environment import RetrievalEnvironment, environment_factory
from seper_reward.reward.reward import SePerReward, delta_seper
from seper_reward.reward.rollouts import read_rollouts

if TYPE_CHECKING:
    from seper_reward.reward.trainer import TurnCreditGRPOTrainer

__all__ = [
    "RetrievalEnvironment",
    "SePerReward",
    "TurnCreditGRPOTrainer",
    "delta_seper",
    "environment_factory",
    "read_rollouts",
]


def __getattr__(name: str) -> Any:
    """Import the trainer when it is used: a reward in front of a server needs neither torch nor TRL."""
    if name == "TurnCreditGRPOTrainer":
        from seper_reward.reward.trainer import TurnCreditGRPOTrainer

        return TurnCreditGRPOTrainer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
