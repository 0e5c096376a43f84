"""Pure: which pairs of texts a judge must be asked for, and the belief that follows from the answers."""

import itertools
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from seper_reward.estimators.clustering import cluster_ids
from seper_reward.estimators.entropy import predictive_entropy, semantic_entropy
from seper_reward.estimators.seper import (
    Estimator,
    entailment_kernel,
    match_clusters,
    response_weights,
    seper_hard,
    seper_soft,
    standard_error,
)
from seper_reward.types import Belief, Responses

Pair = tuple[str, str]  # premise, hypothesis


def support_pairs(options: Estimator, responses: Sequence[str], answers: Sequence[str]) -> set[Pair]:
    """Return the pairs that tell how far responses support answers."""
    backward = set() if options.kernel == "forward" else set(itertools.product(answers, responses))
    return backward | set(itertools.product(responses, answers))


def first_pairs(options: Estimator, responses: Sequence[str], answers: Sequence[str]) -> set[Pair]:
    """Return the pairs to be judged first: for support, and of responses in one direction."""
    among = itertools.combinations_with_replacement(sorted(set(responses)), 2)
    return support_pairs(options, responses, answers) | set(among)


def second_pairs(options: Estimator, responses: Sequence[str], probs: Mapping[Pair, Tensor]) -> set[Pair]:
    """Return the other direction of those pairs of responses that entail in the first: equivalence needs both."""
    pairs = itertools.combinations(sorted(set(responses)), 2)
    return {(two, one) for one, two in pairs if _entails(options, probs[one, two])}


def belief(options: Estimator, sampled: Responses, answers: Sequence[str], probs: Mapping[Pair, Tensor]) -> Belief:
    """Compute the belief in the gold answer from S sampled responses.

    Args:
        options: of the estimator.
        sampled: the responses.
        answers: the A aliases of the gold answer.
        probs: class probabilities ``(K,)``, entailment first, of the pairs of ``first_pairs`` and ``second_pairs``.
    """
    support, agrees = _support(options, sampled.texts, answers, probs)
    weights = response_weights(sampled.token_log_probs, options.weighting)
    ids = cluster_ids(_equivalent(options, sampled.texts, probs))
    gold = match_clusters(ids, agrees, _threshold(options))
    return Belief(
        seper=float(seper_soft(weights, support, options.aliases)),
        seper_hard=float(seper_hard(weights, ids, gold, options.aliases)),
        std_error=float(standard_error(weights, support, options.aliases)),
        entropy=float(predictive_entropy(sampled.token_log_probs)),
        semantic_entropy=float(semantic_entropy(weights, ids)),
        responses=sampled.texts,
        weights=tuple(weights.tolist()),
        cluster_ids=tuple(ids.tolist()),
        support=tuple(map(tuple, support.tolist())),
    )


def belief_std_error(
    options: Estimator, sampled: Responses, answers: Sequence[str], probs: Mapping[Pair, Tensor]
) -> float:
    """Return the standard error that ``belief`` would have, from the pairs of ``support_pairs`` alone."""
    support, _ = _support(options, sampled.texts, answers, probs)
    return float(
        standard_error(response_weights(sampled.token_log_probs, options.weighting), support, options.aliases)
    )


def _support(
    options: Estimator, responses: Sequence[str], answers: Sequence[str], probs: Mapping[Pair, Tensor]
) -> tuple[Tensor, Tensor]:
    """Return how far each response supports each answer, soft and as hard matching reads it, ``(S, A)`` each."""
    forward = _table(probs, responses, answers)  # (S, A, K)
    backward = None if options.kernel == "forward" else _table(probs, answers, responses).transpose(0, 1)

    def read(reading: Callable[[Tensor], Tensor]) -> Tensor:
        return entailment_kernel(reading(forward), None if backward is None else reading(backward), options.kernel)

    return read(_probability), read(_agreement(options))


def _equivalent(options: Estimator, responses: Sequence[str], probs: Mapping[Pair, Tensor]) -> Tensor:
    # a pair never judged is one whose other direction failed
    both = [[(one, two) in probs and _entails(options, probs[one, two]) for two in responses] for one in responses]
    return torch.tensor(both)  # (S, S) bool


def _entails(options: Estimator, class_probs: Tensor) -> bool:
    return bool(_agreement(options)(class_probs) >= _threshold(options))


def _agreement(options: Estimator) -> Callable[[Tensor], Tensor]:
    return _likeliest if options.match == "argmax" else _probability


def _threshold(options: Estimator) -> float:
    """Return from where on an agreement counts; of an arg-max, a majority of a cluster's members decides."""
    return 0.5 if options.match == "argmax" else options.threshold


def _table(probs: Mapping[Pair, Tensor], premises: Sequence[str], hypotheses: Sequence[str]) -> Tensor:
    rows = [torch.stack([probs[premise, hypothesis] for hypothesis in hypotheses]) for premise in premises]
    return torch.stack(rows)  # (premises, hypotheses, K)


def _probability(class_probs: Tensor) -> Tensor:
    return class_probs[..., 0]


def _likeliest(class_probs: Tensor) -> Tensor:
    return (class_probs.argmax(-1) == 0).float()
