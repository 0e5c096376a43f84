"""ΔSePer as a reward of TRL's trainers: rollouts in, rewards out, and the search tool they use."""

from seper_reward.reward.environment import RetrievalEnvironment, environment_factory
from seper_reward.reward.reward import SePerReward, delta_seper

__all__ = ["RetrievalEnvironment", "SePerReward", "delta_seper", "environment_factory"]
