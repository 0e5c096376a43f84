"""ΔSePer (semantic perplexity reduction) as retrieval labels and as a reward.

Source: Dai et al., "SePer: Measure Retrieval Utility Through The Lens Of Semantic Perplexity Reduction",
ICLR 2025, arXiv:2503.01478.
"""

from importlib.metadata import version

from seper_reward.estimators.entailment import EntailmentScorer
from seper_reward.estimators.seper import Estimator
from seper_reward.labels.dataset import label_dataset
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from seper_reward.reward import SePerReward
from seper_reward.reward.environment import environment_factory
from seper_reward.scorer import SePerScorer
from seper_reward.types import Belief, Passage, Query, Utility

__version__ = version("seper-reward")

__all__ = [
    "Belief",
    "EntailmentScorer",
    "Estimator",
    "Passage",
    "Query",
    "ResponseSampler",
    "SePerReward",
    "SePerScorer",
    "Utility",
    "environment_factory",
    "label_dataset",
]
