"""ΔSePer (semantic perplexity reduction) as retrieval labels and as a reward.

Source: Dai et al., "SePer: Measure Retrieval Utility Through The Lens Of Semantic Perplexity Reduction",
ICLR 2025, arXiv:2503.01478.
"""

from .entailment import EntailmentScorer
from .environment import environment_factory
from .estimators import Estimator
from .labeling import label_dataset
from .reward import SePerReward
from .sampling import ResponseSampler
from .scorer import SePerScorer
from .types import Belief, Passage, Query, Utility

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
