"""From responses to a belief. This module exports only the formulas, which work on tensors without a model."""

from seper_reward.estimators.clustering import predictive_entropy, semantic_entropy
from seper_reward.estimators.seper import (
    Estimator,
    entailment_kernel,
    match_clusters,
    response_weights,
    seper_hard,
    seper_soft,
)

__all__ = [
    "Estimator",
    "entailment_kernel",
    "match_clusters",
    "predictive_entropy",
    "response_weights",
    "semantic_entropy",
    "seper_hard",
    "seper_soft",
]
