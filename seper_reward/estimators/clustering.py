"""Semantic clusters of sampled responses: pure functions on tensors."""

from collections.abc import Sequence

import torch
from torch import Tensor


def cluster_ids(equivalent: Tensor) -> Tensor:
    """Group responses that mean the same: connected components of mutual entailment.

    The paper (after Kuhn et al., arXiv:2302.09664) compares each response with the first member of each cluster,
    so its clusters depend on the order of the samples when entailment is not transitive; components do not.

    Args:
        equivalent: ``(S, S)`` bool, whether response i entails response j; a link needs both directions, and each
            response is linked to itself.

    Returns:
        ``(S,)`` integers in [0, C), numbered in order of first appearance.

    Raises:
        ValueError: The matrix is not square.

    >>> cluster_ids(torch.tensor([[1, 0, 1], [0, 1, 0], [1, 0, 1]], dtype=torch.bool))
    tensor([0, 1, 0])
    """
    if equivalent.ndim != 2 or equivalent.shape[0] != equivalent.shape[1]:
        raise ValueError(f"equivalent must be square (S, S), got {tuple(equivalent.shape)}")
    samples = len(equivalent)
    linked = equivalent & equivalent.T | torch.eye(samples, dtype=torch.bool)
    first = torch.arange(samples)
    for _ in range(samples):  # each round carries the smallest index of a component one link further
        reachable = torch.where(linked, first[None, :], samples)  # (S, S)
        smallest = reachable.min(dim=1).values if samples else first
        if torch.equal(smallest, first):
            break
        first = smallest
    ids: Tensor = torch.unique(first, sorted=True, return_inverse=True)[1]
    return ids


def heaviest_clusters(cluster_ids: Sequence[int], weights: Sequence[float]) -> list[tuple[float, list[int]]]:
    """Return each cluster's probability mass and the places of its members, the heaviest cluster first.

    Args:
        cluster_ids: Cluster of each of S responses.
        weights: Their S probabilities.

    >>> heaviest_clusters([0, 1, 0], [0.25, 0.5, 0.125])
    [(0.5, [1]), (0.375, [0, 2])]
    """
    members: dict[int, list[int]] = {}
    for place, cluster in enumerate(cluster_ids):
        members.setdefault(cluster, []).append(place)
    masses = [(sum(weights[place] for place in places), places) for places in members.values()]
    return sorted(masses, key=lambda cluster: -cluster[0])
