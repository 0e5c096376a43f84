"""Entropies of sampled responses (Kuhn et al., arXiv:2302.09664): pure functions on tensors."""

from collections.abc import Sequence

import torch
from torch import Tensor


def predictive_entropy(token_log_probs: Sequence[Tensor]) -> Tensor:
    """Estimate the entropy of the responses by Monte Carlo (Kuhn et al., arXiv:2302.09664, eq. 1).

    S tensors ``(T_s,)`` of natural-log probabilities, of responses sampled at temperature 1, give a scalar in nats, >=
    0: the mean over responses of -log p(response). Without a response it raises ``ValueError``.
    """
    if not token_log_probs:
        raise ValueError("token_log_probs must contain at least one response, got none")
    return -torch.stack([row.double().sum() for row in token_log_probs]).mean()


def semantic_entropy(weights: Tensor, cluster_ids: Tensor) -> Tensor:
    """Return the entropy of the clusters' probabilities (Kuhn et al., arXiv:2302.09664, eq. 4, discrete form).

    ``weights`` ``(S,)`` are response probabilities that sum to 1, and ``cluster_ids`` ``(S,)`` integers in [0, C).
    Returns a scalar in nats, in [0, log S].
    """
    masses = torch.nn.functional.one_hot(cluster_ids).to(weights).T @ weights  # (C,)
    entropy: Tensor = -torch.special.xlogy(masses, masses).sum()
    return entropy
