"""ΔSePer (semantic perplexity reduction) as retrieval labels and as a reward.

Source: Dai et al., "SePer: Measure Retrieval Utility Through The Lens Of Semantic Perplexity Reduction",
ICLR 2025, arXiv:2503.01478.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seper_reward.client import AsyncSePerClient, SePerClient
    from seper_reward.estimators.entailment import EntailmentScorer
    from seper_reward.estimators.seper import Estimator
    from seper_reward.labels.dataset import label_dataset
    from seper_reward.labels.load import load_labels
    from seper_reward.reader.in_process.response_sampler import ResponseSampler
    from seper_reward.reward import SePerReward
    from seper_reward.reward.environment import environment_factory
    from seper_reward.scorer import SePerScorer
    from seper_reward.types import Belief, Passage, Query, Utility

__version__ = version("seper-reward")

__all__ = [
    "AsyncSePerClient",
    "Belief",
    "EntailmentScorer",
    "Estimator",
    "Passage",
    "Query",
    "ResponseSampler",
    "SePerClient",
    "SePerReward",
    "SePerScorer",
    "Utility",
    "environment_factory",
    "label_dataset",
    "load_labels",
]

_HOMES = {
    "client": ("AsyncSePerClient", "SePerClient"),
    "estimators.entailment": ("EntailmentScorer",),
    "estimators.seper": ("Estimator",),
    "labels.dataset": ("label_dataset",),
    "labels.load": ("load_labels",),
    "reader.in_process.response_sampler": ("ResponseSampler",),
    "reward.environment": ("environment_factory",),
    "reward.reward": ("SePerReward",),
    "scorer": ("SePerScorer",),
    "types": ("Belief", "Passage", "Query", "Utility"),
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use: clients of a server work without torch."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
