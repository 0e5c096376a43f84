"""Clusters of mutual entailment: connected components, or the official code's greedy pass."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seper_reward.estimators.clustering import cluster_ids


def matrix(samples, links):
    equivalent = torch.zeros(samples, samples, dtype=torch.bool)
    for i, j in links:
        equivalent[i, j] = equivalent[j, i] = True
    return equivalent


def test_cluster_ids_one_direction_does_not_join():
    equivalent = torch.tensor([[True, True], [False, True]])
    assert cluster_ids(equivalent).tolist() == [0, 1]


def slow_components(samples, links):
    label = list(range(samples))
    for i, j in links:
        old, new = max(label[i], label[j]), min(label[i], label[j])
        label = [new if value == old else value for value in label]
    return [sorted(set(label)).index(value) for value in label]


def slow_complete(samples, links):
    linked = {(i, j) for i, j in links} | {(j, i) for i, j in links}
    labels = []
    for sample in range(samples):
        for label in range(sample + 1):
            if all((sample, other) in linked for other in range(sample) if labels[other] == label):
                labels.append(label)
                break
    return labels


def slow_greedy(samples, links):
    linked = {frozenset(link) for link in links}
    owner = {}
    for one in range(samples):
        if one not in owner:
            for other in range(one, samples):
                if other == one or frozenset((one, other)) in linked:
                    owner[other] = one
    order = sorted(set(owner.values()))
    return [order.index(owner[sample]) for sample in range(samples)]


@pytest.mark.parametrize(
    ("clusters", "slow"), [("components", slow_components), ("complete", slow_complete), ("greedy", slow_greedy)]
)
@given(st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.tuples(*[st.integers(0, n - 1)] * 2)))))
def test_cluster_ids_against_a_slow_loop(clusters, slow, case):
    samples, links = case
    assert cluster_ids(matrix(samples, links), clusters).tolist() == slow(samples, links)


def test_cluster_ids_refuses_bad_input():
    with pytest.raises(ValueError, match="square"):
        cluster_ids(torch.zeros(2, 3, dtype=torch.bool))
    with pytest.raises(ValueError, match="clusters must be one of components, complete, greedy, got 'first'"):
        cluster_ids(matrix(2, []), "first")
