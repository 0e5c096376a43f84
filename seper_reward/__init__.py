"""ΔSePer (semantic perplexity reduction) as retrieval labels and as a reward.

Source: Dai et al., "SePer: Measure Retrieval Utility Through The Lens Of Semantic Perplexity Reduction",
ICLR 2025, arXiv:2503.01478.
"""

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seper_reward.client import SePerClient as SePerClient
    from seper_reward.estimators.seper import Estimator as Estimator
    from seper_reward.labels.dataset import label as label
    from seper_reward.labels.load import load_labels as load_labels
    from seper_reward.reward import SePerReward as SePerReward
    from seper_reward.reward.environment import search_environment as search_environment
    from seper_reward.scorer import SePerScorer as SePerScorer
    from seper_reward.types import Belief as Belief
    from seper_reward.types import Passage as Passage
    from seper_reward.types import Query as Query
    from seper_reward.types import Utility as Utility

__version__ = version("seper-reward")

_HOMES = {
    "client": ("SePerClient",),
    "estimators.seper": ("Estimator",),
    "labels.dataset": ("label",),
    "labels.load": ("load_labels",),
    "reward.environment": ("search_environment",),
    "reward.reward": ("SePerReward",),
    "scorer": ("SePerScorer",),
    "types": ("Belief", "Passage", "Query", "Utility"),
}
__all__ = [name for names in _HOMES.values() for name in names]


def __getattr__(name: str) -> Any:
    """Import a public name on first use: clients of a server work without torch."""
    from seper_reward.runtime.imports import lazy_name

    return lazy_name(__name__, name, _HOMES)
