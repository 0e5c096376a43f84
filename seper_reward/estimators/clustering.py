"""Semantic clusters of sampled responses, and entropies (Kuhn et al., arXiv:2302.09664): pure functions on tensors."""

from collections.abc import Sequence
from typing import get_args

import torch
from torch import Tensor

from seper_reward.estimators.seper import Clusters
from seper_reward.options import check_choice


def cluster_ids(equivalent: Tensor, clusters: str = "components") -> Tensor:
    """Group responses that mean the same, by mutual entailment.

    ``equivalent``, ``(S, S)`` bool, is whether response i entails response j; a link needs both directions, and each
    response is linked to itself. Returns ``(S,)`` integers in [0, C), numbered in order of first appearance; a matrix
    that is not square raises ``ValueError``.

    ``components`` are the connected components, in any order of the samples. ``complete`` and ``greedy`` depend on the
    order. With ``complete``, a sample joins the first cluster with all of whose members it is linked, or opens a new
    one: all pairs of a cluster are equivalent (arXiv:2503.01478, eq. 4). With ``greedy``, as in the official code,
    each sample without a cluster opens one, and all later samples linked to it join, even from an earlier cluster.

    >>> cluster_ids(torch.tensor([[1, 0, 1], [0, 1, 0], [1, 0, 1]], dtype=torch.bool))
    tensor([0, 1, 0])
    """
    check_choice("clusters", clusters, get_args(Clusters))
    if equivalent.ndim != 2 or equivalent.shape[0] != equivalent.shape[1]:
        raise ValueError(f"equivalent must be square (S, S), got {tuple(equivalent.shape)}")
    linked: list[list[bool]] = (equivalent & equivalent.T).fill_diagonal_(True).tolist()
    ids = {"components": _components, "complete": _complete, "greedy": _greedy}[clusters](linked)
    return torch.tensor(ids, dtype=torch.long, device=equivalent.device)


def _components(linked: Sequence[Sequence[bool]]) -> list[int]:
    ids, clusters = [-1] * len(linked), 0
    for sample in range(len(linked)):
        if ids[sample] < 0:
            ids[sample], members = clusters, [sample]
            for member in members:  # which grows
                joining = [other for other, link in enumerate(linked[member]) if link and ids[other] < 0]
                for other in joining:
                    ids[other] = clusters
                members += joining
            clusters += 1
    return ids


def _complete(linked: Sequence[Sequence[bool]]) -> list[int]:
    clusters: list[list[int]] = []
    ids: list[int] = []
    for sample, others in enumerate(linked):
        fitting = (cluster for cluster, members in enumerate(clusters) if all(others[member] for member in members))
        ids.append(next(fitting, len(clusters)))
        if ids[-1] == len(clusters):
            clusters.append([])
        clusters[ids[-1]].append(sample)
    return ids


def _greedy(linked: Sequence[Sequence[bool]]) -> list[int]:
    ids, clusters = [-1] * len(linked), 0
    for sample, others in enumerate(linked):
        if ids[sample] < 0:
            ids[sample:] = [clusters if link else old for old, link in zip(ids[sample:], others[sample:], strict=True)]
            clusters += 1
    return ids


def heaviest_clusters(cluster_ids: Sequence[int], weights: Sequence[float]) -> list[tuple[float, list[int]]]:
    """Return each cluster's probability mass and the positions of its members among S responses, heaviest first."""
    members: dict[int, list[int]] = {}
    for place, cluster in enumerate(cluster_ids):
        members.setdefault(cluster, []).append(place)
    masses = [(sum(weights[place] for place in places), places) for places in members.values()]
    return sorted(masses, key=lambda cluster: -cluster[0])


def predictive_entropy(token_log_probs: Sequence[Tensor]) -> Tensor:
    """Estimate the entropy of the responses by Monte Carlo (Kuhn et al., arXiv:2302.09664, eq. 1).

    S tensors ``(T_s,)`` of natural-log probabilities, of responses sampled at temperature 1, give a scalar in nats, >=
    0: the mean over responses of -log p(response). Without a response it raises ``ValueError``.
    """
    if not token_log_probs:
        raise ValueError("token_log_probs must contain at least one response, got none")
    return -torch.stack([log_probs.double().sum() for log_probs in token_log_probs]).mean()


def semantic_entropy(weights: Tensor, cluster_ids: Tensor) -> Tensor:
    """Return the entropy of the clusters' probabilities (Kuhn et al., arXiv:2302.09664, eq. 4, discrete form).

    ``weights`` ``(S,)`` are response probabilities that sum to 1, and ``cluster_ids`` ``(S,)`` integers in [0, C).
    Returns a scalar in nats, in [0, log S].
    """
    masses = torch.nn.functional.one_hot(cluster_ids).to(weights).T @ weights  # (C,)
    entropy: Tensor = -torch.special.xlogy(masses, masses).sum()
    return entropy
